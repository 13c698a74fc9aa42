"""Where little memory is free the judge takes less, its verdicts stay, and it says so."""

import random
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from benchmarks.judge_memory import measure_judge
from hidden_judging import make_case
from slow_examples import mark_slow
from task_checks import make_module, make_task

from kernelkb.actions.kernels.measure_variant import build_prepared
from kernelkb.actions.project.bench_target import prepare_loaded
from kernelkb.adapters.kernelbench import convert_kernelbench_task
from kernelkb.errors import EnvironmentGapError
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.bench.bench import bench
from kernelkb.measure.check.check import check
from kernelkb.measure.job_specs import working_set_bytes
from kernelkb.measure.machine.host import describe_low_memory, read_host_memory
from kernelkb.measure.subject import BenchOptions
from kernelkb.measure.worker.judge import case_buffers
from kernelkb.measure.worker.judge.case_buffers import CaseBuffers
from kernelkb.measure.worker.judge.compare.compare import ReferenceOutputs
from kernelkb.measure.worker.judge.compare.oracle import ALL_ROWS, list_row_pieces
from kernelkb.measure.worker.judge.hidden_reference import HiddenReference
from kernelkb.measure.worker.judge.inputs.memory_plan import MemoryPlan, plan_memory
from kernelkb.measure.worker.shared.failures import UnsupportedHost
from kernelkb.measure.worker.shared.memory import clearing_s

MIB = 2**20
SPARING = MemoryPlan(in_pieces=True)
SMALL = [{"name": name, "shape": [64, 2**14], "dtype": "float32"} for name in "xy"]
SMALL_BYTES = 8 * MIB


@pytest.mark.parametrize(
    ("times", "in_pieces", "fits_whole", "is_wide", "has_distributions"),
    [
        (20, False, True, True, True),
        (10, True, True, True, True),
        (4.5, True, True, False, True),
        (3.5, True, False, False, True),
        (2.5, True, False, False, False),
    ],
)
def test_things_are_given_up_in_a_fixed_order(
    times, in_pieces, fits_whole, is_wide, has_distributions
):
    plan = plan_memory(SMALL, int(times * SMALL_BYTES))

    assert (plan.in_pieces, plan.fits_whole) == (in_pieces, fits_whole)
    assert (plan.is_oracle_wide, plan.has_distributions) == (is_wide, has_distributions)


def test_a_case_that_fits_in_no_way_is_refused():
    with pytest.raises(UnsupportedHost, match="judging takes"):
        plan_memory(SMALL, int(1.5 * SMALL_BYTES))


def test_a_large_case_is_judged_in_pieces_however_much_is_free():
    large = [{"name": "x", "shape": [2**15, 2**14], "dtype": "float32"}]

    assert plan_memory(large, 2**50).in_pieces


def test_a_batch_begins_when_a_gpu_has_cleared_what_the_judge_gave_back(tmp_path, monkeypatch):
    case = make_case(tmp_path, "def reference(x):\n    return x.cos()\n", [[4, 4]])
    buffers = CaseBuffers(case, {}, 1, random.Random(1), flush_bytes=4)
    buffers.arena.cuda = SimpleNamespace(reset_persisting_l2=lambda: None)
    freed_bytes, slept_s = iter([2**33, 2**32]), list[float]()
    clock = SimpleNamespace(monotonic=lambda: sum(slept_s), sleep=slept_s.append)
    monkeypatch.setattr(case_buffers, "time", clock)
    monkeypatch.setattr(case_buffers, "release_torch_cache", lambda: next(freed_bytes))
    buffers.refresh([0])

    assert slept_s == [pytest.approx(clearing_s(2**33 + 2**32))]
    assert clearing_s(12 * 2**30) > 0.03  # as measured on an H100


