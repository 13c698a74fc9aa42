"""Reading without writing: not even the files that SQLite makes by itself."""

import pytest
from measurements import timed

from kernelkb.errors import DatabaseError
from kernelkb.record.measurements.store import open_store, open_to_read


@pytest.fixture(autouse=True)
def own_database(monkeypatch):
    monkeypatch.delenv("KB_DATABASE", raising=False)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_recorded_is_found_by_the_beginning_of_its_id(tmp_path):
    made = timed()
    with open_store(tmp_path) as store:
        store.add([made])
    with open_to_read(tmp_path) as store:
        found = store.get(made.id[:6])

    assert found == made


def test_no_file_is_made_or_changed(tmp_path):
    made = timed()
    with open_store(tmp_path) as store:
        store.add([made])
    before = files(tmp_path)
    with open_to_read(tmp_path) as store:
        store.get(made.id)

        assert files(tmp_path) == before
    assert files(tmp_path) == before


def test_what_another_process_has_just_recorded_is_seen(tmp_path):
    made = timed()
    with open_store(tmp_path) as writer:
        writer.add([made])
        with open_to_read(tmp_path) as store:
            assert store.get(made.id) == made


def test_nothing_can_be_added(tmp_path):
    with open_store(tmp_path) as store:
        store.add([timed()])
    with open_to_read(tmp_path) as store, pytest.raises(DatabaseError):
        store.add([timed(us=20.0)])


def test_where_nothing_was_measured_no_database_is_made(tmp_path):
    with pytest.raises(DatabaseError, match="nothing was measured here"):
        open_to_read(tmp_path)

    assert list(tmp_path.iterdir()) == []
