"""kb lab learn in a project: what it writes, forgets and takes back."""

import json
from pathlib import Path

import pytest
from session_histories import make_decision, make_session

from kernelkb.cli import main
from kernelkb.record.sessions import append_entry

PAGE = Path(__file__).parents[1] / "data" / "ncu" / "row_softmax_full.csv"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with two sessions, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("good", "other"):
        record_session(tmp_path, name, share=0.6)
    return tmp_path


def record_session(project, name, **what):
    for entry in make_session(name, make_decision(**what), steps=[("build", 60.0)]).entries:
        append_entry(entry, project / "sessions")


def remove_session(project, name):
    (file,) = (project / "sessions").glob(f"{name}.*")
    file.unlink()


def run_kb(capsys, *words, status=0):
    assert main(list(words)) == status
    return capsys.readouterr().out


def read_learned_bytes(project):
    return (project / "knowledge" / "learned.yaml").read_bytes()


def test_every_number_that_changed_is_printed_with_its_sessions(project, capsys):
    out = run_kb(capsys, "learn")

    assert "remap-threads-coalesced for uncoalesced-global-access on sm_90 (good, other)" in out
    assert "calibration       none -> 0.8857" in out
    record_session(project, "third", share=0.1)
    assert "calibration       0.8857 -> 0.7875" in run_kb(capsys, "learn")


def test_a_dry_run_writes_nothing(project, capsys):
    assert "0.8857" in run_kb(capsys, "learn", "--dry-run")
    assert not (project / "knowledge").exists()
    assert not (project / ".kb").exists()


def test_learning_again_changes_nothing(project, capsys):
    run_kb(capsys, "learn")
    before = read_learned_bytes(project)

    assert run_kb(capsys, "learn").startswith("no number changed")
    assert read_learned_bytes(project) == before


def test_undo_puts_the_file_back_byte_for_byte(project, capsys):
    run_kb(capsys, "learn")
    before = read_learned_bytes(project)
    record_session(project, "third", share=0.1)
    run_kb(capsys, "learn")
    after = read_learned_bytes(project)
    run_kb(capsys, "learn", "--undo")

    assert read_learned_bytes(project) == before
    run_kb(capsys, "learn", "--undo")
    assert read_learned_bytes(project) == after


def test_undo_of_the_first_lesson_leaves_no_file(project, capsys):
    run_kb(capsys, "learn")
    run_kb(capsys, "learn", "--undo")

    assert not (project / "knowledge" / "learned.yaml").exists()


def test_undo_before_any_lesson_says_so(project, capsys):
    assert main(["learn", "--undo"]) == 2
    assert "nothing to undo" in capsys.readouterr().err


def test_forgetting_a_bad_session_restores_the_learned_file(project, capsys):
    run_kb(capsys, "learn")
    clean = read_learned_bytes(project)
    record_session(project, "poison", share=-1.0)
    run_kb(capsys, "learn")
    poisoned = read_learned_bytes(project)
    run_kb(capsys, "learn", "--forget", "poison")

    assert read_learned_bytes(project) == clean + b"forgotten:\n- poison\n"
    run_kb(capsys, "learn", "--unforget", "poison")
    assert read_learned_bytes(project) == poisoned
    remove_session(project, "poison")
    run_kb(capsys, "learn")
    assert read_learned_bytes(project) == clean


def test_a_forgotten_session_stays_forgotten(project, capsys):
    run_kb(capsys, "learn", "--forget", "other")
    before = read_learned_bytes(project)
    run_kb(capsys, "learn")

    assert read_learned_bytes(project) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--forget", "nobody"), "unknown session 'nobody'"),
        (("--unforget", "good"), "unknown forgotten session 'good'"),
        (("--undo", "--dry-run"), "--undo writes"),
    ],
)
def test_kb_learn_rejects_contradictory_options(project, capsys, words, says):
    assert main(["learn", *words]) == 2
    assert says in capsys.readouterr().err


