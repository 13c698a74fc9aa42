"""A database that cannot be read or written says so with the cure, and takes nothing back."""

import os
import random
import resource
import signal
import sqlite3
import tempfile
from multiprocessing import get_context
from pathlib import Path

import pytest
from measurements import make_bench
from postgres import run_postgres
from sqlalchemy import create_engine, text

from kernelkb.errors import BadValueError, DatabaseError, EnvironmentGapError
from kernelkb.record.measurements import database
from kernelkb.record.measurements.store import open_store


def run_in_child(work, *words):
    """Run a function in a process of its own, and return what it returns."""
    with get_context("fork").Pool(1) as pool:
        return pool.apply(work, words)


def add_until_full(folder):
    """Add measurements until no file may grow; return those that were acknowledged, and why."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    kept = []
    with open_store(folder) as store:
        for at in range(10_000):
            one = make_bench(us=float(at + 1))
            try:
                store.add([one])
            except DatabaseError as error:
                return kept, str(error)
            kept.append(one.id)
    return kept, ""


def test_a_full_disk_is_reported_and_loses_no_acknowledged_data(tmp_path):
    kept, why = run_in_child(add_until_full, tmp_path)
    with open_store(tmp_path) as store:
        there = {one.id for one in store.iter_all()}
        more = store.add([make_bench(us=0.5)])

    assert "nothing of this was recorded; free some space" in why
    assert len(kept) > 9
    assert set(kept) <= there
    assert more == 1


MAX_FILE_BYTES = 24 * 2**20  # more than a segment of the server's own log


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, resource.RLIM_INFINITY))


@pytest.mark.slow
def test_a_full_disk_of_the_server_is_reported_and_loses_nothing(tmp_path, bin_folder):
    draw = random.Random(0)
    kept, why = [], ""
    with (
        run_postgres(bin_folder, limit_file_size) as server,
        open_store(tmp_path, server.create_database()) as store,
    ):
        for at in range(1, 2 * MAX_FILE_BYTES // 2**20):
            batch = [
                make_bench(us=at + i / 1000, detail=draw.randbytes(2**15).hex()) for i in range(16)
            ]
            try:
                store.add(batch)
            except DatabaseError as error:
                why = str(error)
                break
            kept += batch

        assert "nothing of this was recorded; free some space" in why
        assert len(kept) > 0
        assert {one.id for one in kept} == {one.id for one in store.iter_all()}


def add_without_root(folder):
    """Add a measurement without root's rights; return what is said."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        with open_store(folder) as store:
            store.add([make_bench(us=99.0)])
    except DatabaseError as error:
        return str(error)
    return ""


@pytest.fixture
def project():
    """A folder that anybody may read, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


CURE = "run in a project that you may write to, or name another database in KB_DATABASE"


def test_an_unwritable_project_is_reported(project):
    project.chmod(0o555)

    assert CURE in run_in_child(add_without_root, project)


def test_an_unwritable_database_is_reported_and_keeps_its_data(project):
    with open_store(project) as store:
        store.add([make_bench()])
    for path in (project / ".kb").iterdir():
        path.chmod(0o444)
    (project / ".kb").chmod(0o555)
    said = run_in_child(add_without_root, project)
    (project / ".kb").chmod(0o755)
    (project / ".kb/measurements.db").chmod(0o644)

    assert CURE in said
    with open_store(project) as store:
        assert store.count() == 1


def test_a_locked_database_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_WAIT_S", 0.2)
    with open_store(tmp_path) as store:
        other = sqlite3.connect(tmp_path / ".kb/measurements.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            DatabaseError,
            match=r"locked; nothing of this was recorded; .* try again when it has ended",
        ):
            store.add([make_bench()])
        other.execute("ROLLBACK")
        other.close()

        assert store.count() == 0
        assert store.add([make_bench()]) == 1


def test_a_lost_server_is_reported_and_has_all_data_after_a_restart(tmp_path, bin_folder):
    with (
        run_postgres(bin_folder) as server,
        open_store(tmp_path, server.create_database()) as store,
    ):
        store.add([make_bench()])
        server.stop(signal.SIGQUIT)  # at once, as in a crash
        for _ in range(2):
            with pytest.raises(DatabaseError, match="start the server, or correct KB_DATABASE"):
                store.add([make_bench(us=11.0)])
        server.start()

        assert store.count() == 1
        assert store.add([make_bench(), make_bench(us=11.0)]) == 1


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.db").write_text("not a database, and long enough to be looked at " * 40)

    with pytest.raises(DatabaseError, match="it is no database of measurements; move it away"):
        open_store(tmp_path, f"sqlite:///{tmp_path / 'notes.db'}")


def test_a_database_of_a_newer_release_is_refused(address, tmp_path):
    open_store(tmp_path, address).close()
    engine = create_engine(database.resolve_url(tmp_path, address))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()

    with pytest.raises(DatabaseError, match=r"has revision 9999.*update KernelKB"):
        open_store(tmp_path, address)


@pytest.mark.parametrize("url", ["mysql://a:secret@b/c", "nonsense", "sqlite://"])
def test_an_address_that_is_none_is_refused_without_its_password(tmp_path, url):
    with pytest.raises(BadValueError, match="in KB_DATABASE") as caught:
        open_store(tmp_path, url)

    assert "secret" not in str(caught.value)


def test_an_unreachable_server_is_reported_without_showing_the_password(tmp_path):
    with pytest.raises(DatabaseError, match="start the server, or correct KB_DATABASE") as caught:
        open_store(tmp_path, "postgresql://me:secret@127.0.0.1:1/kb")

    assert "secret" not in str(caught.value)


def test_a_driver_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "find_spec", lambda _: None)

    with pytest.raises(EnvironmentGapError, match=r"pip install 'psycopg\[binary\]"):
        open_store(tmp_path, "postgresql://me@127.0.0.1/kb")
