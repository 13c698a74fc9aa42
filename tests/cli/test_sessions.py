"""kb session: open, log, close, list and show."""

import json
import re
from datetime import UTC, datetime

import pytest

from kernelkb.cli import main
from kernelkb.model.records.session import Session, SessionEntry, SessionSummary
from kernelkb.record.sessions import append_entry, find_open_session, read_session

SESSION_ID = "2026-11-21-gemm"


def open_session(*more):
    assert main(["session", "new", SESSION_ID, "gemm at half of cuBLAS", *more]) == 0


def list_sessions(capsys):
    capsys.readouterr()
    assert main(["session", "list", "--json"]) == 0
    return [SessionSummary.model_validate(one) for one in json.loads(capsys.readouterr().out)]


def test_a_new_session_is_open_and_records_its_goal(project, capsys):
    open_session("--kernel", "gemm")
    found = read_session(SESSION_ID, project / "sessions")

    opened, follow = capsys.readouterr().out.splitlines()
    assert opened == f"opened {project}/sessions/{SESSION_ID}.md"
    assert follow == "next: kb triage gemm"
    assert (found.goal, found.kernel, found.plan) == ("gemm at half of cuBLAS", "gemm", None)
    assert find_open_session(project) == SESSION_ID


@pytest.mark.parametrize(
    ("plan", "phases"),
    [
        ("baseline", ["assess", "build", "baseline"]),
        ("optimize", ["assess", "build", "baseline", "optimise", "validate"]),
    ],
)
def test_a_plan_has_the_phases_with_gates_and_budgets(project, capsys, plan, phases):
    open_session("--plan", plan)
    found = read_session(SESSION_ID, project / "sessions")

    assert [phase.phase for phase in found.phases] == phases
    assert all(phase.gates and phase.budget_min > 0 for phase in found.phases)
    text = (project / "sessions" / f"{SESSION_ID}.md").read_text()
    assert text.count("| [ ] |") == sum(len(phase.gates) for phase in found.phases)
    assert "What does the fastest reference take" in text


def test_log_entries_go_to_the_open_session(project, capsys):
    open_session()
    assert main(["session", "log", "--goal", "read the profile"]) == 0

    assert [entry.goal for entry in read_session(SESSION_ID, project / "sessions").entries] == [
        "read the profile"
    ]


def test_log_entries_without_an_open_session_go_to_todays_session(project, capsys):
    assert main(["session", "log", "--goal", "x", "--kernel", "gemm", "--json"]) == 0

    today = datetime.now(UTC).date()
    assert json.loads(capsys.readouterr().out)["session"] == f"{today}-gemm"


def test_closing_logs_the_lessons_and_leaves_none_open(project, capsys):
    open_session("--kernel", "gemm")
    words = ["--went-right", "profiled first", "--went-wrong", "guessed", "--cost-usd", "3.5"]
    assert main(["session", "close", *words]) == 0

    found = read_session(SESSION_ID, project / "sessions")
    (entry,) = found.entries
    assert found.is_closed
    assert (entry.went_right, entry.went_wrong) == (("profiled first",), ("guessed",))
    assert (entry.cost_usd, entry.kernel, entry.by) == (3.5, "gemm", "close")
    assert find_open_session(project) is None


def test_closing_another_one_leaves_the_open_one_open(project, capsys):
    append_entry(SessionEntry(session="old", at=datetime.now(UTC), goal="g"), project / "sessions")
    open_session()
    assert main(["session", "close", "old"]) == 0

    assert find_open_session(project) == SESSION_ID
    assert [(one.session, one.state) for one in list_sessions(capsys)] == [
        (SESSION_ID, "current"),
        ("old", "closed"),
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["close"], "no session is open; `kb session list` lists all"),
        (["close", "nobody"], "unknown session 'nobody'"),
        (["new", "../x", "goal"], "session field session"),
        (["new", "last", "goal"], "last means the latest"),
        (["log", "--goal", "x", "--session", "last"], "last means the latest"),
        (["new", "x", "goal", "--kernel", "Big Kernel"], "unknown kernel 'Big Kernel'"),
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
    open_session()
    assert main(["session", "new", SESSION_ID, "again"]) == 2
    assert "already; choose another id" in capsys.readouterr().err
    assert main(["session", "close"]) == 0
    assert main(["session", "close", SESSION_ID]) == 2

    assert "is closed already" in capsys.readouterr().err
    assert find_open_session(project) is None