def test_the_next_answer_uses_what_was_learned(project, capsys):
    ask = ("recommend", "--gpu", "h100-sxm", "--json", "--profile", str(PAGE))
    run_kb(capsys, "learn")
    (kernel,) = json.loads(run_kb(capsys, *ask))["kernels"]
    first = next(d for d in kernel["diagnoses"] if d.get("learned"))

    assert first["bottleneck"] == "uncoalesced-global-access"
    assert first["learned"]["calibration"] == 0.8857
    assert first["learned"]["sessions"] == ["good", "other"]


def test_a_project_s_own_row_comes_before_the_shipped_one(project, capsys):
    run_kb(capsys, "learn")
    shown = json.loads(run_kb(capsys, "show", "uncoalesced-global-access", "--json"))
    rows = [row for row in shown["learned"] if row["fix"] == "remap-threads-coalesced"]

    assert [row["sessions"] for row in rows] == [["good", "other"]]
    assert "0.89 of its estimate" in run_kb(capsys, "show", "learned")


def test_an_unmeasured_project_case_keeps_the_shipped_row(project, capsys):
    for name in ("good", "other"):
        remove_session(project, name)
    record_session(project, "tried", measured=None, interval=None)
    run_kb(capsys, "learn")
    shown = json.loads(run_kb(capsys, "show", "uncoalesced-global-access", "--json"))
    rows = [row for row in shown["learned"] if row["fix"] == "remap-threads-coalesced"]

    assert "tried" in read_learned_bytes(project).decode()
    assert [row["sessions"] == ["tried"] for row in rows] == [False]


def test_json_holds_the_changes_and_the_whole_lesson(project, capsys):
    found = json.loads(run_kb(capsys, "learn", "--dry-run", "--json"))

    assert found["written"] is False
    assert found["learned"]["sessions"] == ["good", "other"]
    assert {"what", "number", "old", "new", "sessions"} == set(found["changes"][0])


def test_candidates_wait_for_a_person(project, capsys):
    record_session(project, "third", share=0.6)
    out = run_kb(capsys, "learn")

    assert "uncoalesced-global-access -> remap-threads-coalesced -> faster" in out
    assert [p.name for p in (project / "knowledge").iterdir()] == ["learned.yaml"]


def test_a_lesson_edited_by_hand_is_refused_with_its_line(project, capsys):
    run_kb(capsys, "learn")
    file = project / "knowledge" / "learned.yaml"
    file.write_text(file.read_text().replace("fix: remap-threads", "fix: remapp-threads", 1))

    assert main(["recommend", "--speedup", "0.3"]) == 2
    assert "knowledge/learned.yaml:3:3: " in capsys.readouterr().err


def test_learning_repairs_a_row_with_an_unknown_fix(project, capsys):
    run_kb(capsys, "learn")
    before = read_learned_bytes(project)
    renamed = before.replace(b"fix: remap-threads", b"fix: remapp-threads", 1)
    (project / "knowledge" / "learned.yaml").write_bytes(renamed)
    run_kb(capsys, "learn")

    assert read_learned_bytes(project) == before


def test_a_row_that_stands_twice_is_refused(project, capsys):
    run_kb(capsys, "learn")
    file = project / "knowledge" / "learned.yaml"
    head, body = file.read_text().split("fixes:\n")
    fixes, rest = body.split("phases:\n")
    file.write_text(f"{head}fixes:\n{fixes}{fixes}phases:\n{rest}")

    assert main(["recommend", "--speedup", "0.3"]) == 2
    assert "has two rows" in capsys.readouterr().err


def test_a_knowledge_folder_without_knowledge_files_is_left_alone(project, capsys):
    (project / "knowledge").mkdir()
    (project / "knowledge" / "notes.yaml").write_text("a: 1\n")

    assert main(["learn"]) == 2
    assert "not KernelKB knowledge" in capsys.readouterr().err