@pytest.mark.parametrize(
    ("body", "by_rows"),
    [
        ("F.gelu(x)", True),
        ("F.softmax(x, -1)", True),
        ("x.sum(1, keepdim=True)", True),
        ("x @ torch.ones(48, 8, dtype=x.dtype)", True),
        ("x.float() * 2", True),
        ("x - x.mean(0)", False),
        ("x.cumsum(0)", False),
        ("x.flip(0)", False),
        ("x + 1e-6 * torch.arange(len(x), dtype=x.dtype)[:, None]", False),
        ("x / len(x)", False),
        ("x.sort(0)[0]", False),
        ("x.reshape(40, 48) * 2", False),  # it needs the shape that it was written for
        ("x.reshape(-1)[: 40 * 48].view(40, 48) * torch.ones(40, 1)", False),
    ],
)
def test_only_rows_that_need_no_other_are_run_by_themselves(tmp_path, body, by_rows):
    case = make_case(tmp_path, f"def reference(x):\n    return {body}\n", [[40, 48]])
    case.plan = SPARING
    pieces = list_row_pieces(case, case.make_inputs(3))

    assert (pieces != [ALL_ROWS]) == by_rows
    assert pieces == [ALL_ROWS] or [row for p in pieces for row in range(40)[p]] == list(range(40))


@pytest.mark.parametrize(
    "body", ["F.softmax(x, -1)", "(x * 3).round().to(torch.int32)", "x.sum(1)", "x - x.mean(0)"]
)
def test_in_pieces_the_same_outputs_are_right_and_wrong(tmp_path, body):
    case = make_case(tmp_path, f"def reference(x):\n    return {body}\n", [[50, 64]])
    inputs = case.make_inputs(3)
    whole = ReferenceOutputs(case, inputs, {})
    case.plan = SPARING
    pieces = ReferenceOutputs(case, inputs, {})
    (right,) = case.run_reference(inputs, None)
    for row in (0, 24, 25, 49):
        wrong = right.clone()
        wrong[row] += 1
        assert pieces.compare([wrong]) == whole.compare([wrong])
        assert not pieces.compare([wrong])["correct"]

    assert pieces.compare([right]) == whole.compare([right])
    assert pieces.compare([right])["correct"]
    assert pieces.relative_errors([right]) == pytest.approx(whole.relative_errors([right]))
    assert pieces.root_mean_squares() == pytest.approx(whole.root_mean_squares())
    assert not pieces.run_selftest()[0]


@pytest.mark.parametrize(
    "distribution", ["tripled", "sparse", "extremes", "outliers", "infinities", "nan"]
)
def test_in_pieces_hidden_inputs_find_the_same_faults(tmp_path, distribution):
    case = make_case(tmp_path, "def reference(x):\n    return x * 2\n", [[50, 64]])
    case.plan = SPARING
    inputs = case.make_inputs(3, distribution)
    hidden = HiddenReference(case, inputs, distribution, {}, [1.0])
    (right,) = case.run_reference(inputs, None)
    wrong = right.clone()
    wrong[49] = -right[49] + 1

    assert hidden.compare([right])["correct"]
    assert not hidden.compare([wrong])["correct"]


GELU = make_task("return F.gelu(x)", "[torch.randn(64, 4096)]")
CENTRED = make_task("return x - x.mean(0)", "[torch.randn(64, 4096)]")


def prepare_task(folder, task, body, target="cpu"):
    """Return a prepared candidate, its build and its workload."""
    (folder / "asked.py").write_text(task)
    (folder / "handed_in.py").write_text(make_module("ModelNew", body))
    files = convert_kernelbench_task(folder / "asked.py", folder / "handed_in.py", target)
    place = prepare_loaded(load_kernel_folder(files.write(folder / ".kb" / "tasks")), None, target)
    workload = next(iter(place.subject.kernel_folder.kernel.workloads))
    return place.subject, build_prepared(place), workload


