"""``kb diagnose`` from a file and from stdin."""

import io
import json

import pytest

from kernelkb.cli import main

LOG = (
    b"ptxas error   : Entry function '_Z3bigPf' uses too much shared data "
    b"(0x18000 bytes, 0xc000 max)\n"
)


class Stdin:
    def __init__(self, data):
        self.buffer = io.BytesIO(data)


def test_diagnose_reads_a_log_file(tmp_path, capsys):
    file = tmp_path / "build.log"
    file.write_bytes(b"\xff\xfe noise\n" + LOG)

    assert main(["diagnose", str(file), "--gpu", "l4"]) == 1
    out = capsys.readouterr().out
    assert "ptxas-shared-memory-overflow" in out
    assert "(line 2)" in out
    assert "101,376" in out


def test_stdin_as_json(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Stdin(LOG))

    assert main(["diagnose", "-", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["symptoms"]
    assert row["captured"]["bytes"] == "0x18000"


def test_nothing_known_is_no_problem(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Stdin(b"all is well\n"))

    assert main(["diagnose"]) == 0
    out = capsys.readouterr().out
    assert "no known symptom" in out
    assert "no line reports an error" in out
    assert "read stdin: 1 line\n" in out


def test_an_unknown_error_shows_its_line_and_what_was_read(tmp_path, capsys):
    file = tmp_path / "build.log"
    file.write_text("compiling\ntables.py: error: row 7 is empty\nninja: build stopped\n")

    assert main(["diagnose", str(file)]) == 0
    out = capsys.readouterr().out
    assert "first error (line 2): tables.py: error: row 7 is empty" in out
    assert f"read {file}: 3 lines" in out


def test_entries_that_share_words_with_an_unknown_error_are_no_cure(monkeypatch, capsys):
    said = b"ValueError: TMA descriptor swizzle of the shared memory box is unsupported\n"
    monkeypatch.setattr("sys.stdin", Stdin(said))

    assert main(["diagnose"]) == 0
    out = capsys.readouterr().out
    assert "perhaps tma-swizzle: " in out
    assert "cure:" not in out


@pytest.mark.parametrize("said", [b"KeyError: 'lm_head.weight'\n", b"error: row 7 is empty\n"])
def test_an_error_of_another_field_suggests_nothing(said, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Stdin(said))

    assert main(["diagnose"]) == 0
    assert "perhaps" not in capsys.readouterr().out


def test_the_middle_of_a_long_log_is_left_out_and_the_answer_says_so(tmp_path, capsys):
    file = tmp_path / "long.log"
    file.write_bytes(b"compiling\n" * 120_000 + LOG)

    assert main(["diagnose", str(file)]) == 1
    out = capsys.readouterr().out
    assert "ptxas-shared-memory-overflow" in out
    assert "characters in the middle" in out


@pytest.mark.parametrize("name", ["absent.log", "."])
def test_an_unreadable_file_is_reported(name, capsys):
    assert main(["diagnose", name]) == 2
    assert f"cannot read {name}" in capsys.readouterr().err


def test_a_binary_file_is_no_log(tmp_path, capsys):
    file = tmp_path / "kernel.so"
    file.write_bytes(bytes(range(256)) * 100)

    assert main(["diagnose", str(file)]) == 0


PAGE = b"""copied from the terminal:
  copy(float *) (512, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    Metric Name             Metric Unit Metric Value
    DRAM Throughput                   %        91.25
    Duration                         us       812.50
"""


@pytest.mark.parametrize("command", [["diagnose", "-"], ["recommend", "--profile", "-"]])
def test_a_profile_is_answered_as_one(monkeypatch, capsys, command):
    monkeypatch.setattr("sys.stdin", Stdin(PAGE))

    assert main(command) == 0
    out = capsys.readouterr().out
    assert out.startswith("copy: ")
    assert "dram-bandwidth-bound" in out


def test_of_a_log_that_holds_a_profile_the_failure_comes_first(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Stdin(PAGE + LOG))

    assert main(["diagnose"]) == 1
    assert "ptxas-shared-memory-overflow" in capsys.readouterr().out
