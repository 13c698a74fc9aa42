"""What a search leaves: the kept winner, the entry of the session, the page, and a plan to read."""

import json
import shutil

import pytest

from kernelkb.actions.sessions.sessions import load_session, start_session
from kernelkb.cli import main
from kernelkb.measure.build.build import build
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.profiles.machine_code import count_built_code
from kernelkb.record.measurements.store import open_store
from kernelkb.tune.explain import list_formula_metrics
from kernelkb.tune.plan import TuningOptions, format_defines, plan_tuning
from kernelkb.tune.tune import tune
from kernelkb.tune.winner import find_seeds

SOURCE = """
#include <cstdint>
#ifndef MODE
#define MODE 0
#endif
#ifndef WORK
#define WORK 32
#endif
extern "C" int twice(const float* x, float* y, std::int64_t n, void*) {
  if (MODE == 1) return 7;
  volatile float sink = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (int w = 0; w < WORK; ++w) sink = sink + x[i];
    y[i] = 2 * x[i];
  }
  return 0;
}
"""
CUDA_SOURCE = """
#include <cstdint>
template <int kThreads, int kUnroll>
__global__ void add_up(const float* x, float* y, std::int64_t n) {
  __shared__ float part[kThreads * kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t i = (std::int64_t(blockIdx.x) * kUnroll + u) * kThreads + threadIdx.x;
    part[u * kThreads + threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = 2 * part[u * kThreads + threadIdx.x];
  }
}
extern "C" int twice(const float* x, float* y, std::int64_t n, void* stream) {
  const int blocks = (n + THREADS * UNROLL - 1) / (THREADS * UNROLL);
  add_up<THREADS, UNROLL><<<blocks, THREADS, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n);
  return cudaGetLastError();
}
"""
KERNEL = """
id: twice
title: twice the input
axes: [n]
workloads: {small: {n: 4096}, large: {n: 20000}}
default_workload: {cpu: large, cuda: large}
inputs: [{name: x, shape: [n], dtype: float32, fill: normal}]
outputs: [{name: y, shape: [n], dtype: float32}]
reference: {file: reference.py, function: twice}
entry: twice
variants:
  - id: plain
    target: cpu
    language: c++
    source: plain.cpp
    summary: a loop
    tune:
      parameters: {MODE: [0, 1], WORK: [1, 2, 4, 8, 16, 32]}
      constraints: [{require: WORK < 64, because: it is enough}]
      default: {MODE: 0, WORK: 32}
  - id: blocks
    target: cuda
    language: cuda
    source: blocks.cu
    kernels: [add_up]
    summary: a block for each part
    tune:
      parameters: {THREADS: [64, 256, 2048], UNROLL: [1, 4]}
      threads: THREADS
      shared_bytes: 4 * THREADS * UNROLL
      blocks: ceil(n / (THREADS * UNROLL))
      default: {THREADS: 64, UNROLL: 1}
"""
FASTEST = {"MODE": 0, "WORK": 1}


@pytest.fixture
def twice(project):
    folder = project / "kernels" / "twice"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(KERNEL)
    (folder / "plain.cpp").write_text(SOURCE)
    (folder / "blocks.cu").write_text(CUDA_SOURCE)
    (folder / "reference.py").write_text("def twice(x):\n    return 2 * x\n")
    return project


def search(workload=None, **options):
    plan = plan_tuning("twice", target="cpu", workload=workload)
    return plan, tune(plan, TuningOptions(budget_s=240, **{"judge": False, **options}))


