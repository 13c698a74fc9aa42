"""Nothing that was acknowledged is lost, whatever is killed; and nothing is there by halves."""

import random
import time
from functools import cache
from multiprocessing import get_context

import pytest
from measurements import START, make_bench

from kernelkb.record.measurements.store import open_store

PROCESSES, MEASUREMENTS_PER_PROCESS = 8, 500
KILL_COUNT = 100


@cache
def make_batches(process):
    """Return a process's measurements, the same each time, in batches of one to three."""
    draw = random.Random(process)
    where = {"kernel": f"kernel_{process % 3}", "workload": f"workload-{process}"}
    ones = [
        make_bench(us=5.0 + at, hours=at, where=where) for at in range(MEASUREMENTS_PER_PROCESS)
    ]
    found = []
    while ones:
        size = draw.randint(1, 3)
        found.append(ones[:size])
        ones = ones[size:]
    return found


def write_batches(address, process, folder, ready):
    """Add what was not acknowledged yet, and note after each batch how many were."""
    with (folder / f"acknowledged-{process}").open("a+b", buffering=0) as notes:
        notes.seek(0)
        done = len(notes.read())
        with open_store(folder, address) as store:
            ready.release()
            for batch in make_batches(process)[done:]:
                store.add(batch)
                notes.write(b".")


def start_writer(address, process, folder, context):
    ready = context.Semaphore(0)
    one = context.Process(target=write_batches, args=(address, process, folder, ready))
    one.start()
    return one, ready


def kill_writers(running):
    for one, _ in running.values():
        one.kill()
        one.join()


def kill_at_random(address, folder, context):
    """Run all writers, kill one after the other and start it again; in the end kill all."""
    draw = random.Random(0)
    for at in range(PROCESSES):
        make_batches(at)  # made once, here: writers that are started again only write
    running = {at: start_writer(address, at, folder, context) for at in range(PROCESSES)}
    assert all(ready.acquire(timeout=120) for _, ready in running.values())
    killed = 0
    while killed < KILL_COUNT and any(one.is_alive() for one, _ in running.values()):
        time.sleep(draw.uniform(0.0, 0.003))
        at = draw.randrange(PROCESSES)
        one, _ = running[at]
        if one.is_alive():
            one.kill()
            one.join()
            running[at] = start_writer(address, at, folder, context)
            killed += 1
    kill_writers(running)
    return killed


@pytest.mark.slow
def test_killed_writers_lose_nothing_that_was_acknowledged(address, tmp_path):
    context = get_context("fork")
    killed = kill_at_random(address, tmp_path, context)
    with open_store(tmp_path, address) as store:
        there = {one.id for one in store.iter_all()}  # each is found to be whole
    written = {at: make_batches(at) for at in range(PROCESSES)}
    noted = {at: (tmp_path / f"acknowledged-{at}").stat().st_size for at in written}
    acknowledged = {m.id for at, n in noted.items() for batch in written[at][:n] for m in batch}
    halves = [
        batch
        for made in written.values()
        for batch in made
        if len({one.id for one in batch} & there) not in (0, len(batch))
    ]

    assert killed
    assert acknowledged
    assert acknowledged <= there
    assert halves == []

    running = [start_writer(address, at, tmp_path, context) for at in range(PROCESSES)]
    for one, _ in running:
        one.join()
    with open_store(tmp_path, address) as store:
        ids = [one.id for one in store.iter_all()]
        newest = store.history("kernel_0", limit=1)

    assert len(ids) == len(set(ids)) == PROCESSES * MEASUREMENTS_PER_PROCESS
    assert newest[0].at > START


def open_at_once(address, folder, at):
    with open_store(folder, address) as store:
        return store.add([make_bench(us=float(at + 1))])


@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(turn, marks=pytest.mark.slow) for turn in range(1, 8))]
)
def test_eight_processes_may_open_a_new_database_at_once(address, tmp_path, turn):
    with get_context("fork").Pool(PROCESSES) as pool:
        new = pool.starmap(open_at_once, [(address, tmp_path, at) for at in range(PROCESSES)], 1)

    assert new == [1] * PROCESSES
    with open_store(tmp_path, address) as store:
        assert store.count() == PROCESSES


def test_openers_that_are_killed_leave_a_database_that_opens(address, tmp_path):
    draw, context = random.Random(0), get_context("fork")
    for _ in range(3):
        words = [(address, tmp_path, at) for at in range(4)]
        openers = [context.Process(target=open_at_once, args=word) for word in words]
        for one in openers:
            one.start()
        time.sleep(draw.uniform(0.0, 0.3))
        for one in openers:
            one.kill()
            one.join()

    assert open_at_once(address, tmp_path, 9) == 1
