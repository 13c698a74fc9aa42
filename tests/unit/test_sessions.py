"""Session files: appended whole, read back equal."""

import multiprocessing
import os
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli import main
from engine.errors import SessionError, UnknownNameError
from engine.model.session import Entry
from engine.record.sessions import append, read, session_id, sessions


def entry(goal="faster", session="2026-11-21-k"):
    return Entry(session=session, at=datetime(2026, 11, 21, tzinfo=UTC), goal=goal)


def test_an_entry_is_read_back_as_it_was(tmp_path):
    append(entry("eins: zwei — 'drei'"), tmp_path)

    assert read("2026-11-21-k", tmp_path) == [entry("eins: zwei — 'drei'")]


def _append_many(folder, name):
    for at in range(20):
        append(entry(f"{name} {at} " + "x" * 5000), folder)


def test_writers_at_the_same_time_lose_and_mix_nothing(tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(_append_many, [(tmp_path, name) for name in "abc"])

    assert len({e.goal for e in read("2026-11-21-k", tmp_path)}) == 60


def test_last_is_the_one_that_was_written_last(tmp_path):
    append(entry("old", "2026-11-22-k"), tmp_path)
    append(entry("new", "2026-11-21-k"), tmp_path)

    assert read("last", tmp_path)[0].goal == "new"


def test_an_unknown_session_is_offered_the_near_one(tmp_path):
    append(entry(), tmp_path)

    with pytest.raises(UnknownNameError, match="did you mean '2026-11-21-k'"):
        read("2026-11-12-k", tmp_path)


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "x.yaml").write_text("- 1\n- 2\n")

    with pytest.raises(SessionError, match="is not a session record"):
        read("x", tmp_path)


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SessionError, match="cannot write"):
        append(entry(), tmp_path / "file")


def test_ids_sort_by_day():
    assert session_id("k", datetime(2026, 2, 1, tzinfo=UTC).date()) < session_id(
        "a", datetime(2026, 10, 1, tzinfo=UTC).date()
    )


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029", "\ufeff", "\r\n", "\x00", "---\n"])
def test_a_strange_line_break_is_read_back_as_it_was(tmp_path, mark):
    written = entry(f"one{mark}two {mark}")
    append(written, tmp_path)

    assert read(written.session, tmp_path) == [written]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@given(
    goal=TEXT,
    wrong=st.lists(TEXT, max_size=3),
    metrics=st.dictionaries(st.sampled_from(["speedup", "waves"]), NUMBER),
    cost=st.none() | st.floats(0, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_any_entry_is_read_back_as_it_was(tmp_path_factory, goal, wrong, metrics, cost):
    folder = tmp_path_factory.mktemp("sessions")
    written = entry().model_copy(
        update={"goal": goal, "went_wrong": tuple(wrong), "metrics": metrics, "cost_usd": cost}
    )
    append(written, folder)

    assert read("2026-11-21-k", folder) == [written]


def test_entries_are_read_in_the_order_they_were_appended(tmp_path):
    for goal in ("one", "two", "three"):
        append(entry(goal), tmp_path)

    assert [e.goal for e in read("2026-11-21-k", tmp_path)] == ["one", "two", "three"]


def test_text_that_looks_like_a_new_document_stays_text(tmp_path):
    append(entry("before\n---\nsession: x\n..."), tmp_path)

    assert read("2026-11-21-k", tmp_path) == [entry("before\n---\nsession: x\n...")]


def test_an_entry_is_one_write(tmp_path, monkeypatch):
    sizes = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, body: sizes.append(len(body)) or real(fd, body))
    path = append(entry("x" * 100_000), tmp_path)

    assert sizes == [path.stat().st_size]


def test_a_full_disk_leaves_no_half_of_an_entry(tmp_path, monkeypatch):
    append(entry("whole"), tmp_path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, body: real(fd, body[:10]))

    with pytest.raises(SessionError, match="no space left"):
        append(entry("half"), tmp_path)

    monkeypatch.undo()
    assert read("2026-11-21-k", tmp_path) == [entry("whole")]


@pytest.mark.parametrize(
    "body",
    [
        b"goal: [torn",
        b"- 1\n",
        b"session: x\ngoal: y\n",
        b"\xff\xfe\x00",
        b"session: x\nat: 2026-13-01\ngoal: y\n",
        b"goal: \x07\n",
    ],
    ids=["torn", "a list", "no time", "binary", "an impossible date", "a bell"],
)
def test_whatever_is_no_record_is_said_and_not_thrown(tmp_path, body):
    (tmp_path / "x.yaml").write_bytes(body)

    with pytest.raises(SessionError, match=r"x\.yaml is not a session record"):
        read("x", tmp_path)


def test_a_record_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "x.yaml").mkdir()

    with pytest.raises(SessionError, match=r"x\.yaml"):
        read("x", tmp_path)


def test_a_link_that_leads_nowhere_does_not_hide_the_last_session(tmp_path):
    append(entry(), tmp_path)
    (tmp_path / "2026-11-22-gone.yaml").symlink_to(tmp_path / "nowhere")

    assert read("last", tmp_path) == [entry()]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ""])
def test_a_name_cannot_lead_out_of_the_folder(tmp_path, name):
    append(entry(), tmp_path / "sessions")
    (tmp_path / "x.yaml").write_text("secret: 1\n")

    with pytest.raises(UnknownNameError):
        read(name, tmp_path / "sessions")


def test_an_empty_file_has_no_entries(tmp_path):
    (tmp_path / "x.yaml").write_text("")

    assert read("x", tmp_path) == []


@pytest.mark.parametrize("body", ["- 1\n", "at: 2026-13-01\n", "goal: [torn"])
def test_kb_session_show_of_a_broken_file_is_one_line_and_exit_2(project, capsys, body):
    (project / "sessions" / "x.yaml").write_text(body)

    assert main(["session", "show", "x"]) == 2

    err = capsys.readouterr().err
    assert err.startswith("kb: ")
    assert err.count("\n") == 1


def test_session_ids_are_listed_by_day(tmp_path):
    for name in ("2026-11-03-b", "2026-02-10-z", "2026-11-03-a"):
        append(entry(session=name), tmp_path)

    assert sessions(tmp_path) == ["2026-02-10-z", "2026-11-03-a", "2026-11-03-b"]
