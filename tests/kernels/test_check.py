"""A wrong kernel is found, and what is wrong with it is said."""

import os
import shutil
from pathlib import Path
from statistics import median

import pytest
from attacks import write_attack
from broken_kernels import make_broken_kernel

from kernelkb.actions.kernels.measure_variant import (
    bench_built,
    bench_variant,
    build_prepared,
    check_variant,
)
from kernelkb.actions.kernels.triage import triage
from kernelkb.actions.project.bench_target import prepare
from kernelkb.errors import BadValueError, KbError
from kernelkb.measure.bench.statistics import paired_speedup
from kernelkb.measure.subject import BenchOptions


def check_broken_kernel(project, how, timeout_s=60.0):
    make_broken_kernel(project, how)
    return check_variant("broken", target="cpu", options=BenchOptions(timeout_s=timeout_s))


@pytest.mark.parametrize(
    ("how", "status", "word"),
    [
        pytest.param("prints-a-result", "correct", "", marks=pytest.mark.slow),
        pytest.param("zeros", "incorrect", "of the elements are wrong", marks=pytest.mark.slow),
        pytest.param(
            "one-percent-off", "incorrect", "of the elements are wrong", marks=pytest.mark.slow
        ),
        pytest.param(
            "last-element",
            "incorrect",
            "1 elements are NaN or were never written",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "nothing-written", "incorrect", "NaN or were never written", marks=pytest.mark.slow
        ),
        pytest.param("nan", "incorrect", "NaN or were never written", marks=pytest.mark.slow),
        ("input-changed", "incorrect", "changed its input x"),
        pytest.param(
            "scratch-assumed-zero",
            "incorrect",
            "of the elements are wrong",
            marks=pytest.mark.slow,
        ),
        pytest.param("odd-columns", "incorrect", "cols=33", marks=pytest.mark.slow),
        ("code-7", "kernel-error", "returned 7"),
        pytest.param("segfault", "crashed", "SIGSEGV on rows=1 cols=1", marks=pytest.mark.slow),
        pytest.param("abort", "crashed", "SIGABRT", marks=pytest.mark.slow),
        pytest.param("exit", "crashed", "ended the process with status 0", marks=pytest.mark.slow),
        pytest.param("too-much-memory", "crashed", "SIGSEGV", marks=pytest.mark.slow),
    ],
)
def test_each_fault_has_its_status_and_reason(project, how, status, word):
    found = check_broken_kernel(project, how)

    assert found.status == status
    assert word in (found.detail or "")
    assert found.status == "correct" or found.cure


def test_the_judge_refuses_wrong_answers_and_the_process_of_a_c_function_loads_no_torch(project):
    found = check_broken_kernel(project, "fails-beside-torch")

    assert found.status == "correct", found.detail
    assert {"all zeros", "the mean everywhere", "a copy of an input"} <= set(found.selftest)


@pytest.mark.slow
def test_an_endless_loop_is_ended(project):
    found = check_broken_kernel(project, "endless", timeout_s=4.0)

    assert (found.status, found.detail[:24]) == ("timed-out", "it did not finish within")


def check_endless_kernel(project, wait, include=""):
    """Check the right kernel with code before its first loop; return the check and its lines."""
    source = make_broken_kernel(project, "right") / "naive.cpp"
    loop = "  for (std::int64_t r = 0;"
    source.write_text(include + source.read_text().replace(loop, wait + loop, 1))
    found = check_variant("broken", target="cpu", options=BenchOptions(timeout_s=4.0))
    return found, source.read_text().splitlines()


def needs_program_counters():
    if shutil.which("addr2line") is None or not Path("/proc/self/syscall").exists():
        pytest.skip("no addr2line, or a kernel that does not tell where a process is")


def test_an_endless_loop_is_told_with_its_line(project):
    needs_program_counters()
    wait = "  while (*(volatile const float*)x != 12345.0f) {}\n"
    found, lines = check_endless_kernel(project, wait)
    line = 1 + lines.index(wait.rstrip())

    assert found.status == "timed-out"
    assert f"; endless loop: the thread stays in row_softmax at naive.cpp:{line} (" in found.detail
    assert found.cure.startswith("endless-loop: ")


@pytest.mark.slow
def test_an_endless_loop_of_another_thread_is_told_with_what_its_caller_waits_in(project):
    needs_program_counters()
    wait = """\
  std::atomic<int> go{0};
  std::thread other([&] {
    while (go.load() == 0) {
    }
  });
  other.join();
"""
    include = "#include <atomic>\n#include <thread>\n"
    found, lines = check_endless_kernel(project, wait, include)
    line = 1 + lines.index("    while (go.load() == 0) {")

    assert f"naive.cpp:{line} (" in found.detail
    assert "; the thread that called it waits in futex" in found.detail
    assert found.cure.startswith("endless-loop: ")


