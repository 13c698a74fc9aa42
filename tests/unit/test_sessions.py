"""Session files: appended whole, read back equal, and nothing that was acknowledged is lost."""

import collections
import json
import multiprocessing
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kernelkb.cli import main
from kernelkb.errors import SessionError, UnknownNameError
from kernelkb.model.records.session import Session, SessionEntry
from kernelkb.record.session_text import format_entry
from kernelkb.record.sessions import (
    append_entry,
    create_session,
    list_session_ids,
    make_session_id,
    read_header,
    read_session,
    session_path,
)

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 11, 21, tzinfo=UTC)
SESSION_NAME = "2026-11-21-k"


def make_entry(goal="faster", session=SESSION_NAME):
    return SessionEntry(session=session, at=AT, goal=goal)


def read_goals(folder, name=SESSION_NAME):
    return [one.goal for one in read_session(name, folder).entries]


def test_an_entry_is_read_back_as_it_was(tmp_path):
    append_entry(make_entry("eins: zwei — 'drei'"), tmp_path)

    assert read_session(SESSION_NAME, tmp_path).entries == (make_entry("eins: zwei — 'drei'"),)


def test_the_first_entry_makes_the_file(tmp_path):
    path = append_entry(
        make_entry("faster").model_copy(update={"kernel": "gemm"}), tmp_path / "sessions"
    )
    found = read_session(SESSION_NAME, tmp_path / "sessions")

    assert path == tmp_path / "sessions" / f"{SESSION_NAME}.md"
    assert (found.goal, found.kernel, found.opened, found.kind) == (
        "faster",
        "gemm",
        AT,
        "recorded",
    )


def test_a_session_is_made_once(tmp_path):
    session = Session(session=SESSION_NAME, opened=AT, goal="one")
    create_session(session, tmp_path)

    with pytest.raises(SessionError, match="there is a session 2026-11-21-k already"):
        create_session(session.model_copy(update={"goal": "two"}), tmp_path)
    assert read_session(SESSION_NAME, tmp_path) == session
    assert [path.name for path in tmp_path.iterdir()] == [f"{SESSION_NAME}.md"]


def test_appending_preserves_hand_written_text(tmp_path):
    path = append_entry(make_entry("one"), tmp_path)
    with path.open("a") as file:
        file.write("\n## My thoughts\n\nNo end of line")
    before = path.read_bytes()
    append_entry(make_entry("two"), tmp_path)

    assert path.read_bytes().startswith(before)
    assert read_goals(tmp_path) == ["one", "two"]


def test_an_empty_file_gets_its_front_matter(tmp_path):
    session_path(SESSION_NAME, tmp_path).touch()
    append_entry(make_entry("one"), tmp_path)

    assert read_goals(tmp_path) == ["one"]


def append_many(folder, name):
    for at in range(20):
        append_entry(make_entry(f"{name} {at} " + "x" * 5000), folder)


def test_writers_at_the_same_time_lose_and_mix_nothing(tmp_path):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(append_many, [(tmp_path, name) for name in "abc"])

    assert len(set(read_goals(tmp_path))) == 60


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_appends_of_8_processes_that_are_killed_at_random_are_there_once(tmp_path, count):
    words = [tmp_path, "8", str(count), "0.03", str(os.getpid())]
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "support" / "killed_writers.py", *words],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    there = collections.Counter(read_goals(tmp_path, "s"))

    assert told["killed"] > count / 25
    assert len(told["acknowledged"]) == len(set(told["acknowledged"])) == 8 * count
    assert [goal for goal in told["acknowledged"] if there[goal] != 1] == []
    assert max(there.values()) == 1


