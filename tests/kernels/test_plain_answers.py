"""A verdict that is plain early: fewer pairs, and no wait for rivals that compile."""

import os
import tempfile

import pytest
from processes import find_processes

from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.measure.subject import BenchOptions, MeasurementSubject
from kernelkb.measure.worker.judge.timing.pair_timing import (
    is_far_slower,
    is_slower_in_pairs,
    is_slower_in_trials,
)
from kernelkb.measure.worker.shared.messages.jobs import Batch

KERNEL_YAML = """\
id: rows
title: Softmax of rows
axes: [rows, cols]
workloads: {small: {rows: 64, cols: 100}, large: {rows: 512, cols: 512}}
default_workload: {cpu: large, cuda: large}
check_workloads: [{rows: 1, cols: 7}]
inputs: [{name: x, shape: [rows, cols], dtype: float32}]
outputs: [{name: y, shape: [rows, cols], dtype: float32}]
reference: {file: reference.py, function: softmax}
entry: run
variants:
  - {id: script, target: TARGET, language: python, source: script.py, returns: true, summary: one}
"""
REFERENCE = "import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, dim=-1)\n"
LATE_REFERENCE = """\
import time

import torch


def softmax(x):
    if torch.compiler.is_compiling():
        time.sleep(60)
    return torch.softmax(x, dim=-1)
"""
HONEST = "import torch\n\n\ndef run(x):\n    return torch.softmax(x, dim=-1)\n"
SLOW = """\
import torch


def run(x):
    for _ in range(200):
        y = torch.softmax(x, dim=-1)
    return y
"""
SLOW_AT_FIRST = """\
import time

import torch

calls = 0


def run(x):
    global calls
    calls += x.shape[0] == 512
    if calls <= 25:
        time.sleep(0.03)
    return torch.softmax(x, dim=-1)
"""
IDLE_BESIDE_ITS_JUDGE = """\
import os

import torch


def run(x):
    cores = os.sched_getaffinity(os.getpid())
    shares = len(cores) == 1 and os.sched_getaffinity(os.getppid()) == cores
    return torch.zeros_like(x) if shares else torch.softmax(x, dim=-1)
"""
RIGHT_ON_ONE_CORE = """\
import os

import torch


def run(x):
    cores = os.sched_getaffinity(os.getpid())
    is_right = cores == {CORE} or IS_JUDGE
    return torch.softmax(x, dim=-1) if is_right else torch.zeros_like(x)
"""
MORE_THAN_TWICE = "more than twice as long"


@pytest.fixture
def bench_script(project):
    def bench(source, target="cpu", reference=REFERENCE, **options):
        folder = project / "kernels" / "rows"
        folder.mkdir(parents=True)
        (folder / "kernel.yaml").write_text(KERNEL_YAML.replace("TARGET", target))
        (folder / "reference.py").write_text(reference)
        (folder / "script.py").write_text(source)
        return bench_variant("rows", "script", target, options=BenchOptions(**options))

    return bench


@pytest.fixture
def try_torch_compile(monkeypatch):
    """Make torch.compile a rival, as it is on a GPU."""
    monkeypatch.setattr(MeasurementSubject, "tries_torch_compile", True)


def make_batch(judge_ns, runner_ns, calls=1):
    return Batch(judge_ns=judge_ns, runner_ns=runner_ns, calls=calls, start_s=0, end_s=0)


def make_batches(*ns):
    return [make_batch(one, one) for one in ns]


def test_all_pairs_but_one_have_to_show_it():
    rival = make_batches(*[10] * 15)

    assert is_slower_in_pairs(make_batches(10, *[25] * 14), rival)
    assert not is_slower_in_pairs(make_batches(10, 10, *[25] * 13), rival)
    assert not is_slower_in_pairs([], [])


@pytest.mark.parametrize(
    ("own", "is_far"),
    [([110] * 6, True), ([110] * 5, False), ([*[110] * 14, 90], False), ([], False)],
)
def test_ten_times_slower_in_all_of_six_pairs_is_enough(own, is_far):
    assert is_far_slower(make_batches(*own), make_batches(*[10] * len(own))) is is_far


def test_a_fast_candidate_is_never_plain():
    assert not is_slower_in_pairs(make_batches(*[1] * 15), make_batches(*[100] * 15))