@pytest.mark.slow
def test_threads_that_wait_for_one_another_are_no_loop(project):
    needs_program_counters()
    wait = "  sem_t never; sem_init(&never, 0, 0); sem_wait(&never);\n"
    found, _ = check_endless_kernel(project, wait, "#include <semaphore.h>\n")

    assert "the thread that called it waits in futex, and no thread computes" in found.detail
    assert found.symptom is None


def test_a_missing_entry_point_is_unloadable_with_the_cure(project):
    source = make_broken_kernel(project, "right") / "naive.cpp"
    source.write_text(source.read_text().replace('extern "C" ', ""))
    found = check_variant("broken", target="cpu")

    assert found.status == "unloadable"
    assert 'extern "C"' in found.cure


@pytest.mark.defends(
    "H15",
    attack="zeros pass, because outputs are smaller than the tolerance",
    defence=(
        "self-test of the judge for each kernel; a tolerance that accepts zeros decides nothing"
    ),
)
def test_a_tolerance_that_accepts_zeros_decides_nothing(project):
    path = make_broken_kernel(project, "right") / "kernel.yaml"
    text = path.read_text().replace("atol: 1.0e-9", "atol: 2.0")
    path.write_text(text.replace("max_error: 1.0e-4", "max_error: 2.0"))

    with pytest.raises(KbError, match="so they decide nothing; tighten atol"):
        check_variant("broken", target="cpu")


def test_a_reference_that_fails_is_named(project):
    path = make_broken_kernel(project, "right") / "reference.py"
    path.write_text("def row_softmax(x, out=None):\n    raise ValueError('no idea')\n")

    with pytest.raises(
        KbError, match=r"does not run on .*: ValueError: no idea; fix .*reference\.py"
    ):
        check_variant("broken", target="cpu")


def test_a_reference_of_another_size_than_kernel_yaml_is_told_with_both_shapes(project):
    path = make_broken_kernel(project, "right") / "reference.py"
    path.write_text(
        "import torch\n\n\ndef row_softmax(x, out=None):\n    return torch.softmax(x, -1)[:, :1]\n"
    )

    with pytest.raises(
        KbError,
        match=r"kernel\.yaml of broken disagree on .*: \w+ is \[\d+, 1\] by the reference and "
        r"\[\d+, \d+\] by kernel\.yaml; say the right shape .* or fix .*reference\.py",
    ):
        check_variant("broken", target="cpu")


@pytest.mark.slow
def test_a_kernel_correct_only_during_the_check_is_incorrect(project):
    make_broken_kernel(project, "right-only-at-first")
    found = bench_variant("broken", target="cpu")

    assert found.verdict == "incorrect"
    assert found.candidate_us is None or "timed call was wrong" in found.detail


@pytest.mark.parametrize("budget", ["0", "-1", "three", "nan", "inf"])
def test_a_default_budget_that_is_no_number_of_seconds_is_refused(project, monkeypatch, budget):
    monkeypatch.setenv("KB_BUDGET", budget)
    make_broken_kernel(project, "right")
    place = prepare("broken", target="cpu")

    with pytest.raises(BadValueError, match=f"KB_BUDGET is '{budget}'; set it to a number"):
        bench_built(place, build_prepared(place), "small")


@pytest.mark.slow
def test_a_wrong_kernel_is_never_timed(project):
    make_broken_kernel(project, "zeros")
    found = bench_variant("broken", target="cpu")

    assert (found.verdict, found.candidate_us) == ("incorrect", None)


def test_the_fields_of_a_bench_are_consistent_and_follow_from_its_samples(project):
    make_broken_kernel(project, "right")
    found = bench_variant("broken", target="cpu", workload="tiny")
    again = paired_speedup(*zip(*found.samples, strict=True))

    assert found.verdict in ("faster", "slower", "inconclusive")
    assert found.interval[0] <= found.speedup <= found.interval[1]
    assert found.metrics["kernel_us"] == found.candidate_us
    assert 0 < found.metrics["core_occupancy"] <= 1
    assert len(found.samples) == found.pair_count > 0
    assert again.point == pytest.approx(found.speedup)
    assert median(candidate for candidate, _ in found.samples) == pytest.approx(found.candidate_us)
    assert "samples" not in found.model_dump()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param("raise ValueError('not here')", "not here", marks=pytest.mark.slow),
        pytest.param("os.abort()", "SIGABRT", marks=pytest.mark.slow),
        ("CALLS.append(x) if len(CALLS) < 3 else os.abort()", "SIGABRT"),
    ],
)
def test_a_failing_baseline_is_rejected_and_does_not_affect_the_candidate(project, body, why):
    folder = make_broken_kernel(project, "right")
    source = f"import os\nCALLS = []\ndef rival(x):\n    {body}\n    return x.softmax(-1)\n"
    (folder / "rival.py").write_text(source)
    path = folder / "kernel.yaml"
    line = "baselines: [{name: rival, file: rival.py, function: rival}]\n"
    path.write_text(path.read_text().replace("entry: row_softmax\n", line + "entry: row_softmax\n"))
    found = bench_variant("broken", target="cpu", options=BenchOptions(budget_s=0.5))
    rejected = {rival.name: rival.rejected for rival in found.rivals}

    assert found.baseline == "torch"
    assert why in rejected["rival"]


