"""A bench whose processes start beside those of the check: what they share, and who ends them."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel
from processes import find_processes, read_cmdline, reset_signals, wait_for_count

from kernelkb.actions.history.record_result import StepRunner
from kernelkb.actions.kernels.measure_variant import build_check_bench
from kernelkb.actions.project.bench_target import prepare
from kernelkb.measure.bench import bench
from kernelkb.measure.subject import BenchOptions

CLI = """
import sys
from kernelkb.cli import main
from kernelkb.measure.bench import bench
bench.MIN_CORES_AHEAD = 1
sys.exit(main())
"""
OPTIONS = BenchOptions(budget_s=0.1)

STARTED_JUDGE = """
import os, subprocess, sys
from pathlib import Path
from kernelkb.measure.worker.judge.procfs import read_affinities
from kernelkb.measure.worker.judge.procfs import wait_for_start
runner = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
try:
    print(runner.pid, flush=True)
    wait_for_start(Path(sys.argv[1]), [runner.pid])
    print({core for pid in (os.getpid(), runner.pid) for cores in read_affinities(pid).values()
           for core in cores} == os.sched_getaffinity(os.getppid()))
finally:
    runner.kill()
    runner.wait()
"""


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A folder for the jobs of this test alone; benches start ahead here."""
    monkeypatch.setattr(bench, "MIN_CORES_AHEAD", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def run_steps(listener=lambda *_: None, options=OPTIONS):
    steps = StepRunner(listener)
    return build_check_bench(steps, prepare("broken", target="cpu"), "small", options), steps


@pytest.mark.slow
def test_a_correct_candidate_is_timed_and_every_second_counts_once(project, scratch):
    make_broken_kernel(project, "right")
    results, steps = run_steps()

    assert results.bench.verdict in ("faster", "slower", "inconclusive"), results.bench.detail
    judge_s = results.bench.resource_use.step_seconds
    assert sum(judge_s.values()) <= results.bench.seconds + 0.1
    assert results.bench.seconds <= steps.records[-1].seconds + 0.1
    assert not find_processes(f"{scratch}/kernelkb-")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("zeros", "incorrect"),
        pytest.param("segfault", "crashed", marks=pytest.mark.slow),
        pytest.param("endless", "timed-out", marks=pytest.mark.slow),
    ],
)
def test_a_check_that_fails_ends_the_processes_of_the_bench(project, scratch, kind, status):
    make_broken_kernel(project, kind)
    results, _ = run_steps(options=OPTIONS._replace(timeout_s=3.0))

    assert results.check.status == status
    assert results.bench is None
    assert not find_processes(f"{scratch}/kernelkb-")
    assert not list(scratch.glob("kernelkb-*"))


@pytest.mark.slow
def test_the_device_is_held_from_the_check_to_the_end_of_the_bench(project, scratch, monkeypatch):
    """So no other measurement runs beside processes that wait."""
    make_broken_kernel(project, "right")
    monkeypatch.setenv("KB_DEVICE_QUEUE", str(scratch / "queue"))
    seen = []
    run_steps(lambda *step: seen.append((step[0], step[2], list_tickets(scratch))))
    seen = [(name, tickets) for name, step, tickets in seen if name != "build"]

    assert [name for name, _ in seen] == ["check", "check", "bench", "bench"]
    assert len({tickets for _, tickets in seen}) == 1
    assert len(seen[0][1]) == 1
    assert list_tickets(scratch) == ()


def list_tickets(scratch):
    return tuple(sorted(path.name for path in scratch.glob("queue/*/*")))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_kb_that_is_ended_in_a_check_leaves_no_process(project, scratch, number):
    make_broken_kernel(project, "endless")
    command = subprocess.Popen(
        [sys.executable, "-c", CLI, "bench", "broken", "--target", "cpu"],
        stderr=subprocess.DEVNULL,
        preexec_fn=reset_signals,
    )
    try:
        wait_until(lambda: list(scratch.glob("kernelkb-*/progress")))
        judges = list(filter(is_judge, find_processes(f"{scratch}/kernelkb-")))
        command.send_signal(number)
        command.wait(60)
    finally:
        command.kill()
        command.wait()

    assert len(judges) == 2
    assert wait_for_count(f"{scratch}/kernelkb-", 0)


def is_judge(process):
    line = read_cmdline(process)
    return line.endswith("/judge.json ") and "supervisor" not in line


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_processes_that_wait_get_back_the_cores_that_a_candidate_took(tmp_path):
    core = min(os.sched_getaffinity(0))
    judge = subprocess.Popen(
        [sys.executable, "-c", STARTED_JUDGE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        runner = int(judge.stdout.readline())
        wait_until((tmp_path / "ready").exists)
        for pid in (judge.pid, runner):
            os.sched_setaffinity(pid, {core})
        answer, _ = judge.communicate("\n", timeout=60)
    finally:
        judge.kill()
        judge.wait()

    assert answer.strip() == "True"
    assert Path(f"/proc/{runner}").exists() is False


@pytest.mark.gpu
def test_torch_compile_loads_beside_the_check_on_a_gpu(project, monkeypatch):
    monkeypatch.delenv("TORCH_COMPILE_DISABLE")
    make_broken_kernel(project, "right")
    target = prepare("broken", target="cuda")
    found = build_check_bench(StepRunner(), target, "small", BenchOptions(budget_s=0.5)).bench

    rivals = {rival.name: rival for rival in found.rivals}
    assert rivals["torch"].eager_us
    assert rivals["torch.compile"].eager_us or "left out" in rivals["torch.compile"].rejected
    assert sum(found.resource_use.step_seconds.values()) <= found.seconds + 0.1
