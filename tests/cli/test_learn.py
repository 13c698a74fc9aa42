"""kb learn in a project: what it writes, forgets and takes back."""

import json

import pytest
from session_histories import decision, session

from kernelkb.cli import main
from kernelkb.record.sessions import append


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with two sessions, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("good", "other"):
        record(tmp_path, name, share=0.6)
    return tmp_path


def record(project, name, **what):
    for entry in session(name, decision(**what), steps=[("build", 60.0)]).entries:
        append(entry, project / "sessions")


def remove(project, name):
    (file,) = (project / "sessions").glob(f"{name}.*")
    file.unlink()


def kb(capsys, *words, status=0):
    assert main(list(words)) == status
    return capsys.readouterr().out


def lessons(project):
    return (project / "knowledge" / "learned.yaml").read_bytes()


def test_every_number_that_changed_is_printed_with_its_sessions(project, capsys):
    out = kb(capsys, "learn")

    assert "remap-threads-coalesced for uncoalesced-global-access on sm_90 (good, other)" in out
    assert "calibration       none -> 0.7429" in out
    record(project, "third", share=0.1)
    assert "calibration       0.7429 -> 0.6625" in kb(capsys, "learn")


def test_a_dry_run_writes_nothing(project, capsys):
    assert "0.7429" in kb(capsys, "learn", "--dry-run")
    assert not (project / "knowledge").exists()
    assert not (project / ".kb").exists()


def test_learning_again_changes_nothing(project, capsys):
    kb(capsys, "learn")
    before = lessons(project)

    assert kb(capsys, "learn").startswith("no number changed")
    assert lessons(project) == before


def test_undo_puts_the_file_back_byte_for_byte(project, capsys):
    kb(capsys, "learn")
    before = lessons(project)
    record(project, "third", share=0.1)
    kb(capsys, "learn")
    after = lessons(project)
    kb(capsys, "learn", "--undo")

    assert lessons(project) == before
    kb(capsys, "learn", "--undo")
    assert lessons(project) == after


def test_undo_of_the_first_lesson_leaves_no_file(project, capsys):
    kb(capsys, "learn")
    kb(capsys, "learn", "--undo")

    assert not (project / "knowledge" / "learned.yaml").exists()


def test_undo_before_any_lesson_says_so(project, capsys):
    assert main(["learn", "--undo"]) == 2
    assert "nothing to undo" in capsys.readouterr().err


def test_a_poisoned_session_goes_without_a_trace(project, capsys):
    kb(capsys, "learn")
    clean = lessons(project)
    record(project, "poison", share=-1.0)
    kb(capsys, "learn")
    poisoned = lessons(project)
    kb(capsys, "learn", "--forget", "poison")

    assert lessons(project) == clean + b"forgotten:\n- poison\n"
    kb(capsys, "learn", "--unforget", "poison")
    assert lessons(project) == poisoned
    remove(project, "poison")
    kb(capsys, "learn")
    assert lessons(project) == clean


def test_a_forgotten_session_stays_forgotten(project, capsys):
    kb(capsys, "learn", "--forget", "other")
    before = lessons(project)
    kb(capsys, "learn")

    assert lessons(project) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--forget", "nobody"), "unknown session 'nobody'"),
        (("--unforget", "good"), "unknown forgotten session 'good'"),
        (("--undo", "--dry-run"), "--undo writes"),
    ],
)
def test_what_cannot_be_is_refused(project, capsys, words, says):
    assert main(["learn", *words]) == 2
    assert says in capsys.readouterr().err


def test_the_next_answer_uses_what_was_learned(project, capsys):
    given = ("sector_load_useful_bytes=8", "load_sector_count=4e6", "load_request_count=2.5e5")
    numbers = [word for one in (*given, "l2_utilization=0.5") for word in ("--metric", one)]
    ask = ("recommend", "--gpu", "h100-sxm", "--json", *numbers)
    kb(capsys, "learn")
    (kernel,) = json.loads(kb(capsys, *ask))["kernels"]
    first = next(d for d in kernel["diagnoses"] if d.get("learned"))

    assert first["bottleneck"] == "uncoalesced-global-access"
    assert first["learned"]["calibration"] == 0.7429
    assert first["learned"]["sessions"] == ["good", "other"]


def test_a_project_s_own_row_comes_before_the_shipped_one(project, capsys):
    kb(capsys, "learn")
    shown = json.loads(kb(capsys, "show", "uncoalesced-global-access", "--json"))
    rows = [row for row in shown["learned"] if row["fix"] == "remap-threads-coalesced"]

    assert [row["sessions"] for row in rows] == [["good", "other"]]
    assert "0.74 of its estimate" in kb(capsys, "show", "learned")


def test_what_was_only_tried_here_leaves_the_shipped_row(project, capsys):
    for name in ("good", "other"):
        remove(project, name)
    record(project, "tried", measured=None, interval=None)
    kb(capsys, "learn")
    shown = json.loads(kb(capsys, "show", "uncoalesced-global-access", "--json"))
    rows = [row for row in shown["learned"] if row["fix"] == "remap-threads-coalesced"]

    assert "tried" in lessons(project).decode()
    assert [row["sessions"] == ["tried"] for row in rows] == [False]


def test_json_holds_the_changes_and_the_whole_lesson(project, capsys):
    found = json.loads(kb(capsys, "learn", "--dry-run", "--json"))

    assert found["written"] is False
    assert found["learned"]["sessions"] == ["good", "other"]
    assert {"what", "number", "old", "new", "sessions"} == set(found["changes"][0])


def test_candidates_wait_for_a_person(project, capsys):
    record(project, "third", share=0.6)
    out = kb(capsys, "learn")

    assert "uncoalesced-global-access -> remap-threads-coalesced -> faster" in out
    assert [p.name for p in (project / "knowledge").iterdir()] == ["learned.yaml"]


def test_a_lesson_edited_by_hand_is_refused_with_its_line(project, capsys):
    kb(capsys, "learn")
    file = project / "knowledge" / "learned.yaml"
    file.write_text(file.read_text().replace("fix: remap-threads", "fix: remapp-threads", 1))

    assert main(["recommend", "--speedup", "0.3"]) == 2
    assert "knowledge/learned.yaml:3:3: " in capsys.readouterr().err


def test_learning_mends_a_row_that_no_longer_fits_the_knowledge(project, capsys):
    kb(capsys, "learn")
    before = lessons(project)
    renamed = before.replace(b"fix: remap-threads", b"fix: remapp-threads", 1)
    (project / "knowledge" / "learned.yaml").write_bytes(renamed)
    kb(capsys, "learn")

    assert lessons(project) == before


def test_a_row_that_stands_twice_is_refused(project, capsys):
    kb(capsys, "learn")
    file = project / "knowledge" / "learned.yaml"
    head, body = file.read_text().split("fixes:\n")
    fixes, rest = body.split("phases:\n")
    file.write_text(f"{head}fixes:\n{fixes}{fixes}phases:\n{rest}")

    assert main(["recommend", "--speedup", "0.3"]) == 2
    assert "stands twice" in capsys.readouterr().err


def test_a_folder_of_somebody_elses_is_left_alone(project, capsys):
    (project / "knowledge").mkdir()
    (project / "knowledge" / "notes.yaml").write_text("a: 1\n")

    assert main(["learn"]) == 2
    assert "no knowledge" in capsys.readouterr().err
