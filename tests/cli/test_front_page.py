"""``kb`` without a command, its help, ``kb lab``, and what a misspelt word is answered."""

import os
import re
import subprocess
import sys

import pytest

from kernelkb.cli import main
from kernelkb.commands import COMMANDS, GROUPS, is_lab_command, spell_command

SHOWN = [name for name in COMMANDS if not is_lab_command(name)]
SELDOM = [name for name in COMMANDS if is_lab_command(name)]


def list_rows(text):
    return re.findall(r"^  ([a-z]+)  +\S", text, re.MULTILINE)


@pytest.fixture
def empty_project(tmp_path, monkeypatch):
    (tmp_path / ".kb").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_lists_at_most_21_commands_in_groups(capsys):
    assert main(["--help"]) == 0

    out = capsys.readouterr().out
    assert list_rows(out) == SHOWN
    assert len(SHOWN) <= 21
    assert re.findall(r"\n\n([a-z ]+): ", out)[: len(GROUPS)] == [*GROUPS]


def test_help_of_lab_lists_the_others(capsys):
    assert main(["lab", "--help"]) == 0

    assert sorted(list_rows(capsys.readouterr().out)) == sorted(SELDOM)


def test_help_loads_no_command(tmp_path):
    program = (
        "import sys; from kernelkb.cli import main; main(['--help']); "
        "sys.exit(','.join(m for m in sys.modules if m.startswith('kernelkb.actions')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stderr.strip() == ""


@pytest.mark.parametrize("words", [["lab", "best"], ["best"]])
def test_a_seldom_command_has_its_old_spelling_too(words, empty_project, capsys):
    assert main([*words, "--json"]) == 0

    assert capsys.readouterr().out == "[]\n"


def test_kb_alone_says_in_five_lines_how_to_begin(empty_project, capsys):
    assert main([]) == 0

    what, project, session, following, more = capsys.readouterr().out.splitlines()
    assert what.startswith("KernelKB ")
    assert project == f"project: {os.path.realpath(empty_project)}, no kernels yet"
    assert session == "session: none is open"
    assert following.startswith("next: kb init FILE")
    assert more.startswith("help: kb --help")


def test_kb_alone_names_the_kernels_and_the_open_session(empty_project, capsys):
    for name in ("scale", "add"):
        (empty_project / "kernels" / name).mkdir(parents=True)
        (empty_project / "kernels" / name / "kernel.yaml").touch()
    main([])
    assert "kernels add, scale\n" in (without := capsys.readouterr().out)
    assert "next: kb triage add" in without

    main(["session", "new", "2026-11-27-add", "add at 90 % of the copy"])
    capsys.readouterr()
    main([])

    out = capsys.readouterr().out
    assert "session: 2026-11-27-add\n" in out
    assert "next: kb session show --brief" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["bnech", "x"], "unknown command 'bnech' (did you mean 'kb bench'?)"),
        (["lab", "grph"], "unknown command 'grph' (did you mean 'kb lab graph'?)"),
        (["regres"], "did you mean 'kb lab regress'?"),
        (["xyzzy"], "unknown command 'xyzzy'; kb --help lists them"),
        (["lab", "bench"], "kb lab has no bench; it is kb bench"),
        (["--json", "recommend"], "--json names no command; options follow it"),
    ],
)
def test_a_misspelt_command_is_answered_with_the_nearest(words, text, capsys):
    assert main(words) == 2

    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "usage", "text"),
    [
        (["bench", "x", "--bugdet", "3"], "kb bench", "(did you mean '--budget'?)"),
        (["lab", "best", "--nonsense"], "kb lab best", "unrecognized arguments: --nonsense"),
        (["session", "list", "--jsn"], "kb session list", "(did you mean '--json'?)"),
        (["session", "lst"], "kb session", "(did you mean 'list'?)"),
        (["bench", "x", "--target", "cuad"], "kb bench", "(did you mean 'cuda'?)"),
        (["lab", "import"], "kb lab import", "arguments are required: FILE"),
    ],
)
def test_a_wrong_option_is_answered_with_the_usage_of_its_command(words, usage, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)

    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert err.startswith(f"usage: {usage} [")
    assert text in err


def test_every_command_is_written_in_one_way():
    assert [spell_command(name) for name in ("bench", "best", "session show")] == [
        "kb bench",
        "kb lab best",
        "kb session show",
    ]
