"""Which processes a runner started, from one reading of /proc."""

import os

import pytest

from kernelkb.measure.worker.judge import procfs

CANDIDATE, RIVAL, COMPILER, ASSEMBLER, INIT = 900, 901, 902, 903, 1
SESSION, OTHER_SESSION = 800, 1


@pytest.fixture
def read_tables(monkeypatch):
    """Have /proc read as given tables of (parent, session), one after the other."""
    monkeypatch.setattr(procfs, "_RUNNER_PIDS", {CANDIDATE, RIVAL})
    monkeypatch.setattr(os, "getsid", lambda _pid: SESSION)

    def set_tables(*tables):
        own = {
            INIT: (0, OTHER_SESSION),
            os.getppid(): (INIT, SESSION),
            os.getpid(): (os.getppid(), SESSION),
            CANDIDATE: (os.getpid(), SESSION),
            RIVAL: (os.getpid(), SESSION),
        }
        readings = iter([own | table for table in tables])
        monkeypatch.setattr(procfs, "_read_process_table", lambda **_: next(readings))

    return set_tables


def test_processes_belong_to_the_runner_above_them(read_tables):
    table = {COMPILER: (RIVAL, SESSION), ASSEMBLER: (COMPILER, OTHER_SESSION)}
    read_tables(table, table)

    assert procfs.list_descendants(CANDIDATE) == []
    assert procfs.list_descendants(RIVAL) == [COMPILER, ASSEMBLER]


def test_a_compiler_that_a_rival_starts_meanwhile_is_not_the_candidates(read_tables):
    """torch.compile loads in the background; two readings would differ in what it has started."""
    read_tables({}, {COMPILER: (RIVAL, SESSION), ASSEMBLER: (COMPILER, SESSION)})

    assert procfs.list_descendants(CANDIDATE) == []


def test_a_process_whose_parent_has_just_ended_is_nobodys_until_the_next_look(read_tables):
    orphan = {ASSEMBLER: (os.getpid(), SESSION)}
    read_tables({ASSEMBLER: (COMPILER, SESSION)}, orphan)

    assert procfs.list_descendants(CANDIDATE) == []
    assert procfs.list_descendants(CANDIDATE) == [ASSEMBLER]


@pytest.mark.parametrize("who", ["judge", "supervisor", "init"])
def test_an_orphan_counts_for_every_runner(read_tables, who):
    parent = {"judge": os.getpid(), "supervisor": os.getppid(), "init": INIT}[who]
    table = {ASSEMBLER: (parent, SESSION)}
    read_tables(table, table)

    assert procfs.list_descendants(CANDIDATE) == [ASSEMBLER]
    assert procfs.list_descendants(RIVAL) == [ASSEMBLER]
