"""Reading without writing: not even the files that SQLite makes by itself."""

import pytest
from measurements import make_bench

from kernelkb.errors import DatabaseError
from kernelkb.record.measurements.store import open_read_only, open_store


@pytest.fixture(autouse=True)
def use_default_database(monkeypatch):
    monkeypatch.delenv("KB_DATABASE", raising=False)


def read_files(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_record_is_found_by_an_id_prefix(tmp_path):
    made = make_bench()
    with open_store(tmp_path) as store:
        store.add([made])
    with open_read_only(tmp_path) as store:
        found = store.get(made.id[:6])

    assert found == made


def test_no_file_is_made_or_changed(tmp_path):
    made = make_bench()
    with open_store(tmp_path) as store:
        store.add([made])
    before = read_files(tmp_path)
    with open_read_only(tmp_path) as store:
        store.get(made.id)

        assert read_files(tmp_path) == before
    assert read_files(tmp_path) == before


def test_records_of_another_process_are_visible_at_once(tmp_path):
    made = make_bench()
    with open_store(tmp_path) as writer:
        writer.add([made])
        with open_read_only(tmp_path) as store:
            assert store.get(made.id) == made


def test_nothing_can_be_added(tmp_path):
    with open_store(tmp_path) as store:
        store.add([make_bench()])
    with open_read_only(tmp_path) as store, pytest.raises(DatabaseError):
        store.add([make_bench(us=20.0)])


def test_where_nothing_was_measured_no_database_is_made(tmp_path):
    with pytest.raises(DatabaseError, match="nothing was measured here"):
        open_read_only(tmp_path)

    assert list(tmp_path.iterdir()) == []