@pytest.mark.slow
def test_the_winner_is_kept_logged_and_built_by_its_workload(twice, capsys):
    start_session("mine", "make it faster", kernel="twice")
    page = twice / "page.html"
    words = ["tune", "twice", "--target", "cpu", "--page", str(page), "--why", "--json"]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    with open_store(twice) as store:
        kept = store.get(result["measurement"])

    assert kept.kind == "tune"
    assert {"-DMODE=0", "-DWORK=1"} <= set(kept.subject.flags)
    assert kept.verdict == result["bench"]["verdict"]
    assert kept.candidate_us == result["bench"]["candidate_us"]
    assert "trials of 12 configurations" in kept.detail
    assert result["rejections"][0]["concentrations"] == [
        {"tunable": "MODE", "value": 1, "rejected_count": 6, "reached_count": 6}
    ]
    assert result["why"]["no_counters"] == "counters are read on a GPU only"
    assert "Convergence" in page.read_text()
    (entry,) = load_session("mine").entries
    (step,) = entry.steps
    assert (entry.by, step.name, step.measurement) == ("tune", "tune", result["measurement"])
    assert "with MODE=0 WORK=1; 12 trials of 12 configurations" in step.found
    (wrong,) = entry.went_wrong
    assert wrong.startswith("6 refused (50 %): 6 of 6 with MODE=1 (of 6 such trials); ")
    assert step.speedup == result["bench"]["speedup"]

    assert main(["build", "twice", "--target", "cpu", "--tuned", "--json"]) == 0
    (built,) = json.loads(capsys.readouterr().out)
    assert built["defines"] == ["MODE=0", "WORK=1"]
    assert main(["build", "twice", "--target", "cpu", "--tuned", "small"]) == 2
    assert "run kb tune twice --workload small" in capsys.readouterr().err


@pytest.mark.slow
def test_the_next_search_begins_with_the_winners_of_earlier_ones(twice):
    _, first = search()
    source = twice / "kernels" / "twice" / "plain.cpp"
    source.write_text(f"// another state\n{SOURCE}")
    plan, changed = search(max_trials=2)
    _, smaller = search("small", max_trials=2, strategy="tpe")

    assert first.winner.configuration == FASTEST
    assert first.seeds == ()
    assert changed.resumed_count == 0
    assert changed.seeds == smaller.seeds == (FASTEST,)
    for result in (changed, smaller):
        assert {json.dumps(one.configuration) for one in result.trials} == {
            json.dumps(FASTEST),
            json.dumps({"MODE": 0, "WORK": 32}),
        }
    assert [plan.space.get_configuration(one) for one in find_seeds(plan)] == [FASTEST]


@pytest.mark.slow
def test_a_database_that_cannot_be_written_costs_the_record_only(twice, monkeypatch):
    (twice / "x.db").write_bytes(b"no database " * 100)
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{twice / 'x.db'}")
    _, result = search(max_trials=3)

    assert result.confirmed
    assert result.measurement is None
    assert result.unrecorded


def test_a_page_that_cannot_be_written_is_refused_before_the_search(twice, capsys):
    words = ["tune", "twice", "--target", "cpu", "--page", "missing/page.html"]

    assert main(words) == 2
    assert "no such folder" in capsys.readouterr().err
    assert not (twice / ".kb" / "tuning").exists()


def test_tuned_and_define_exclude_each_other(twice, capsys):
    assert main(["build", "twice", "--tuned", "--define", "WORK=1"]) == 2
    assert "leave --define out" in capsys.readouterr().err


def test_an_architecture_without_its_gpu_can_only_be_planned(twice, capsys):
    assert main(["tune", "twice", "--arch", "9.0"]) == 2
    assert "add --plan" in capsys.readouterr().err
    assert main(["tune", "twice", "--target", "cpu", "--arch", "9.0", "--plan"]) == 2
    assert main(["tune", "twice", "--arch", "9.99", "--plan"]) == 2


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_without_a_gpu_a_plan_is_listed_and_two_builds_are_compared(twice, capsys):
    assert main(["tune", "twice", "--arch", "sm_90", "--plan"]) == 0
    printed = capsys.readouterr().out
    plan = plan_tuning("twice", "blocks", arch="9.0")
    facts, codes = [], []
    for configuration in ({"THREADS": 64, "UNROLL": 1}, {"THREADS": 256, "UNROLL": 4}):
        subject, root = plan.bench_target.subject, plan.bench_target.build_root
        built = build(subject, root, format_defines(configuration))
        facts.append(list_formula_metrics(plan, configuration, built))
        codes.append(count_built_code(find_machine_code(built)))

    assert "4 of 6 configurations are feasible" in printed
    assert "the largest block of the GPU" in printed
    assert facts[0]["block_thread_count"] == 64
    assert facts[0]["grid_block_count"] == 313
    assert facts[1]["static_shared_bytes"] == 4096
    assert facts[1]["dynamic_shared_bytes"] == 0
    assert facts[1]["register_count"] > 0
    assert codes[1]["shared_stores"] > codes[0]["shared_stores"]
