"""A database file that was damaged, emptied or replaced by a pipe: each has a line of its own."""

import os
import sqlite3

import pytest
from measurements import make_bench

from kernelkb.cli import main
from kernelkb.errors import DatabaseError
from kernelkb.progress import progress_listener
from kernelkb.record.measurements.store import open_read_only, open_store


@pytest.fixture
def database(project):
    with open_store(project) as store:
        store.add([make_bench(hours=hour) for hour in range(200)])
    return project / ".kb" / "measurements.db"


def damage_pages(file, first):
    body = bytearray(file.read_bytes())
    for at in range(first * 4096, len(body), 4096):
        body[at + 2000] ^= 0xFF
        body[at] ^= 0x55
    file.write_bytes(body)


def test_a_read_of_damage_says_nothing_of_recording_and_shows_no_raw_bytes(database, capsys):
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE measurement SET body = CAST(x'7b22ff0180fe' AS TEXT)")
    connection.close()
    status = main(["history", "row_softmax"])
    said = capsys.readouterr().err

    assert status == 2
    assert len(said.splitlines()) == 1
    assert "recorded" not in said
    assert "damaged" in said
    assert said.isascii()


@pytest.mark.parametrize("first", [1, 12])
def test_damaged_pages_are_never_written_to(database, project, first):
    damage_pages(database, first)
    before = database.read_bytes()

    with (
        pytest.raises(DatabaseError, match="it is damaged; copy a backup over it"),
        open_store(project) as store,
    ):
        store.add([make_bench(us=99.0)])

    assert database.read_bytes() == before


@pytest.mark.parametrize("command", [["history", "row_softmax"], ["best"], ["export", "x.json"]])
def test_an_empty_file_is_not_an_empty_history(database, command, capsys):
    os.truncate(database, 0)
    for part in ("-wal", "-shm"):
        database.with_name(database.name + part).unlink(missing_ok=True)

    assert main(command) == 2
    assert "was empty" in capsys.readouterr().err
    assert not database.stat().st_size


def test_a_write_to_an_empty_file_says_that_it_begins_anew(database, project):
    os.truncate(database, 0)
    heard = []
    with progress_listener(heard.append), open_store(project) as store:
        assert store.add([make_bench()]) == 1

    assert [(event.kind, "was empty" in event.text) for event in heard] == [("notice", True)]


def test_a_pipe_in_place_of_the_database_is_named(project):
    (project / ".kb").mkdir()
    os.mkfifo(project / ".kb" / "measurements.db")
    for opens in (open_store, open_read_only):
        with pytest.raises(DatabaseError, match="not a regular file; move it away"):
            opens(project)
