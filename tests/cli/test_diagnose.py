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
    assert "no known symptom" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["absent.log", "."])
def test_an_unreadable_file_is_reported(name, capsys):
    assert main(["diagnose", name]) == 2
    assert f"cannot read {name}" in capsys.readouterr().err


def test_a_binary_file_is_no_log(tmp_path, capsys):
    file = tmp_path / "kernel.so"
    file.write_bytes(bytes(range(256)) * 100)

    assert main(["diagnose", str(file)]) == 0