@pytest.mark.slow
def test_a_reader_beside_writers_that_are_killed_sees_whole_entries_and_ever_more(tmp_path):
    words = [tmp_path, "3", "150", "0.02", str(os.getpid())]
    seen = [0]
    with subprocess.Popen(
        [sys.executable, ROOT / "tests" / "support" / "killed_writers.py", *words],
        stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as writers:  # fmt: skip
        while writers.poll() is None:
            if list_session_ids(tmp_path):
                seen.append(len(read_goals(tmp_path, "s")))

    assert writers.returncode == 0
    assert seen == sorted(seen)
    assert len(read_goals(tmp_path, "s")) >= 450


@pytest.mark.parametrize("share", [0.01, 0.03, 0.3, 0.5, 0.7])
def test_the_truncated_entry_of_a_killed_writer_is_ignored_and_removed(tmp_path, share):
    path = append_entry(make_entry("whole"), tmp_path)
    torn = format_entry(make_entry("torn é")).encode()
    before = path.stat().st_size
    with path.open("ab") as file:
        file.write(torn[: int(len(torn) * share)])
    assert read_goals(tmp_path) == ["whole"]
    append_entry(make_entry("next"), tmp_path)

    assert read_goals(tmp_path) == ["whole", "next"]
    assert path.stat().st_size - before <= len(format_entry(make_entry("next"))) + len("\n<!--")


def test_an_editor_that_puts_another_file_there_gets_the_entry_too(tmp_path, monkeypatch):
    path = append_entry(make_entry("one"), tmp_path)
    real = os.open

    def opened(name, *rest):
        descriptor = real(name, *rest)
        if name == path:
            monkeypatch.undo()
            saved = tmp_path / "saved"
            saved.write_bytes(path.read_bytes() + b"\nprose\n")
            saved.replace(path)
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    append_entry(make_entry("two"), tmp_path)

    assert read_goals(tmp_path) == ["one", "two"]
    assert "prose" in path.read_text()


def test_last_is_the_one_that_was_written_last(tmp_path):
    append_entry(make_entry("old", "2026-11-22-k"), tmp_path)
    append_entry(make_entry("new"), tmp_path)

    assert read_goals(tmp_path, "last") == ["new"]


def test_an_unknown_session_is_offered_the_near_one(tmp_path):
    append_entry(make_entry(), tmp_path)

    with pytest.raises(UnknownNameError, match="did you mean '2026-11-21-k'"):
        read_session("2026-11-12-k", tmp_path)


def test_ids_sort_by_day():
    assert make_session_id("k", datetime(2026, 2, 1, tzinfo=UTC).date()) < make_session_id(
        "a", datetime(2026, 10, 1, tzinfo=UTC).date()
    )


def test_entries_are_read_in_the_order_they_were_appended(tmp_path):
    for goal in ("one", "two", "three"):
        append_entry(make_entry(goal), tmp_path)

    assert read_goals(tmp_path) == ["one", "two", "three"]


def test_an_append_is_one_write(tmp_path, monkeypatch):
    path = append_entry(make_entry(), tmp_path)
    sizes, before = [], path.stat().st_size
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, body: sizes.append(len(body)) or real(fd, body))
    append_entry(make_entry("x" * 100_000), tmp_path)

    assert sizes == [path.stat().st_size - before]


def run_in_child(work):
    """Run ``work`` in a fork; return what it says."""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(ours, said.encode())
        os._exit(0)
    os.close(ours)
    with os.fdopen(theirs) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_file_that_may_not_grow_is_as_it_was(tmp_path):
    path = append_entry(make_entry("whole"), tmp_path)
    before = path.read_bytes()
    soft = len(before) + 100

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
        append_entry(make_entry("half " * 1000), tmp_path)

    said = run_in_child(work)
    assert said.startswith(f"SessionError: cannot write {path}: file too large; free some space")
    assert path.read_bytes() == before
    append_entry(make_entry("next"), tmp_path)
    assert read_goals(tmp_path) == ["whole", "next"]


FULL_DISK_PROGRAM = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from kernelkb.errors import SessionError
from kernelkb.model.records.session import SessionEntry
from kernelkb.record.sessions import append_entry, list_session_ids, read_session
folder, done = Path(sys.argv[1]), 0
try:
    while True:
        goal = f"{done} " + "x" * 3000
        append_entry(SessionEntry(session="s", at=datetime.now(UTC), goal=goal), folder)
        done += 1
except SessionError as error:
    first = str(error)
try:
    append_entry(SessionEntry(session="other", at=datetime.now(UTC), goal="x" * 9000), folder)
except SessionError as error:
    second = str(error)
