"""The history of a kernel on a full disk or in a damaged database: no file of the user is lost."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel
from full_disk import command_on_full_disk, run_kb_on_full_disk, why_impossible
from slow_examples import mark_slow

from kernelkb.actions.history import attempts as restore_module
from kernelkb.actions.kernels.measure_variant import build_variant
from kernelkb.cli import main
from kernelkb.errors import DatabaseError
from kernelkb.record.attempt_store import AttemptStore, open_attempts

SOURCE = Path("kernels/broken/naive.cpp")
MINE = "// mine, not built yet\n" * 300
SHOW = (
    "import sys; from kernelkb.cli import main; code = main(sys.argv[2:]); "
    "sys.stdout.flush(); sys.stdout.buffer.write(b'FILE:' + open(sys.argv[1], 'rb').read()); "
    "sys.exit(code)"
)


@pytest.fixture
def history(tmp_path, monkeypatch):
    """A project with two states, its file changed since, and the id of the first state."""
    project = tmp_path / "template"
    (project / "sessions").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    make_broken_kernel(project, "right")
    monkeypatch.chdir(project)
    monkeypatch.delenv("KB_PROJECT", raising=False)
    first = build_variant("broken", target="cpu").attempt
    SOURCE.write_text(SOURCE.read_text() + "static const int two = 2;\n")
    build_variant("broken", target="cpu")
    return first


@pytest.fixture
def disk(tmp_path):
    """A folder for the full disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    reason = why_impossible(disk)
    if reason:
        pytest.skip(f"no file system can be mounted in a namespace: {reason}")
    return disk


def restore_on_full_disk(disk, attempt, free_kib):
    """Return what ``kb lab restore`` says there, its status, and the file afterwards."""
    argv = command_on_full_disk(
        disk,
        disk,
        [sys.executable, "-c", SHOW, str(SOURCE), "restore", attempt],
        template=Path.cwd(),
        free_kib=free_kib,
        size_kib=8192,
    )
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    said, _, file = done.stdout.partition("FILE:")
    return said + done.stderr, done.returncode, file


def load_first(attempt):
    with open_attempts(Path.cwd()) as store:
        (key,) = [
            key for name, key in store.find(attempt).files.items() if name == SOURCE.as_posix()
        ]
        return store.read_file(key).decode()


@pytest.mark.parametrize("is_kept", mark_slow([True, False], [True]))
@pytest.mark.parametrize("free_kib", mark_slow([0, 8], [8]))
def test_a_restore_on_a_full_disk_leaves_one_whole_file(history, disk, free_kib, is_kept):
    if not is_kept:
        SOURCE.write_text(SOURCE.read_text() + MINE)
    old, new = SOURCE.read_text(), load_first(history)
    said, status, file = restore_on_full_disk(disk, history, free_kib)

    assert "Traceback" not in said
    assert file in (old, new)
    if file == old:
        assert status == 2
        assert "free some space" in said
        assert len(said.splitlines()) == 1
    else:
        assert status == 0
        assert f"restored {history[:8]}" in said
    if free_kib == 0:
        assert file == old


@pytest.fixture
def full(monkeypatch):
    """From now on, the database of attempts takes nothing."""

    def refuse(*_args, **_fields):
        raise DatabaseError("measurements.db: disk I/O error; free some space and run it again")

    return lambda: monkeypatch.setattr(AttemptStore, "add", refuse)


def test_a_restore_whose_entry_is_lost_is_done_and_says_so(history, full, capsys):
    new = load_first(history)
    full()

    assert main(["restore", history[:8]]) == 0
    said = capsys.readouterr().out
    assert SOURCE.read_text() == new
    assert len([line for line in said.splitlines() if "free some space" in line]) == 1


def test_what_is_saved_during_a_restore_comes_back_if_it_cannot_be_kept(
    history, full, monkeypatch, capsys
):
    exchange = restore_module.exchange_file

    def save_meanwhile(path, content):
        monkeypatch.setattr(restore_module, "exchange_file", exchange)
        path.write_text(MINE)
        full()
        return exchange(path, content)

    monkeypatch.setattr(restore_module, "exchange_file", save_meanwhile)

    assert main(["restore", history[:8]]) == 2
    assert SOURCE.read_text() == MINE
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_a_log_on_a_full_disk_is_whole_or_one_line(history, disk):
    done = run_kb_on_full_disk(
        disk, disk, ["log", "broken"], template=Path.cwd(), free_kib=0, size_kib=8192
    )
    said = done.stdout + done.stderr

    assert "Traceback" not in said
    assert history[:8] in said or ("free some space" in said and len(said.splitlines()) == 1)


@pytest.mark.parametrize("words", [["log", "broken"], ["restore", "FIRST"]])
@pytest.mark.parametrize("how", mark_slow(["head", "pages", "empty", "gone"], ["pages", "empty"]))
def test_a_damaged_history_is_said_in_one_line_and_changes_no_file(history, how, words, capsys):
    SOURCE.write_text(SOURCE.read_text() + MINE)
    old = SOURCE.read_bytes()
    damage(Path(".kb/measurements.db"), how)
    status = main([word.replace("FIRST", history[:8]) for word in words])
    said = capsys.readouterr()
    lines = (said.out + said.err).splitlines()

    assert "Traceback" not in said.out + said.err
    assert SOURCE.read_bytes() == old
    assert len(lines) == 1
    assert status == (0 if (how, words[0]) == ("gone", "log") else 2)


def damage(file, how):
    for part in ("-wal", "-shm"):
        file.with_name(file.name + part).unlink(missing_ok=True)
    body = bytearray(file.read_bytes())
    if how == "gone":
        file.unlink()
        return
    if how == "head":
        body[:200] = b"x" * 200
    elif how == "pages":
        for at in range(4096, len(body), 4096):
            body[at] ^= 0x55
            body[at + 2000] ^= 0xFF
    else:
        body.clear()
    file.write_bytes(body)


def test_a_damaged_source_file_in_the_history_leaves_the_users_file_whole(history, capsys):
    with sqlite3.connect(".kb/measurements.db") as connection:
        connection.execute("UPDATE source_file SET content = x'00'")
    connection.close()
    old = SOURCE.read_bytes()

    assert main(["restore", history[:8]]) == 2
    assert "is damaged" in capsys.readouterr().err
    assert SOURCE.read_bytes() == old
