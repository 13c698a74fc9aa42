"""What only a GPU can show. Run with ``pytest -m gpu`` on a machine that has one."""

import shutil
from functools import cache
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel

from kernelkb.actions.advice.recommend import recommend_from_metrics
from kernelkb.actions.kernels.measure_variant import (
    bench_variant,
    build_variant,
    check_variant,
    profile_variant,
)
from kernelkb.actions.kernels.triage import triage
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.measure.subject import BenchOptions

pytestmark = pytest.mark.gpu


@cache
def find_gpu_and_ncu():
    """Whether this machine can build and run for a GPU, and whether it has ncu."""
    found = validate_machine("cuda")
    return found.machine is not None, shutil.which("ncu") is not None


@pytest.fixture(autouse=True)
def needs_a_gpu():
    if not find_gpu_and_ncu()[0]:
        pytest.skip("no GPU that torch sees, or no nvcc")


@pytest.mark.parametrize("variant", ["naive", "warp"])
def test_both_variants_are_correct_on_every_shape(project, variant):
    found = check_variant("row_softmax", variant, "cuda")

    assert found.status == "correct", found.detail


def test_ptxas_says_that_nothing_spills(project):
    resources = build_variant("row_softmax", "warp", "cuda").resources

    assert resources
    assert sum(r.spill_store_bytes + r.stack_bytes for r in resources) == 0


def test_the_naive_profile_names_its_cause(project):
    if not find_gpu_and_ncu()[1]:
        pytest.skip("no ncu")
    seen = profile_variant("row_softmax", "naive", "cuda", "large")
    best = recommend_from_metrics(seen.metrics, target="cuda")["kernels"][0]["diagnoses"][0]

    assert seen.tool == "ncu", seen.detail
    assert (best["bottleneck"], best["verdict"]) == ("uncoalesced-global-access", "matches")


def test_triage_follows_the_advice_from_naive_to_warp(project):
    found = triage("row_softmax", target="cuda", workload="large")

    assert [seen.variant for seen in found.examined] == ["naive", "warp"]
    assert found.followed.fixes == ("remap-threads-coalesced",)
    assert found.followed.confirmed  # a factor of twenty here, no close call
    assert Path(found.session).is_file()


def test_an_illegal_address_is_a_crash_with_a_cure(project):
    source = make_broken_kernel(project, "right") / "naive.cu"
    text = source.read_text()
    source.write_text(text.replace("float row_max = x[0];", "float row_max = *(const float*)8;"))
    found = check_variant("broken", "naive", "cuda")

    assert found.status == "crashed"
    assert "memcheck: Invalid __global__ read of size 4 bytes" in found.detail
    assert "naive.cu:" in found.detail
    assert "thread (" in found.detail
    assert found.cure.startswith("out-of-bounds-access: ")


def test_a_kernel_that_does_not_end_tells_the_line_that_waits(project):
    source = make_broken_kernel(project, "right") / "naive.cu"
    text = source.read_text()
    wait = "while (*(volatile const float*)x != 12345.0f) {} float row_max = x[0];"
    source.write_text(text.replace("float row_max = x[0];", wait))
    line = 1 + text[: text.index("float row_max")].count("\n")
    inside = check_variant("broken", "naive", "cuda", options=BenchOptions(timeout_s=8.0))
    options = BenchOptions(timeout_s=8.0, with_sanitizer=True)
    found = check_variant("broken", "naive", "cuda", options=options)

    assert inside.status == "timed-out"
    assert inside.cure.startswith("kb bench --sanitize looks where its threads wait")
    assert found.status == "timed-out"
    assert f"at naive.cu:{line}" in found.detail
    assert "read global memory in a loop" in found.detail
    assert "Python is at" not in found.detail
    assert found.cure.startswith("flag-not-set: ")


def test_a_cuda_error_in_the_source_names_the_line(project):
    source = make_broken_kernel(project, "right") / "naive.cu"
    source.write_text(source.read_text().replace("threadIdx.x", "threadIdy.x"))
    found = build_variant("broken", "naive", "cuda")

    assert found.status == "failed"
    assert "naive.cu:" in found.error
    assert "threadIdy" in found.error


SCRATCH_MIB = 256


def test_scratch_memory_and_energy_of_a_gpu_kernel_are_measured(project):
    """The scratch is taken and given back within each call: only the judge's samples see it."""
    source = make_broken_kernel(project, "right") / "naive.cu"
    text = source.read_text()
    start = text.index("{", text.index('extern "C"')) + 1
    scratch = (
        "\n  void* scratch = nullptr;\n"
        f"  if (cudaMalloc(&scratch, {SCRATCH_MIB}u << 20) != cudaSuccess) return 2;\n"
        f"  cudaMemsetAsync(scratch, 1, {SCRATCH_MIB}u << 20, (cudaStream_t)stream);\n"
        "  cudaStreamSynchronize((cudaStream_t)stream);\n  cudaFree(scratch);\n"
    )
    source.write_text(text[:start] + scratch + text[start:])
    found = bench_variant("broken", "naive", "cuda", "small", options=BenchOptions(budget_s=0.3))
    use = found.resource_use

    assert use, found.detail
    assert (SCRATCH_MIB - 8) << 20 < use.peak_bytes < (SCRATCH_MIB + 64) << 20
    assert use.baseline_peak_bytes < 64 << 20
    assert use.held_bytes > 0
    assert any("of memory at its peak" in warning for warning in found.warnings)
    assert use.joules is None or 0 < use.joules < 100


def test_a_gpu_kernel_without_scratch_memory_gets_no_warning(project):
    found = bench_variant(
        "row_softmax", "warp", "cuda", "large", options=BenchOptions(budget_s=0.3)
    )

    assert found.resource_use, found.detail
    assert not [warning for warning in found.warnings if "of memory" in warning]
