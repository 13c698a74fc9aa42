"""What only a GPU can show. Run with ``pytest -m gpu`` on a machine that has one."""

import shutil
from functools import cache
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel

from kernelkb.actions.bench_target import validate_machine
from kernelkb.actions.building import build_variant
from kernelkb.actions.kernels import check_variant, profile_variant
from kernelkb.actions.recommend import recommend_from_metrics
from kernelkb.actions.triage import triage

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
    assert "--sanitize" in found.cure


def test_a_cuda_error_in_the_source_names_the_line(project):
    source = make_broken_kernel(project, "right") / "naive.cu"
    source.write_text(source.read_text().replace("threadIdx.x", "threadIdy.x"))
    found = build_variant("broken", "naive", "cuda")

    assert found.status == "failed"
    assert "naive.cu:" in found.error
    assert "threadIdy" in found.error
