"""Searches on a GPU. Run with ``pytest -m gpu`` on a machine that has one."""

import pytest

from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.cluster.choice import parse_workers
from kernelkb.cluster.cluster import open_cluster
from kernelkb.measure.build.build import build
from kernelkb.measure.check.sanitize import sanitize
from kernelkb.tune.on_cluster import SearchRequest, tune_on_cluster
from kernelkb.tune.plan import TuningOptions, plan_tuning
from kernelkb.tune.tune import tune

pytestmark = pytest.mark.gpu

SPLIT = {
    "flash-mma": ("BLOCK_M=16", "NUM_WARPS=4", "WARP_M=16"),
    "flash-wgmma": ("BLOCK_M=64", "NUM_WARPS=8", "PINGPONG=0"),
}
"""Configurations whose groups of warps share out the keys, and merge their results."""


@pytest.fixture(autouse=True)
def needs_hopper():
    machine = validate_machine("cuda").machine
    if machine is None or machine.cc != "9.0":
        pytest.skip("no GPU of compute capability 9.0 that torch sees, or no nvcc")


@pytest.mark.parametrize("variant", ["flash-mma", "flash-wgmma"])
def test_a_search_checks_times_and_confirms(project, variant):
    plan = plan_tuning("attention_fp16", variant, "cuda", "tiny")
    found = tune(plan, TuningOptions(budget_s=120, max_trials=6, judge=False))

    assert {trial.status for trial in found.trials} & {"timed"}
    assert not {trial.status for trial in found.trials} & {"crashed", "timed-out", "incorrect"}
    assert found.confirmed[0].low <= found.confirmed[0].gain <= found.confirmed[0].high


@pytest.mark.parametrize("variant", ["flash-mma", "flash-wgmma"])
@pytest.mark.parametrize("split", [False, True])
def test_compute_sanitizer_finds_nothing(project, variant, split):
    plan = plan_tuning("attention_fp16", variant, "cuda", "tiny")
    subject = plan.bench_target.subject
    built = build(subject, plan.bench_target.build_root, SPLIT[variant] if split else ())
    found = sanitize(subject, built)

    assert built.status != "failed", built.error
    assert found.finished_tools, found.reason
    assert not found.findings


def test_every_gpu_of_the_host_is_a_lane_of_a_search(project):
    request = SearchRequest("attention_fp16", "flash-mma", "cuda", "tiny")
    with open_cluster(parse_workers("auto")) as cluster:
        lanes = cluster.lanes
        options = TuningOptions(budget_s=150, max_trials=12, judge=False)
        (found,) = tune_on_cluster(cluster, request, options)

    assert {lane.uuid for lane in found.lanes} == {lane.uuid for lane in lanes}
    assert all(lane.uuid.startswith("GPU-") for lane in lanes)
    assert sum(trial.status == "timed" for trial in found.trials) >= 6
    assert found.confirmed[0].low <= found.confirmed[0].gain <= found.confirmed[0].high