def check_with(folder, task, body, times):
    """Check with so many times the memory of inputs and outputs, and the candidate's own."""
    subject, built, workload = prepare_task(folder, task, body)
    size = working_set_bytes(subject.kernel_folder, workload)
    free_bytes = int((times + 0.5) * size)
    return check(subject, built, workloads=[workload], free_bytes=free_bytes)


@pytest.mark.slow
def test_with_little_memory_a_check_says_what_it_gave_up(project):
    found = check_with(project, GELU, "return F.gelu(x)", 2.5)
    notes = "\n".join(found.notes)

    assert found.status == "correct", found.detail
    assert "one copy of the arrays" in notes
    assert "some rows at a time" in notes
    assert "hidden inputs left out: all of the same size" in notes
    assert not found.hidden_inputs


@pytest.mark.slow
def test_with_much_memory_a_check_gives_nothing_up(project):
    found = check_with(project, GELU, "return F.gelu(x)", 1000)

    assert found.status == "correct", found.detail
    assert not found.notes


@pytest.mark.slow
@pytest.mark.parametrize("times", mark_slow([2.2, 3.2, 6], [3.2, 6]))
@pytest.mark.parametrize(
    "body", ["return x", "y = F.gelu(x); y[63, 4095] += 1; return y", "return F.gelu(x.half())"]
)
def test_with_little_memory_a_wrong_answer_is_incorrect(project, times, body):
    found = check_with(project, GELU, body.replace("; ", "\n"), times)

    assert found.status in ("incorrect", "kernel-error")


@pytest.mark.slow
def test_what_is_run_at_once_is_judged_in_fp32_where_fp64_does_not_fit(project):
    right = check_with(project, CENTRED, "return x - x.mean(0)", 4.5)

    assert right.status == "correct", right.detail
    assert any("fp32 instead of fp64" in note for note in right.notes)
    assert not any("rows at a time" in note for note in right.notes)


@pytest.mark.slow
def test_what_is_run_at_once_and_does_not_fit_is_refused_not_accepted(project):
    with pytest.raises(EnvironmentGapError, match="judging takes"):
        check_with(project, CENTRED, "return x - x.mean(0)", 3)


NO_GPU_MEMORY = "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 6.00 GiB.')"


@pytest.mark.slow
def test_a_check_does_not_accuse_a_candidate_for_want_of_gpu_memory(project):
    with pytest.raises(EnvironmentGapError, match=r"candidate takes more GPU memory.*6\.00 GiB"):
        check_with(project, GELU, NO_GPU_MEMORY, 1000)


@pytest.mark.slow
def test_a_bench_does_not_accuse_a_candidate_for_want_of_gpu_memory(project):
    subject, built, workload = prepare_task(project, GELU, NO_GPU_MEMORY)

    with pytest.raises(EnvironmentGapError, match=r"candidate takes more GPU memory.*6\.00 GiB"):
        bench(subject, built, workload=workload, options=BenchOptions(budget_s=0.3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "verdicts"),
    [
        ("return F.gelu(x)", ("inconclusive", "slower", "faster", "invalid")),
        (
            "self.calls = getattr(self, 'calls', 0) + 1\n"
            "return F.gelu(x) if self.calls < 4 else x.clone()",
            ("incorrect",),
        ),
    ],
)
def test_with_little_memory_calls_are_timed_and_compared(project, body, verdicts):
    subject, built, workload = prepare_task(project, GELU, body)
    size = working_set_bytes(subject.kernel_folder, workload)
    found = bench(
        subject, built, workload=workload, free_bytes=4 * size, options=BenchOptions(budget_s=0.3)
    )

    assert found.verdict in verdicts, found.detail
    assert found.verdict == "incorrect" or any("one copy" in line for line in found.warnings)


