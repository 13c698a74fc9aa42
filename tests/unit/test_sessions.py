"""Session files: appended whole, read back equal."""

import multiprocessing
from datetime import UTC, datetime

import pytest

from engine.errors import SessionError, UnknownNameError
from engine.model.session import Entry
from engine.record.sessions import append, read, session_id


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
