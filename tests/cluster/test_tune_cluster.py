"""Searches on pretend lanes: real workers, compilers and trials; workers are killed."""

import os
import random
import signal
import threading
import time

import psutil
import pytest
from tunable_kernels import make_tunable_kernel

from kernelkb.cli import main
from kernelkb.cluster.choice import parse_workers
from kernelkb.cluster.cluster import open_cluster
from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.tasks import LanesLostError
from kernelkb.errors import KbError
from kernelkb.tune.on_cluster import SearchRequest, tune_on_cluster
from kernelkb.tune.plan import TuningOptions
from kernelkb.tune.search_loop import LaneUse, find_slow_lanes

# Dask closes its sockets and loops in threads that outlive a test.
pytestmark = [
    pytest.mark.slow,  # what one loop does with one lane, kernels/test_tune.py tries
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
END_ITS_WORKER = r"""
#include <csignal>
#include <cstdio>
#include <unistd.h>
static int find_parent(int pid) {
  char name[64];
  std::snprintf(name, sizeof name, "/proc/%d/stat", pid);
  int parent = 0;
  if (std::FILE* file = std::fopen(name, "r")) {
    std::fscanf(file, "%*d (%*[^)]) %*c %d", &parent);
    std::fclose(file);
  }
  return parent;
}
#define END_WORKER() kill(find_parent(getppid()), SIGKILL)
"""


def search(cluster, **options):
    fields = {"budget_s": 300, "judge": False, "strategy": "random", **options}
    (found,) = tune_on_cluster(
        cluster, SearchRequest("twice", target="cpu"), TuningOptions(**fields)
    )
    return found


def list_configurations(found):
    return sorted(tuple(trial.configuration.items()) for trial in found.trials)


def test_the_whole_space_is_searched_once_on_two_lanes_and_known_afterwards(project):
    make_tunable_kernel(project, (0, 2, 4), (1, 8, 64))
    with open_cluster(parse_workers("auto"), pretend_count=2) as cluster:
        found = search(cluster)
        again = search(cluster)
    statuses = {trial.configuration["MODE"]: trial.status for trial in found.trials}

    assert len(set(list_configurations(found))) == len(found.trials) == 9
    assert statuses == {0: "timed", 2: "build-failed", 4: "incorrect"}
    assert found.confirmed[0].configuration == {"MODE": 0, "WORK": 1}
    assert sum(lane.trial_count for lane in found.lanes) == 6  # that compile
    assert all(0 <= lane.busy_share <= 1 for lane in found.lanes)
    assert again.resumed_count == len(again.trials) == 9


@pytest.mark.slow
def test_a_worker_that_is_killed_again_and_again_loses_and_repeats_no_trial(project):
    make_tunable_kernel(project, (0, 1), (1, 2, 4, 8, 16, 32, 64))
    stop = threading.Event()
    with open_cluster(parse_workers("auto"), pretend_count=2, return_s=60) as cluster:
        killer = threading.Thread(target=kill_workers, args=(stop, 3))
        killer.start()
        found = search(cluster)
        stop.set()
        killer.join()
    crashed = [trial for trial in found.trials if trial.status == "crashed"]

    assert len(set(list_configurations(found))) == len(found.trials) == 14
    assert {trial.status for trial in found.trials} <= {"timed", "crashed"}
    assert len(crashed) <= 3  # those that ran when their worker was killed
    assert found.confirmed[0].configuration["WORK"] <= 4


@pytest.mark.slow
def test_a_lane_whose_worker_is_killed_before_its_first_trial_is_taken_in_again(project):
    make_tunable_kernel(project)
    stop = threading.Event()
    with open_cluster(parse_workers("auto"), pretend_count=1) as cluster:
        killer = threading.Thread(target=kill_at_first_sight, args=(stop, 2))
        killer.start()
        found = search(cluster)
        stop.set()
        killer.join()

    assert {trial.status for trial in found.trials} <= {"timed", "crashed"}
    assert len(found.trials) == 3
    assert found.confirmed


def kill_at_first_sight(stop, count):
    """Kill the process of a timed lane as soon as it has a child, so many times."""
    while count and not stop.wait(0.05):
        lanes = [one for one in psutil.Process().children(recursive=True) if is_lane(one)]
        if lanes:
            lanes[0].kill()
            count -= 1


def kill_workers(stop, count):
    """Kill the processes of timed lanes at random moments."""
    rng = random.Random(0)
    for _ in range(count):
        if stop.wait(rng.uniform(1, 4)):
            return
        lanes = [one for one in psutil.Process().children(recursive=True) if is_lane(one)]
        if lanes:
            rng.choice(lanes).kill()


def is_lane(process):
    """Whether a process is a Dask worker that runs a job below it, and not a compiler."""
    try:
        commands = [" ".join(one.cmdline()) for one in process.children()]
        return any("supervisor" in one and "start.py" in one for one in commands)
    except psutil.Error:
        return False


@pytest.mark.slow
def test_a_configuration_that_ends_its_worker_costs_one_worker_and_one_trial(project):
    folder = make_tunable_kernel(project, (0, 7), (1, 8, 64))
    source = (folder / "plain.cpp").read_text()
    bad = "  if (MODE == 7 && WORK == 8) END_WORKER();\n"
    source = source.replace("  volatile float sink", bad + "  volatile float sink", 1)
    (folder / "plain.cpp").write_text(END_ITS_WORKER + source)
    with open_cluster(parse_workers("auto"), pretend_count=2) as cluster:
        before = {lane.uuid for lane in cluster.lanes}
        found = search(cluster)
        after = {lane.uuid for lane in cluster.lanes}
    ends = [(trial.configuration, trial.detail) for trial in found.trials if not trial.time_us]

    assert ends == [({"MODE": 7, "WORK": 8}, "it ended the worker that tried it")]
    assert len(set(list_configurations(found))) == len(found.trials) == 6
    assert before == after


def make_lane(name, times):
    lane = LaneUse(Lane("host", name, "model", "9.0", f"host/{name}"))
    lane.finish_check(times)
    lane.open()
    return lane


def test_a_slow_card_is_named_and_a_noisy_one_is_not():
    rng = random.Random(0)
    even = [make_lane(f"GPU-{n}", [rng.gauss(10, 0.1) for _ in range(40)]) for n in range(3)]
    slow = make_lane("GPU-slow", [rng.gauss(11, 0.1) for _ in range(40)])
    noisy = make_lane("GPU-noisy", [rng.uniform(9, 12.5) for _ in range(40)])
    failing = make_lane("GPU-failing", [])
    found = find_slow_lanes([*even, slow, noisy, failing])

    assert set(found) == {"GPU-slow", "GPU-failing"}
    assert found["GPU-slow"].startswith("slow: 1.1")
    assert find_slow_lanes([failing]) == {}  # where none could time the default


def test_no_trial_goes_to_a_lane_before_it_was_compared_with_the_others():
    lane = LaneUse(Lane("host", "GPU-a", "model", "9.0", "host/GPU-a"))
    steps = [lane.is_open]
    lane.finish_check([1.0])
    steps.append(lane.is_open)
    lane.open()
    steps.append(lane.is_open)
    lane.rejoin()
    steps.append(lane.is_open)

    assert steps == [False, False, True, False]


def test_the_busy_share_of_a_lane_tells_idle_time_without_tasks_from_that_between_them():
    lane = make_lane("GPU-a", [1.0])
    lane.add()
    lane.add()  # sent before the first one ends
    now = time.time()
    lane.remove(2, (now, now + 1.0))
    lane.remove(3, (now + 1.25, now + 2.0))  # a quarter of a second late
    lane.add()
    lane.remove(0, None)  # its worker died
    found = lane.summarize()

    assert found.trial_count == 5
    assert found.busy_share_while_queued == pytest.approx(0.75)
    assert make_lane("GPU-b", [1.0]).summarize().busy_share_while_queued is None


@pytest.mark.slow
def test_lanes_that_are_lost_end_the_search_with_the_reason(project):
    make_tunable_kernel(project)
    with open_cluster(parse_workers("auto"), pretend_count=1, return_s=1, lanes_s=1) as cluster:
        stop = threading.Event()
        killer = threading.Thread(target=end_hosts, args=(stop,))
        killer.start()
        with pytest.raises((KbError, LanesLostError), match="no worker"):
            search(cluster)
        stop.set()
        killer.join()


def end_hosts(stop):
    """Kill every process that serves workers, with its nannies."""
    while not stop.wait(0.2):
        for one in psutil.Process().children(recursive=True):
            try:
                if "worker" in one.cmdline():
                    os.kill(one.pid, signal.SIGKILL)
            except (psutil.Error, ProcessLookupError):
                continue


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "here"], "auto"),
        (["--workers", "tcp://example.org:1"], "tls"),
        (["--workers", "auto", "--why"], "--why"),
        (["--workers", "auto", "--plan"], "--plan"),
    ],
)
def test_what_workers_cannot_do_is_said(project, capsys, words, said):
    make_tunable_kernel(project)

    assert main(["tune", "twice", "--target", "cpu", *words]) == 2
    assert said in capsys.readouterr().err


def test_only_some_values_are_searched(project, capsys):
    make_tunable_kernel(project, (0, 1), (1, 8, 64))

    assert main(["tune", "twice", "--target", "cpu", "--plan", "--only", "WORK=1,8"]) == 0
    assert "4 of 4 configurations" in capsys.readouterr().out
    for text, said in (("WORK=3", "1, 8, 64"), ("WORK", "--only"), ("SPEED=1", "SPEED")):
        assert main(["tune", "twice", "--target", "cpu", "--plan", "--only", text]) == 2
        assert said in capsys.readouterr().err
