"""kb session: open, log, close, list and show."""

import json
import re
from datetime import UTC, datetime

import pytest

from kernelkb.cli import main
from kernelkb.model.session import Entry, Session, SessionLine
from kernelkb.record.open_session import current
from kernelkb.record.sessions import append, read

ID = "2026-11-21-gemm"


def new(*more):
    assert main(["session", "new", ID, "gemm at half of cuBLAS", *more]) == 0


def lines(capsys):
    capsys.readouterr()
    assert main(["session", "list", "--json"]) == 0
    return [SessionLine.model_validate(one) for one in json.loads(capsys.readouterr().out)]


def test_a_new_session_is_the_open_one_and_says_what_it_is_for(project, capsys):
    new("--kernel", "gemm")
    found = read(ID, project / "sessions")

    assert capsys.readouterr().out == f"opened {project}/sessions/{ID}.md\n"
    assert (found.goal, found.kernel, found.plan) == ("gemm at half of cuBLAS", "gemm", None)
    assert current(project) == ID


@pytest.mark.parametrize(
    ("plan", "phases"),
    [
        ("baseline", ["assess", "build", "baseline"]),
        ("optimize", ["assess", "build", "baseline", "optimise", "validate"]),
    ],
)
def test_a_plan_has_the_phases_with_gates_and_budgets(project, capsys, plan, phases):
    new("--plan", plan)
    found = read(ID, project / "sessions")

    assert [phase.phase for phase in found.phases] == phases
    assert all(phase.gates and phase.budget_min > 0 for phase in found.phases)
    text = (project / "sessions" / f"{ID}.md").read_text()
    assert text.count("| [ ] |") == sum(len(phase.gates) for phase in found.phases)
    assert "What does the fastest reference take" in text


def test_what_is_logged_goes_to_the_open_session(project, capsys):
    new()
    assert main(["session", "log", "--goal", "read the profile"]) == 0

    assert [entry.goal for entry in read(ID, project / "sessions").entries] == ["read the profile"]


def test_what_is_logged_with_no_session_open_goes_to_todays(project, capsys):
    assert main(["session", "log", "--goal", "x", "--kernel", "gemm", "--json"]) == 0

    today = datetime.now(UTC).date()
    assert json.loads(capsys.readouterr().out)["session"] == f"{today}-gemm"


def test_closing_logs_the_lessons_and_leaves_none_open(project, capsys):
    new("--kernel", "gemm")
    words = ["--went-right", "profiled first", "--went-wrong", "guessed", "--cost-usd", "3.5"]
    assert main(["session", "close", *words]) == 0

    found = read(ID, project / "sessions")
    (entry,) = found.entries
    assert found.closed
    assert (entry.went_right, entry.went_wrong) == (("profiled first",), ("guessed",))
    assert (entry.cost_usd, entry.kernel, entry.by) == (3.5, "gemm", "close")
    assert current(project) is None


def test_closing_another_one_leaves_the_open_one_open(project, capsys):
    append(Entry(session="old", at=datetime.now(UTC), goal="g"), project / "sessions")
    new()
    assert main(["session", "close", "old"]) == 0

    assert current(project) == ID
    assert [(one.session, one.state) for one in lines(capsys)] == [
        (ID, "current"),
        ("old", "closed"),
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["close"], "no session is open; name one"),
        (["close", "nobody"], "unknown session 'nobody'"),
        (["new", "../x", "goal"], "session field session"),
        (["new", "last", "goal"], "last means the latest"),
        (["log", "--goal", "x", "--session", "last"], "last means the latest"),
        (["new", "x", "goal", "--kernel", "Big Kernel"], "session field kernel"),
        (["close", "--cost-usd", "-1"], "no session is open"),
    ],
)
def test_misuse_is_one_line_and_writes_nothing(project, capsys, words, text):
    assert main(["session", *words]) == 2

    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1
    assert list(project.rglob("*")) == [project / "sessions"]


def test_a_session_is_opened_and_closed_once(project, capsys):
    new()
    assert main(["session", "new", ID, "again"]) == 2
    assert "already; choose another id" in capsys.readouterr().err
    assert main(["session", "close"]) == 0
    assert main(["session", "close", ID]) == 2

    assert "is closed already" in capsys.readouterr().err
    assert current(project) is None


def test_opening_one_while_another_is_open_says_so(project, capsys):
    new()
    assert main(["session", "new", "next", "goal"]) == 0

    assert f"{ID} is not closed; kb session close {ID}" in capsys.readouterr().out
    assert current(project) == "next"


def test_the_list_names_what_is_open_and_survives_what_it_cannot_read(project, capsys):
    new("--kernel", "gemm")
    append(Entry(session="broken", at=datetime.now(UTC), goal="g"), project / "sessions")
    path = project / "sessions" / "broken.md"
    path.write_text(path.read_text().replace("goal:", "gaol:"))
    (project / "sessions" / "2026-01-01-old.yaml").write_text("---\nsession: 2026-01-01-old\n")
    first, second = lines(capsys)

    assert (first.session, first.state, first.kernel) == (ID, "current", "gemm")
    assert (first.goal, second.session) == ("gemm at half of cuBLAS", "broken")
    assert second.state == "unreadable"
    assert main(["session", "list"]) == 0
    assert "kb session show broken says where" in capsys.readouterr().out


def test_show_prints_the_plan_and_the_entries(project, capsys):
    new("--plan", "baseline")
    main(["session", "log", "--goal", "read the profile", "--went-wrong", "guessed"])
    capsys.readouterr()
    assert main(["session", "show", ID]) == 0
    out = capsys.readouterr().out
    assert "open: gemm at half of cuBLAS" in out
    assert re.search(r"assess +30 min, of which tools .*: claims-verified, reference-measured", out)
    assert "wrong    guessed" in out
    assert main(["session", "show", ID, "--json"]) == 0

    assert Session.model_validate_json(capsys.readouterr().out) == read(ID, project / "sessions")


def test_check_says_where_a_session_is_wrong(project, capsys):
    new()
    path = project / "sessions" / f"{ID}.md"
    path.write_text(path.read_text().replace("goal:", "gaol:"))
    capsys.readouterr()
    assert main(["check"]) == 1

    assert (
        f"sessions/{ID}.md:4:1: gaol: unknown key (did you mean 'goal'?)" in capsys.readouterr().out
    )


def test_a_mistake_in_the_open_session_loses_nothing(project, capsys):
    new()
    path = project / "sessions" / f"{ID}.md"
    path.write_text(path.read_text().replace("goal:", "gaol:"))
    assert main(["session", "log", "--goal", "kept"]) == 0

    assert main(["session", "show", f"{datetime.now(UTC).date()}-notes"]) == 0
    assert "kept" in capsys.readouterr().out
