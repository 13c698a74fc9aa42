"""Which session is open."""

from datetime import UTC, datetime

import pytest

from kernelkb.errors import SessionError
from kernelkb.model.records.session import Session, SessionEntry
from kernelkb.record.sessions import (
    append_entry,
    clear_open_session,
    create_session,
    find_open_session,
    session_path,
    set_open_session,
)

AT = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def project_with_open_session(tmp_path):
    """A project with an open session ``s``."""
    create_session(Session(session="s", opened=AT, goal="g"), tmp_path / "sessions")
    set_open_session(tmp_path, "s")
    return tmp_path


def test_initially_no_session_is_open(tmp_path):
    assert find_open_session(tmp_path) is None


def test_the_one_that_was_begun_is_open_until_it_ends(project_with_open_session):
    assert find_open_session(project_with_open_session) == "s"
    clear_open_session(project_with_open_session)
    clear_open_session(project_with_open_session)

    assert find_open_session(project_with_open_session) is None
    assert list((project_with_open_session / ".kb").iterdir()) == []


def test_the_one_that_was_begun_last_is_open(project_with_open_session):
    create_session(
        Session(session="t", opened=AT, goal="g"), project_with_open_session / "sessions"
    )
    set_open_session(project_with_open_session, "t")

    assert find_open_session(project_with_open_session) == "t"


def test_one_that_is_closed_counts_as_none(project_with_open_session):
    append_entry(
        SessionEntry(session="s", at=AT, goal="g", closes=True),
        project_with_open_session / "sessions",
    )

    assert find_open_session(project_with_open_session) is None


def test_a_session_without_its_file_is_not_open(project_with_open_session):
    session_path("s", project_with_open_session / "sessions").unlink()

    assert find_open_session(project_with_open_session) is None


def test_one_with_a_mistake_in_its_file_stays_open(project_with_open_session):
    session_path("s", project_with_open_session / "sessions").write_text("my notes\n")

    assert find_open_session(project_with_open_session) == "s"


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"../s\n", b"x" * 1000])
def test_a_malformed_marker_means_no_open_session(project_with_open_session, body):
    (project_with_open_session / ".kb" / "session").write_bytes(body)

    assert find_open_session(project_with_open_session) is None


def test_an_unwritable_project_is_reported(tmp_path):
    (tmp_path / ".kb").write_text("a file")

    with pytest.raises(SessionError, match="cannot write"):
        set_open_session(tmp_path, "s")
