"""Pairs of batches beside other programs: what is taken off, what is decided, what is advised."""

import os
import random
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import program

from kernelkb.decide.recommend import recommend
from kernelkb.measure.bench.statistics import (
    combine_verdicts,
    compute_speedups,
    decide_verdict,
    filter_pairs,
    overhead_ns,
    safe_speedup,
)
from kernelkb.measure.worker.judge import core_waits
from kernelkb.measure.worker.judge.core_waits import (
    ThreadTimes,
    WaitMeter,
    count_busy_cores,
    find_foreign_wait_ns,
)
from kernelkb.measure.worker.judge.procfs import share_core
from kernelkb.measure.worker.shared.channel import receive_timed, request_times, send
from kernelkb.measure.worker.shared.messages.jobs import Batch

WORK_NS = 4e6
ROUND_TRIP_NS = 4e5
NS = st.integers(0, 10**9)


@given(NS, NS, NS, NS)
def test_no_work_of_the_runner_is_taken_for_others(elapsed_ns, waited_ns, first_ns, others_ns):
    used_ns = first_ns + others_ns
    foreign_ns = find_foreign_wait_ns(elapsed_ns, waited_ns, used_ns, others_ns)

    assert 0 <= foreign_ns <= waited_ns
    assert elapsed_ns - foreign_ns >= min(elapsed_ns, used_ns)


def test_a_single_thread_is_charged_for_all_but_the_waiting():
    assert find_foreign_wait_ns(10e6, 6e6, 3.9e6, 0.0) == 6e6


def test_work_of_another_thread_meanwhile_is_charged():
    """The first thread waits 3 ms for the core on which another of its process works 3 ms."""
    assert find_foreign_wait_ns(4e6, 3e6, 4e6, 3e6) == 0


def test_work_after_the_answer_that_delays_the_judge_is_charged():
    """It answers after 1 ms and works on for 3 ms, in which the judge waits for the core."""
    assert find_foreign_wait_ns(4e6, 3e6, 4e6, 0.0) == 0


def test_sleeping_is_charged():
    """Of 10 ms it worked for 2 and slept for 5."""
    assert find_foreign_wait_ns(10e6, 3e6, 2e6, 0.0) == 3e6


@pytest.mark.parametrize("may_fork", [False, True])
def test_a_new_process_anywhere_may_be_the_runner_s_own(may_fork, monkeypatch):
    """A thread is started meanwhile, which has a number like a process."""
    with WaitMeter(os.getpid(), may_fork=may_fork) as waits:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        monkeypatch.setattr(core_waits, "_read_times", lambda _file: ThreadTimes(0, 10**15))
        waits.note_answer(0)
        waited = waits.finish(1e16)

    assert (waited.foreign_ns > 0) is not may_fork
    assert waited.foreign_ns + waited.left_ns > 0


def test_the_system_notes_when_an_answer_was_sent():
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with own, other:
        send(other, {"a": 1})
        without = receive_timed(own)
        request_times(own)
        send(other, {"a": 2})
        noted = receive_timed(own)

    assert (without.message, without.delay_ns) == ({"a": 1}, 0)
    assert noted.message == {"a": 2}
    assert noted.delay_ns > 0


def test_the_judge_has_its_own_nice_value_back():
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with share_core(os.getpid()):
        inside = os.getpriority(os.PRIO_PROCESS, 0)

    assert inside <= before
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def make_batch(rng, work_ns, *, waited=0.0, own=0.0, spread=0.12):
    """A batch whose core others had for ``waited`` times its own time, and that waited ``own``."""
    net_ns = work_ns * rng.lognormvariate(0.0, spread)
    return Batch(
        judge_ns=(net_ns + ROUND_TRIP_NS) * (1 + own),
        runner_ns=net_ns * (1 + own),
        calls=20,
        start_s=0.0,
        end_s=0.1,
        runqueue_wait_ns=own * net_ns,
        foreign_wait_ns=waited * net_ns * rng.random(),
    )


def make_pairs(seed, gain, *, count=80, **waits):
    rng = random.Random(seed)
    return [
        (make_batch(rng, WORK_NS, **waits), make_batch(rng, WORK_NS * gain, **waits))
        for _ in range(count)
    ]


def judge(pairs):
    filtered = filter_pairs(pairs, pairs)
    selected = filtered.selected_pairs
    overhead = overhead_ns(selected)
    by_judge, speedup, _ = compute_speedups(selected, overhead, is_contended=filtered.is_contended)
    return combine_verdicts(decide_verdict(speedup), decide_verdict(by_judge))


def test_equals_are_called_equal_where_others_have_half_of_the_cores():
    verdicts = [judge(make_pairs(seed, 1.0, waited=2.0)) for seed in range(100)]

    assert set(verdicts) == {"inconclusive"}


def test_a_gain_of_1_3_is_decided_where_others_have_half_of_the_cores():
    verdicts = [judge(make_pairs(seed, 1.3, waited=2.0)) for seed in range(100)]

    assert verdicts.count("faster") >= 95