def test_the_round_trip_makes_no_batch_of_one_call_slow():
    """Planned by a trial that was wrong: one call in its batch, 20 in the rival's."""
    round_trip = 200
    own = [make_batch(150 + round_trip, runner_ns=150) for _ in range(15)]
    rival = [make_batch(20 * 100 + round_trip, runner_ns=20 * 100, calls=20) for _ in range(15)]

    assert not is_slower_in_pairs(own, rival)


@pytest.mark.parametrize(
    ("own", "rival", "plain"),
    [
        ((90, None), (30, None), True),
        ((80, None), (30, None), False),
        ((90, None), (90, 1), False),  # the candidate is in no graph, so both are timed without
        ((90, 6), (30, 2), True),
        ((90, 5), (30, 2), False),
        ((90, 29), (30, None), False),  # another rival may be in a graph, as the candidate is
    ],
)
def test_trials_are_compared_as_pairs_would_be_at_worst(own, rival, plain):
    keys = ("eager_ns", "graph_ns")
    rivals = {"torch": dict(zip(keys, rival, strict=True))}

    assert is_slower_in_trials(dict(zip(keys, own, strict=True)), rivals) is plain


@pytest.mark.slow
def test_a_candidate_that_is_slower_by_far_is_timed_with_few_pairs(bench_script):
    found = bench_script(SLOW, budget_s=60.0)

    assert found.verdict == "slower"
    assert found.pair_count < 60
    assert any(MORE_THAN_TWICE in line for line in found.warnings)
    assert found.resource_use.peak_bytes


@pytest.mark.slow
def test_torch_compile_is_left_out_for_one_that_is_slower_than_torch_by_far(
    bench_script, try_torch_compile, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = bench_script(SLOW, reference=LATE_REFERENCE)

    assert found.verdict == "slower"
    assert found.baseline == "torch"
    rivals = {rival.name: rival for rival in found.rivals}
    assert "left out" in rivals["torch.compile"].rejected
    assert any("torch.compile left out: it takes" in line for line in found.warnings)
    assert not find_processes(f"{tmp_path}/kernelkb-")


@pytest.mark.slow
def test_torch_compile_is_timed_where_it_may_decide(bench_script, try_torch_compile):
    found = bench_script(HONEST, timeout_s=600)

    rivals = {rival.name: rival for rival in found.rivals}
    assert rivals["torch.compile"].eager_us, rivals
    assert not any("left out" in line for line in found.warnings)


@pytest.mark.slow
def test_a_candidate_that_is_slow_only_in_trials_meets_torch_compile(
    bench_script, try_torch_compile
):
    found = bench_script(SLOW_AT_FIRST, timeout_s=600)

    rivals = {rival.name: rival for rival in found.rivals}
    assert rivals["torch.compile"].eager_us, rivals
    assert not any(MORE_THAN_TWICE in line for line in found.warnings)


@pytest.mark.slow
def test_while_calls_are_timed_the_judge_waits_on_the_core_of_their_first_thread(bench_script):
    """On another core it would wait for a thread of OpenMP that spins there, 2 to 4 ms."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core only")
    found = bench_script(IDLE_BESIDE_ITS_JUDGE)

    assert found.verdict == "incorrect"
    assert "a timed call" in found.detail


@pytest.mark.slow
def test_candidate_and_baseline_are_timed_on_the_same_core(bench_script):
    """Code that ran on the first of two cores took 1.05 to 1.2 times as long as on the second."""
    cores = sorted(os.sched_getaffinity(0))
    source = RIGHT_ON_ONE_CORE.replace("CORE", str(cores[1 % len(cores)]))
    reference = source.replace("IS_JUDGE", "len(cores) > 1").replace("def run", "def softmax")
    found = bench_script(source.replace("IS_JUDGE", "False"), reference=reference)

    assert found.verdict != "incorrect", found.detail


@pytest.mark.gpu
def test_a_plain_answer_on_a_gpu_needs_no_torch_compile(bench_script, monkeypatch):
    monkeypatch.delenv("TORCH_COMPILE_DISABLE")
    found = bench_script(SLOW, "cuda")

    assert found.verdict == "slower"
    assert found.resource_use.joules is None
    assert any("energy was not measured" in line for line in found.warnings)
