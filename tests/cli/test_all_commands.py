"""No command of ``kb`` ends in a traceback, with any argument, file or kernel."""

import io
import os
import subprocess
import sys

import pytest
from odd_calls import list_commands, list_kernel_calls, list_odd_calls, make_odd_project
from shipped_rules import leave_out_slow_checks

from kernelkb.cli import main

# Each call takes seconds, or serves until it is stopped; these have tests of their own.
_SLOW = ("env", "sweep", "web", "worker")
_WRITES_SHIPPED_FILES = (["quickref", "--write"], ["guide", "--write"])
_LOADS_A_KERNEL = ("triage", "build", "bench", "profile", "tune", "show", "variant")
COMMANDS = [one for one in list_commands() if one[0][0] not in _SLOW]
_WRITTEN_FILES = ("export", "output", "page", "table")


@pytest.fixture
def odd_project(tmp_path, monkeypatch):
    """A project with everything that a command may fail on, entered; without a GPU."""
    leave_out_slow_checks(monkeypatch)
    monkeypatch.chdir(make_odd_project(tmp_path / "project"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("KB_DATABASE", raising=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))


def find_fault(call, capsys):
    """Run a call; return what is wrong with how it ended, or None."""
    try:
        status = main(call)
    except SystemExit as error:  # argparse: a wrong argument, or --help
        status = error.code
    except Exception as error:
        return f"{call}: {type(error).__name__}: {error}"
    out, err = capsys.readouterr()
    if status not in (0, 1, 2):
        return f"{call}: exit status {status}"
    if status == 2 and not err.strip() and "cure" not in out:
        return f"{call}: exit status 2 and no reason"
    return f"{call}: {err}" if "Traceback" in out + err else None


@pytest.mark.parametrize(("words", "parser"), COMMANDS, ids=[" ".join(w) for w, _ in COMMANDS])
def test_odd_arguments_are_refused_in_words(words, parser, odd_project, capsys):
    calls = list_odd_calls(words, parser)
    calls += list_kernel_calls(words, parser) if words[0] in _LOADS_A_KERNEL else []
    faults = [
        fault
        for call in calls
        if call[:2] not in _WRITES_SHIPPED_FILES
        if (fault := find_fault(call, capsys)) is not None
    ]

    assert not faults


def test_a_dash_is_never_the_name_of_a_file_that_an_option_writes(capsys):
    options = [
        (parser, action.option_strings[-1])
        for _, parser in list_commands()
        for action in parser._actions
        if action.option_strings and action.dest in _WRITTEN_FILES
    ]

    assert len(options) >= 5
    for parser, option in options:
        with pytest.raises(SystemExit):
            parser.parse_args([option, "-"])
        assert "'-' is not standard output here" in capsys.readouterr().err


def test_a_kernel_for_gpus_only_needs_no_default_workload_for_cpus(odd_project, capsys):
    assert main(["triage", "cuda_only"]) == 2

    assert "cure:" in capsys.readouterr().out


def test_a_kernel_without_a_default_workload_names_its_workloads(odd_project, capsys):
    assert main(["bench", "defaultless", "--target", "cpu"]) == 2

    assert "no default workload for cpu; name one (large, small)" in capsys.readouterr().err


@pytest.mark.parametrize("word", [os.fsdecode(b"caf\xe9"), "--goal=--"])
def test_a_word_that_no_file_can_hold_is_refused(word, odd_project, capsys):
    assert main(["session", "log", "--goal", "g", word]) == 2

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert repr(word) in err


@pytest.mark.parametrize(
    ("script", "status", "complaint"),
    [
        ('rmdir "$PWD"; exec "$@" recommend --speedup 1.5', 2, "working directory was removed"),
        ('exec "$@" recommend --speedup 1.5 >&-', 0, ""),
        ('exec "$@" recommend --speedup 1.5 >/dev/full', 2, "no space left on device"),
        ('PYTHONIOENCODING=ascii exec "$@" roofline --gpu l4 --bytes 1GiB', 0, ""),
    ],
)
def test_an_odd_place_to_run_or_to_print_is_no_traceback(script, status, complaint, tmp_path):
    program = "import sys; from kernelkb.cli import start; sys.exit(start())"
    command = ["/bin/sh", "-c", script, "sh", sys.executable, "-c", program]
    (tmp_path / "here").mkdir()
    outcome = subprocess.run(
        command, cwd=tmp_path / "here", capture_output=True, text=True, timeout=120
    )

    assert outcome.returncode == status, outcome.stderr
    assert complaint in outcome.stderr
    assert outcome.stderr.count("\n") == bool(complaint)
