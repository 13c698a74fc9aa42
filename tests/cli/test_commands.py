"""``kb`` as a shell calls it: text, JSON, exit status."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel
from shipped_rules import validate_answer

from kernelkb.cli import main
from kernelkb.cli.session import VERBS
from kernelkb.commands import COMMANDS, spell_command
from kernelkb.model.answers.recommendation import PrintedRecommendation
from kernelkb.model.records.measurement import Bench, Build, Environment, Profile

KB_COMMAND = [sys.executable, "-c", "import sys; from kernelkb.cli import main; sys.exit(main())"]


def run(*words, **more):
    return subprocess.run(
        [*KB_COMMAND, *words], capture_output=True, text=True, timeout=240, **more
    )


def test_recommend_with_two_metrics_stops_and_names_the_ncu_command(capsys):
    assert main(["recommend", "--speedup", "0.3", "--occupancy", "0.4"]) == 1

    out = capsys.readouterr().out
    assert out.startswith("STOP (stop-and-profile)")
    assert "$ ncu --section SpeedOfLight" in out
    assert main(["recommend", "--speedup", "0.3", "--occupancy", "0.4", "--all"]) == 1
    assert "cannot say: that an occupancy" in capsys.readouterr().out


@pytest.mark.parametrize(("speedup", "code"), [("0.3", 1), ("0.7", 0), ("1.5", 0), ("3", 0)])
def test_only_a_stop_is_exit_1(capsys, speedup, code):
    assert main(["recommend", "--speedup", speedup]) == code


def test_json_output_has_the_contract_keys(capsys):
    main(["recommend", "--speedup", "0.3", "--json"])
    found = json.loads(capsys.readouterr().out)

    validate_answer(found, PrintedRecommendation)
    assert set(found) == {"kernels", "knowledge"}


def test_percent_and_share_are_the_same(capsys):
    main(["recommend", "--bandwidth", "88%", "--json"])
    percent = capsys.readouterr().out
    main(["recommend", "--bandwidth", "0.88", "--json"])

    assert capsys.readouterr().out == percent


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["recommend", "--occupancy", "40"], "write 0.40 or 40%"),
        (["recommend", "--speedup", "nan"], "leave it out when it was not measured"),
        (["recommend", "--speedup", "fast"], "is not a number"),
        (["recommend", "--metric", "occupency=0.4"], "did you mean 'occupancy'?"),
        (["recommend", "--metric", "waves"], "has no value; write --metric waves=0.5"),
        (["recommend", "--gpu", "H1000"], "unknown GPU 'h1000' (did you mean"),
        (["triage", "row_softmx"], "unknown kernel 'row_softmx' (did you mean 'row_softmax'?)"),
        (["bench", "row_softmax", "--variant", "nave"], "did you mean 'naive'?"),
        (["bench", "row_softmax", "--workload", "huge"], "unknown workload of row_softmax 'huge'"),
        (["triage", "row_softmax", "--workload", "hugee"], "unknown workload of row_softmax"),
        (["triage", "row_softmax", "--variant", "warp", "--target", "cpu"], "unknown cpu variant"),
        (["show", "uncoalesced-global-acces"], "did you mean 'uncoalesced-global-access'?"),
        (["session", "show", "yesterday"], "no session was recorded"),
        (["session", "log", "--goal", "x", "--session", "../x"], "session field session"),
    ],
)
def test_misuse_is_one_line_with_the_cure_and_exit_2(project, capsys, words, text):
    assert main(words) == 2

    err = capsys.readouterr().err
    assert text in err
    assert err.startswith("kb: ")
    assert err.count("\n") == 1
    assert list(project.rglob("*")) == [project / "sessions"]


def test_misuse_from_a_real_shell_prints_no_traceback(project):
    done = run("bench", "row_softmx")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_typo_in_kernel_yaml_is_found_by_every_command(project, capsys):
    path = make_broken_kernel(project, "right") / "kernel.yaml"
    path.write_text(path.read_text().replace("tolerances:", "tolerences:"))

    assert main(["triage", "broken"]) == 2
    assert "unknown key (did you mean 'tolerances'?)" in capsys.readouterr().err
    assert main(["check"]) == 1
    assert "kernel.yaml:" in capsys.readouterr().out


def test_shipped_knowledge_is_valid(project, capsys):
    assert main(["check"]) == 0
    assert "no problems" in capsys.readouterr().err


def test_check_of_a_broken_folder_prints_clickable_lines(knowledge_copy, capsys):
    path = knowledge_copy / "trees" / "performance-gate.yaml"
    path.write_text(path.read_text().replace("root:", "rot:"))

    assert main(["check", str(knowledge_copy)]) == 1
    assert "performance-gate.yaml:" in capsys.readouterr().out


def test_check_of_a_missing_folder_is_a_problem(tmp_path, capsys):
    assert main(["check", str(tmp_path / "nowhere")]) == 1
    assert "no such folder" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["metrics", "bottlenecks", "fixes", "devices", "kernels", "trees"])
def test_show_lists_each_kind(project, capsys, kind):
    assert main(["show", kind, "--json"]) == 0

    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(set(row) == {"id", "title"} for row in rows)


@pytest.mark.parametrize("entry", ["small-grid", "split-k", "h100-sxm", "row_softmax", "waves"])
def test_show_prints_an_entry(project, capsys, entry):
    assert main(["show", entry]) == 0
    assert f"id: {entry}" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = run(command, "--help")

    assert done.returncode == 0
    assert f"usage: {spell_command(command)}" in done.stdout


# A worker serves until it is stopped, and returns nothing.
RETURNING = [command for command in COMMANDS if command not in ("session", "variant", "worker")]
ALL_COMMANDS = [*RETURNING, *(f"session {verb}" for verb in VERBS), "variant add"]


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_command_speaks_json(command, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])

    assert "--json" in capsys.readouterr().out


def test_a_stale_quick_reference_is_exit_1(capsys, monkeypatch):
    monkeypatch.setattr(
        "kernelkb.actions.knowledge.documents.generate_quickref", lambda: "something else"
    )

    assert main(["quickref", "--check"]) == 1
    assert "stale" in capsys.readouterr().err


def test_a_closed_pipe_prints_no_traceback(project):
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(KB_COMMAND)} show metrics | head -1"],
        capture_output=True,
        text=True,
    )

    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_env_names_every_line_and_its_cure(project, capsys):
    assert main(["env", "--target", "cuda", "--json"]) in (0, 1)

    found = Environment.model_validate_json(capsys.readouterr().out)
    assert all(line.cure for line in found.lines if line.status == "failure")


@pytest.mark.parametrize(
    ("command", "record"),
    [
        ("build", Build),
        pytest.param("bench", Bench, marks=pytest.mark.slow),
        pytest.param("profile", Profile, marks=pytest.mark.slow),
    ],
)
def test_a_step_prints_its_record(project, capsys, command, record):
    make_broken_kernel(project, "right")

    assert main([command, "broken", "--target", "cpu", "--json"]) == 0
    record.model_validate_json(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["build", "bench", "profile"])
def test_a_kernel_that_does_not_compile_is_exit_1_with_the_cure(project, capsys, command):
    make_broken_kernel(project, "does-not-compile")

    assert main([command, "broken", "--target", "cpu"]) == 1

    out = capsys.readouterr().out
    assert "naive.cpp:7:" in out
    assert "fix naive.cpp" in out


@pytest.mark.slow
def test_a_hang_is_ended_after_the_time_that_was_given(project, capsys):
    make_broken_kernel(project, "endless")

    assert main(["bench", "broken", "--target", "cpu", "--timeout", "5"]) == 1
    assert "did not finish within 5 s" in capsys.readouterr().out


def test_a_session_is_logged_and_shown(project, capsys):
    assert main(["session", "log", "--goal", "faster", "--went-wrong", "guessed"]) == 0
    assert main(["session", "show"]) == 0

    out = capsys.readouterr().out
    assert "faster" in out
    assert "wrong    guessed" in out


def test_an_unwritable_project_is_reported(project, capsys):
    shutil.rmtree(project / "sessions")
    Path("sessions").write_text("a file")

    assert main(["session", "log", "--goal", "x"]) == 2
    assert "cannot write" in capsys.readouterr().err