def test_opening_one_while_another_is_open_says_so(project, capsys):
    open_session()
    assert main(["session", "new", "next", "goal"]) == 0

    assert f"{SESSION_ID} is not closed; kb session close {SESSION_ID}" in capsys.readouterr().out
    assert find_open_session(project) == "next"


def test_the_list_marks_the_open_session_and_tolerates_unreadable_ones(project, capsys):
    open_session("--kernel", "gemm")
    append_entry(
        SessionEntry(session="broken", at=datetime.now(UTC), goal="g"), project / "sessions"
    )
    path = project / "sessions" / "broken.md"
    path.write_text(path.read_text().replace("goal:", "gaol:"))
    (project / "sessions" / "2026-01-01-old.yaml").write_text("---\nsession: 2026-01-01-old\n")
    first, second = list_sessions(capsys)

    assert (first.session, first.state, first.kernel) == (SESSION_ID, "current", "gemm")
    assert (first.goal, second.session) == ("gemm at half of cuBLAS", "broken")
    assert second.state == "unreadable"
    assert main(["session", "list"]) == 0
    assert "kb session show broken says where" in capsys.readouterr().out


def test_show_prints_the_plan_and_the_entries(project, capsys):
    open_session("--plan", "baseline")
    main(["session", "log", "--goal", "read the profile", "--went-wrong", "guessed"])
    capsys.readouterr()
    assert main(["session", "show", SESSION_ID]) == 0
    out = capsys.readouterr().out
    assert "open: gemm at half of cuBLAS" in out
    assert re.search(r"assess +30 min, of which tools .*: claims-verified, reference-measured", out)
    assert "wrong    guessed" in out
    assert main(["session", "show", SESSION_ID, "--json"]) == 0

    assert Session.model_validate_json(capsys.readouterr().out) == read_session(
        SESSION_ID, project / "sessions"
    )


def test_check_says_where_a_session_is_wrong(project, capsys):
    open_session()
    path = project / "sessions" / f"{SESSION_ID}.md"
    path.write_text(path.read_text().replace("goal:", "gaol:"))
    capsys.readouterr()
    assert main(["check"]) == 1

    assert (
        f"sessions/{SESSION_ID}.md:4:1: gaol: unknown key (did you mean 'goal'?)"
        in capsys.readouterr().out
    )


def test_a_mistake_in_the_open_session_loses_nothing(project, capsys):
    open_session()
    path = project / "sessions" / f"{SESSION_ID}.md"
    path.write_text(path.read_text().replace("goal:", "gaol:"))
    assert main(["session", "log", "--goal", "kept"]) == 0

    assert main(["session", "show", f"{datetime.now(UTC).date()}-notes"]) == 0
    assert "kept" in capsys.readouterr().out


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\n", b"\0---\n"], ids=["empty", "no text", "NUL"])
def test_a_log_that_cannot_go_to_the_open_session_says_so(project, capsys, body):
    assert main(["session", "new", "2026-01-01-x", "a goal"]) == 0
    (project / "sessions" / "2026-01-01-x.md").write_bytes(body)
    capsys.readouterr()

    assert main(["session", "log", "--goal", "g"]) == 0
    said = capsys.readouterr().out
    assert "not to the open session, whose file is damaged: " in said
    assert "2026-01-01-x.md" in said
    assert len(said.splitlines()) == 1


def test_a_brief_says_which_mistakes_recur(project, capsys):
    def log(session, *statuses, symptom="out-of-bounds-access"):
        steps = [
            {"name": "check", "variant": "mine", "status": status, "found": "x", "seconds": 1.0}
            | ({"symptom": symptom} if status == "failure" else {})
            for status in statuses
        ]
        entry = {"session": session, "at": datetime.now(UTC), "goal": "x", "kernel": "gemm"}
        append_entry(SessionEntry.model_validate({**entry, "steps": steps}), project / "sessions")

    open_session()
    log(SESSION_ID, "failure", "failure", "ok", "failure", "failure", "failure", "failure", "ok")
    log(SESSION_ID, "failure", symptom="flag-not-set")
    log(SESSION_ID, "failure", "failure", symptom=None)
    capsys.readouterr()
    assert main(["session", "show", "--brief"]) == 0

    lines = capsys.readouterr().out.splitlines()
    expected = "mistakes that recur: out-of-bounds-access 2 times, right after 3 steps"
    assert expected in lines