def test_programs_on_the_cores_leave_a_gpus_own_clock_alone():
    rng, pairs = random.Random(3), []
    for _ in range(40):
        sides = []
        for work_ns in (WORK_NS, 1.05 * WORK_NS):
            own_ns, host_ns = work_ns * rng.lognormvariate(0, 0.005), rng.uniform(0, 0.2) * WORK_NS
            judge_ns = own_ns + ROUND_TRIP_NS + host_ns
            sides.append(Batch(judge_ns, own_ns, 20, 0.0, 0.1, runqueue_wait_ns=0.5 * judge_ns))
        pairs.append(tuple(sides))
    overhead = overhead_ns(pairs)
    _, on_gpu, _ = compute_speedups(pairs, overhead, on_cpu=False)
    _, on_cpu, _ = compute_speedups(pairs, overhead, on_cpu=True)

    assert on_gpu.high / on_gpu.low < 1.01
    assert on_cpu.high / on_cpu.low > 1.05


def test_a_loss_is_decided_there_too():
    verdicts = [judge(make_pairs(seed, 1 / 1.3, waited=2.0)) for seed in range(100)]

    assert verdicts.count("slower") >= 95


def test_equals_whose_threads_waited_for_one_another_are_called_equal():
    """Several threads on each side: what they waited cannot be taken off."""
    verdicts = [judge(make_pairs(seed, 1.0, own=3.0, spread=0.6)) for seed in range(100)]

    assert set(verdicts) == {"inconclusive"}


def test_the_interval_of_a_busy_bench_holds_the_truth_in_999_of_1000():
    missed = 0
    for seed in range(1000):
        rng = random.Random(seed)
        ratios = [1.3 * rng.lognormvariate(0.0, 0.3) for _ in range(40)]
        found = safe_speedup([1.0] * 40, ratios)
        missed += not found.low <= 1.3 <= found.high

    assert missed <= 4


@pytest.mark.parametrize("count", [5, 10])
def test_the_interval_of_few_pairs_is_all_of_them(count):
    ratios = [1.0 + at / 100 for at in range(count)]

    assert safe_speedup([1.0] * count, ratios)[1:] == (ratios[0], ratios[-1])


def test_a_candidate_cannot_have_its_slow_calls_left_out():
    """Two batches of five are three times as long, and threads of its own make it wait in them."""
    rng = random.Random(1)
    pairs = []
    for at in range(50):
        is_slow = at % 5 < 2
        own = make_batch(rng, WORK_NS, own=2.0 if is_slow else 0.0, spread=0.0)
        pairs.append((own, make_batch(rng, WORK_NS, spread=0.0)))
    filtered = filter_pairs(pairs, pairs)

    assert not filtered.is_contended
    assert filtered.selected_pairs == pairs


def test_pairs_in_which_the_baseline_waited_are_left_out():
    rng = random.Random(1)
    pairs = [
        (make_batch(rng, WORK_NS), make_batch(rng, WORK_NS, own=2.0 if at % 5 < 2 else 0.0))
        for at in range(50)
    ]

    assert len(filter_pairs(pairs, pairs).selected_pairs) == 30


@pytest.mark.parametrize(
    ("used", "first_waited", "others_waited", "mean", "is_certain"),
    [
        (1.0, 0.0, 0.0, 1.0, True),
        (2.0, 0.02, 0.02, 2.04, True),
        (0.5, 0.5, 0.0, 1.0, True),  # one thread that shares its core with another program
        (1.0, 0.5, 0.5, 2.0, False),  # two that do
        (0.4, 0.1, 0.6, 1.1, False),  # two of which one sleeps while the other waits
    ],
)
def test_busy_cores_are_threads_that_ran_or_were_ready_to_run(
    used, first_waited, others_waited, mean, is_certain
):
    found = count_busy_cores(1e8, used * 1e8, first_waited * 1e8, others_waited * 1e8)

    assert found.mean == pytest.approx(mean)
    assert found.is_certain is is_certain


CPU_METRICS = {"kernel_us": 67000.0, "dispatch_us": 0.6, "algorithmic_bandwidth": 0.05}


def find_predicted(core_count, **measured):
    measured = {**CPU_METRICS, "core_count": core_count, **measured}
    answer = recommend(program(), measured, target="cpu", device=None)
    return {
        found["bottleneck"]: found["predicted_speedup"]
        for found in answer["diagnoses"]
        if found["verdict"] == "matches"
    }


@pytest.mark.parametrize("core_count", [2, 4, 64])
@pytest.mark.parametrize("busy", [0.1, 0.5, 1.0])
def test_no_more_is_predicted_than_there_are_cores(core_count, busy):
    predicted = find_predicted(core_count, core_occupancy=busy / core_count)

    assert predicted["single-threaded"]["high"] <= core_count


def test_cores_that_are_not_known_accuse_no_single_thread():
    assert "single-threaded" not in find_predicted(2)
