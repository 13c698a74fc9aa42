"""Which session is open."""

from datetime import UTC, datetime

import pytest

from kernelkb.errors import SessionError
from kernelkb.model.session import Entry, Session
from kernelkb.record.open_session import begin, current, end
from kernelkb.record.sessions import append, create, path_of

AT = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def opened(tmp_path):
    """A project with an open session ``s``."""
    create(Session(session="s", opened=AT, goal="g"), tmp_path / "sessions")
    begin(tmp_path, "s")
    return tmp_path


def test_none_is_open_where_nobody_opened_one(tmp_path):
    assert current(tmp_path) is None


def test_the_one_that_was_begun_is_open_until_it_ends(opened):
    assert current(opened) == "s"
    end(opened)
    end(opened)

    assert current(opened) is None
    assert list((opened / ".kb").iterdir()) == []


def test_the_one_that_was_begun_last_is_open(opened):
    create(Session(session="t", opened=AT, goal="g"), opened / "sessions")
    begin(opened, "t")

    assert current(opened) == "t"


def test_one_that_is_closed_counts_as_none(opened):
    append(Entry(session="s", at=AT, goal="g", closes=True), opened / "sessions")

    assert current(opened) is None


def test_one_whose_file_is_gone_counts_as_none(opened):
    path_of("s", opened / "sessions").unlink()

    assert current(opened) is None


def test_one_with_a_mistake_in_its_file_stays_open(opened):
    path_of("s", opened / "sessions").write_text("my notes\n")

    assert current(opened) == "s"


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"../s\n", b"x" * 1000])
def test_a_mark_that_names_nothing_counts_as_none(opened, body):
    (opened / ".kb" / "session").write_bytes(body)

    assert current(opened) is None


def test_a_project_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / ".kb").write_text("a file")

    with pytest.raises(SessionError, match="cannot write"):
        begin(tmp_path, "s")