def write_memory(folder, available, total, group=None):
    """Write files as Linux does: sizes of the machine in KiB, of a cgroup in bytes."""
    (folder / "proc" / "self").mkdir(parents=True)
    lines = f"MemTotal: {total} kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n"
    (folder / "proc" / "meminfo").write_text(lines)
    (folder / "proc" / "self" / "cgroup").write_text("0::/jobs/one\n")
    (folder / "groups" / "jobs" / "one").mkdir(parents=True)
    for name, text in (group or {}).items():
        (folder / "groups" / "jobs" / name).write_text(text)
    return read_host_memory(folder / "proc", folder / "groups")


def test_free_memory_is_that_of_the_machine(tmp_path):
    assert write_memory(tmp_path, 500, 1000) == (500 * 1024, 1000 * 1024)


def test_the_limit_of_a_group_around_this_one_counts(tmp_path):
    group = {
        "memory.max": "300000\n",
        "memory.current": "250000\n",
        "memory.stat": "anon 200000\ninactive_file 40000\n",
    }

    assert write_memory(tmp_path, 500, 1000, group) == (90000, 300000)


def test_a_group_without_a_limit_changes_nothing(tmp_path):
    group = {"memory.max": "max\n", "memory.current": "250000\n"}

    assert write_memory(tmp_path, 500, 1000, group) == (500 * 1024, 1000 * 1024)


@pytest.mark.parametrize(("available", "is_low"), [(99, True), (100, False)])
def test_less_than_a_tenth_of_the_memory_is_low(tmp_path, available, is_low):
    warning = describe_low_memory(write_memory(tmp_path, available, 1000))

    assert ["swapping" in line for line in warning] == [True] * is_low


@pytest.mark.slow
def test_a_check_takes_three_times_inputs_and_outputs_at_most(project, tmp_path_factory):
    """As the kernel counts the judge's memory, for 200 MiB."""
    peaks = []
    for rows in (64, 6400):
        task = make_task("return F.gelu(x)", f"[torch.randn({rows}, 4096)]")
        folder = tmp_path_factory.mktemp("task")
        subject, built, workload = prepare_task(folder, task, "return F.gelu(x)")
        size = working_set_bytes(subject.kernel_folder, workload)

        def judge(subject=subject, built=built, workload=workload, size=size):
            found = check(subject, built, workloads=[workload], free_bytes=10 * size)
            return found.status

        status, peak = measure_judge(judge)
        assert status == "correct"
        peaks.append(peak)

    assert peaks[1] - peaks[0] < 3 * size + 400 * MIB, "chunks of 16 Mi elements in fp64 besides"


GPU_ROWS = 2**14
GPU_BYTES = 2 * GPU_ROWS * 2**15 * 4


class DevicePeak:
    """The most device memory in use, by the driver's count, less what was in use before."""

    def __enter__(self):
        self.before = self.highest = self.read()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.poll, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    @staticmethod
    def read():
        free, total = torch.cuda.mem_get_info()
        return total - free

    def poll(self):
        while not self.is_over.is_set():
            self.highest = max(self.highest, self.read())
            time.sleep(0.002)

    @property
    def growth(self):
        return self.highest - self.before


@pytest.mark.gpu
def test_a_large_task_on_a_gpu_takes_three_times_inputs_and_outputs(project):
    """Besides what candidate and baseline take themselves: an output each, and their contexts."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch sees")
    task = make_task("return F.gelu(x)", f"[torch.rand({GPU_ROWS}, {2**15})]")
    subject, built, workload = prepare_task(project, task, "return F.gelu(x)", "cuda")
    with DevicePeak() as checking:
        checked = check(subject, built, workloads=[workload])
    with DevicePeak() as timing:
        timed = bench(subject, built, workload=workload, options=BenchOptions(budget_s=1.0))
    contexts = 3 * 2**30

    assert checked.status == "correct", checked.detail
    assert checking.growth < 3 * GPU_BYTES + GPU_BYTES // 2 + contexts
    assert timed.verdict == "inconclusive", (timed.speedup, timed.interval, timed.detail)
    assert timing.growth < 3 * GPU_BYTES + GPU_BYTES + contexts