there = [entry.goal.split()[0] for entry in read_session("s", folder).entries]
assert there == [str(number) for number in range(done)], there
assert list_session_ids(folder) == ["s"]
assert len(list(folder.iterdir())) == 1, list(folder.iterdir())
assert "no space left" in first and "free some space" in first, first
assert "no space left" in second, second
sys.stdout.write(str(done))
"""


def test_a_full_disk_loses_nothing_and_leaves_no_half(tmp_path):
    disk = shlex.quote(str(tmp_path))
    mount = f"mount -t tmpfs -o size=64k none {disk}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$0" -c "$1" {disk}',
         sys.executable, FULL_DISK_PROGRAM],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3


def test_an_unwritable_folder_is_reported():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "sessions"
        path = append_entry(make_entry(), folder)
        for one, mode in ((folder.parent, 0o755), (folder, 0o555), (path, 0o444)):
            one.chmod(mode)

        def work(session):
            if os.geteuid() == 0:
                os.setuid(65534)
            append_entry(make_entry(session=session), folder)

        said = [run_in_child(lambda one=one: work(one)) for one in (SESSION_NAME, "2026-11-21-new")]
        assert all("permission denied; run in a project that you may write to" in s for s in said)
        assert read_goals(folder) == ["faster"]
        folder.chmod(0o755)


def test_an_unusable_sessions_path_is_reported(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SessionError, match="cannot write"):
        append_entry(make_entry(), tmp_path / "file")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"goal: [torn", 1),
        (b"", 1),
        (b"---\n- 1\n---\n", 2),
        (b"---\nsession: x\ngoal: \xff\n---\n", 3),
        (b"---\nsession: x\nopened: 2026-13-01\ngoal: y\n---\n", 3),
    ],
    ids=["no front matter", "empty", "a list", "binary", "an impossible date"],
)
def test_a_malformed_session_is_reported_with_its_line(tmp_path, body, line):
    (tmp_path / "x.md").write_bytes(body)

    with pytest.raises(SessionError, match=rf"x\.md:{line}:") as caught:
        read_session("x", tmp_path)
    assert caught.value.problems


def test_an_unreadable_session_is_reported(tmp_path):
    (tmp_path / "x.md").mkdir()

    with pytest.raises(SessionError, match=r"x\.md: is a directory"):
        read_session("x", tmp_path)


def test_a_link_that_leads_nowhere_does_not_hide_the_last_session(tmp_path):
    append_entry(make_entry(), tmp_path)
    (tmp_path / "2026-11-22-gone.md").symlink_to(tmp_path / "nowhere")

    assert read_goals(tmp_path, "last") == ["faster"]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ""])
def test_a_name_cannot_lead_out_of_the_folder(tmp_path, name):
    append_entry(make_entry(), tmp_path / "sessions")
    (tmp_path / "x.md").write_text("secret: 1\n")

    with pytest.raises(UnknownNameError):
        read_session(name, tmp_path / "sessions")


def test_the_front_matter_is_read_despite_malformed_entries(tmp_path):
    path = append_entry(make_entry("faster"), tmp_path)
    path.write_text(path.read_text().replace("at:", "ta:"))

    assert read_header(SESSION_NAME, tmp_path).goal == "faster"


@pytest.mark.parametrize("edit", [("at: '2", "ta: '2"), ("goal:", "gaol:"), ("---", "--", 1)])
def test_kb_session_show_of_a_broken_file_says_where_and_exits_2(project, capsys, edit):
    path = append_entry(make_entry(), project / "sessions")
    path.write_text(path.read_text().replace(*edit))

    assert main(["session", "show", SESSION_NAME]) == 2

    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith(f"kb: sessions/{SESSION_NAME}.md:") for line in lines)


def test_session_ids_are_listed_by_day_and_nothing_else_is(tmp_path):
    for name in ("2026-11-03-b", "2026-02-10-z", "2026-11-03-a"):
        append_entry(make_entry(session=name), tmp_path)
    (tmp_path / "README.md").write_text("# Sessions\n")
    (tmp_path / "2026-01-01-old.yaml").write_text("goal: as it was\n")

    assert list_session_ids(tmp_path) == ["2026-02-10-z", "2026-11-03-a", "2026-11-03-b"]