@pytest.mark.slow
def test_a_variant_is_compared_with_another_one(project):
    make_broken_kernel(project, "right")
    found = bench_variant(
        "broken", "naive", "cpu", "small", options=BenchOptions(against="vectorized")
    )

    assert found.verdict not in ("incorrect", "invalid")
    assert {"torch", "variant vectorized"} <= {rival.name for rival in found.rivals}


@pytest.mark.slow
def test_triage_compares_a_fix_directly_when_benches_are_incomparable(project, monkeypatch):
    monkeypatch.setattr("kernelkb.actions.kernels.triage.are_comparable", lambda *_: False)
    found = triage("row_softmax", target="cpu", workload="small")
    (step,) = [step for step in found.steps if step.name == "compare"]

    assert step.variant == "vectorized"
    assert "variant naive" in step.found
    assert (found.followed.measured is None) == (step.status == "warning")
    assert found.steps[-1] == step


@pytest.mark.slow
def test_nothing_is_left_beside_a_kernel_and_nothing_stale_is_run(project, monkeypatch):
    """Python keeps what it compiled, and takes a file of that second and size for the same one."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = make_broken_kernel(project, "right")
    reference = folder / "reference.py"
    before = set(folder.iterdir())

    assert check_variant("broken", "naive", "cpu").status == "correct"
    assert set(folder.iterdir()) == before

    stamp = reference.stat()
    text = reference.read_text()
    reference.write_text(text.replace("dim=-1", "dim=-2"))
    os.utime(reference, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    assert reference.stat().st_size == stamp.st_size
    assert check_variant("broken", "naive", "cpu").status == "incorrect"


@pytest.mark.slow
def test_workers_keep_torch_compiled_where_nothing_may_be_written_beside_it(
    project, monkeypatch, tmp_path
):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = make_broken_kernel(project, "right")
    before = set(folder.iterdir())

    assert check_variant("broken", "naive", "cpu").status == "correct"
    kept = {path.name.split(".")[0] for path in (tmp_path / "cache").rglob("torch/*.pyc")}
    assert {"__init__", "storage"} <= kept
    assert not list((tmp_path / "cache").rglob("reference.*.pyc"))
    assert set(folder.iterdir()) == before


def test_nothing_is_compared_with_a_variant_that_is_wrong(project):
    make_broken_kernel(project, "zeros")
    with pytest.raises(BadValueError, match="nothing can be compared with naive"):
        bench_variant("broken", "vectorized", "cpu", options=BenchOptions(against="naive"))


SLOW_PYTHON = """
import time
import torch

def softmax({}):
    time.sleep({})
    {}torch.softmax(x, -1)
"""


def bench_slow_kernel(project, candidate_s, reference_s):
    """Time a candidate whose calls, or whose reference's, take some seconds; 16 s are allowed."""
    name = write_attack(project, SLOW_PYTHON.format("x, y", candidate_s, "y[:] = "), python=True)
    reference = project / "kernels" / name / "reference.py"
    reference.write_text(SLOW_PYTHON.format("x", reference_s, "return "))
    place = prepare(name, target="cpu")
    return bench_built(
        place, build_prepared(place), "small", options=BenchOptions(timeout_s=16.0, budget_s=0.5)
    )


@pytest.mark.slow
def test_a_candidate_that_takes_all_the_time_is_invalid(project):
    found = bench_slow_kernel(project, 6, 0)

    assert (found.verdict, found.detail) == ("invalid", "it did not finish within 16 s")


@pytest.mark.slow
def test_a_baseline_that_takes_all_the_time_is_not_the_candidates_fault(project):
    with pytest.raises(KbError, match=r"within 16 s, while (torch|its baselines) ran; allow"):
        bench_slow_kernel(project, 0, 6)
