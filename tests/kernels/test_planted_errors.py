"""Kernels with one planted error each, compiled and judged: the right kind of cause comes first."""

import json
import shutil

import pytest
from planted_kernels import write_planted

from kernelkb.actions.advice.calculators import diagnose_log
from kernelkb.actions.kernels import explain_program
from kernelkb.actions.kernels.measure_variant import (
    bench_variant,
    build_variant,
    check_variant,
)
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.errors import KbError
from kernelkb.measure.machine.host import find_nvcc

CPU_ERRORS = {
    1: "k-tail-lost",
    2: "first-k-tile-lost",
    3: "k-tile-twice",
    4: "part-of-warp-reduced",
    5: "operand-transposed",
    6: "operand-transposed",
    7: "tail-never-written",
    8: "tail-never-written",
    10: "accumulator-not-reset",
    11: "second-fragment-address",
    12: "vector-parts-swapped",
    13: "tile-transposed",
    14: "bias-missing",
    15: "broadcast-wrong-axis",
    16: "constant-factor",
    17: "branch-on-sign-wrong",
    18: "output-rounded",
    19: "sign-wrong",
    21: "wrong-leading-dimension",
    22: "output-transposed",
    23: "scratch-not-cleared",
}
FEW = (1, 11)
"""Of the CPU's, those that are judged in each run of the tests."""


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=() if bug in FEW else pytest.mark.slow) for bug in CPU_ERRORS]
)
def test_a_planted_error_of_a_cpu_kernel_is_named(project, bug):
    write_planted(project, "tiled.cpp", bug, language="c++", target="cpu")
    found = check_variant("planted", target="cpu")

    assert found.status == "incorrect"
    assert found.symptom == CPU_ERRORS[bug], found.detail
    assert found.cure.startswith(f"{found.symptom}: ")
    assert diagnose_log(found.detail)["symptoms"][0]["symptom"] == found.symptom


def test_the_right_kernel_is_not_explained(project):
    write_planted(project, "tiled.cpp", 0, language="c++", target="cpu")
    found = check_variant("planted", target="cpu")

    assert (found.status, found.symptom, found.when, found.cure) == ("correct", None, None, None)
    assert not any(case.error_shape for case in found.cases)


@pytest.mark.slow
def test_a_bench_of_a_wrong_kernel_answers_with_the_shape_the_workloads_and_the_cause(project):
    write_planted(project, "tiled.cpp", 1, language="c++", target="cpu")
    found = bench_variant("planted", target="cpu")

    assert "as if the last 16 of 80 along axis 1 of a were left out" in found.detail
    assert "wrong on 3 of 6 workloads: each whose k is no multiple of 32" in found.detail
    assert found.cure.startswith("k-tail-lost: ")


SOURCES = {
    "simt.cu": ("cuda", ""),
    "mma.cu": ("cuda", ""),
    "cp_async.cu": ("cuda", ""),
    "wgmma.cu": ("cuda", ""),
    "extension.cu": ("cuda", ", binding: torch-extension, returns: true"),
    "block.py": ("triton", ""),
}
RACE = (
    "race-condition",
    "race-between-calls",
    "few-scattered-wrong",
    "neighbour-tile-read",
    "nan-in-some-rows",
)
"""What an error shows that depends on which thread comes first."""
GPU_ERRORS = {
    ("simt.cu", 1): ("k-tail-lost",),
    ("simt.cu", 2): ("first-k-tile-lost",),
    ("simt.cu", 3): RACE,
    ("simt.cu", 4): ("second-fragment-address",),
    ("simt.cu", 5): ("accumulator-not-reset",),
    ("simt.cu", 6): ("operand-transposed",),
    ("simt.cu", 7): ("broadcast-wrong-axis", "neighbour-tile-read"),
    ("simt.cu", 8): ("vector-parts-swapped",),
    ("simt.cu", 9): ("tail-never-written",),
    ("simt.cu", 10): ("bias-missing",),
    ("simt.cu", 11): ("grid-too-small", "tail-never-written"),
    ("mma.cu", 1): ("k-tail-lost",),
    ("mma.cu", 2): ("first-k-tile-lost",),
    ("mma.cu", 3): ("k-tile-twice",),
    ("mma.cu", 4): ("second-fragment-address",),
    ("mma.cu", 5): ("second-fragment-address",),
    ("mma.cu", 6): ("vector-parts-swapped",),
    ("mma.cu", 7): ("vector-parts-swapped",),
    ("mma.cu", 8): ("fragment-layout",),
    ("mma.cu", 9): ("write-predicate-wrong",),
    ("mma.cu", 10): ("constant-factor",),
    ("mma.cu", 11): ("grid-too-small", "tail-never-written"),
    ("cp_async.cu", 1): ("k-tail-lost",),
    ("cp_async.cu", 2): ("first-k-tile-lost",),
    ("cp_async.cu", 3): RACE,
    ("cp_async.cu", 4): ("stale-ring-stage",),
    ("cp_async.cu", 5): ("swizzle-mismatch",),
    ("wgmma.cu", 1): ("k-tail-lost",),
    ("wgmma.cu", 2): ("first-k-tile-lost",),
    ("wgmma.cu", 3): ("second-fragment-address",),
    ("wgmma.cu", 4): ("stale-ring-stage",),
    ("wgmma.cu", 5): ("second-fragment-address",),
    ("wgmma.cu", 6): ("operand-transposed",),
    ("wgmma.cu", 7): ("swizzle-mismatch",),
    ("wgmma.cu", 8): RACE,
    ("wgmma.cu", 9): ("broadcast-wrong-axis",),
    ("wgmma.cu", 10): ("broadcast-wrong-axis",),
    ("wgmma.cu", 11): ("vector-parts-swapped",),
    ("wgmma.cu", 12): ("operand-transposed", "tile-transposed"),
    ("wgmma.cu", 13): ("swizzle-mismatch",),
    ("wgmma.cu", 14): ("fragment-layout",),
    ("extension.cu", 1): ("output-transposed",),
    ("extension.cu", 2): ("k-tail-lost",),
    ("extension.cu", 3): ("index-off-by-one",),
    ("extension.cu", 4): ("broadcast-wrong-axis",),
    ("extension.cu", 5): ("stale-result",),
    ("extension.cu", 6): ("grid-too-small",),
    ("extension.cu", 7): ("sign-wrong",),
    ("extension.cu", 8): ("output-rounded",),
    ("block.py", 1): ("k-tail-lost",),
    ("block.py", 2): ("first-k-tile-lost",),
    ("block.py", 3): ("operand-transposed",),
    ("block.py", 4): ("inputs-rounded",),
    ("block.py", 5): ("bias-missing",),
    ("block.py", 6): ("constant-factor",),
    ("block.py", 7): ("tail-never-written",),
    ("block.py", 8): ("wrong-leading-dimension",),
}


def write_gpu_kernel(project, source, bug):
    language, extra = SOURCES[source]
    write_planted(project, source, bug, language=language, extra=extra)


@pytest.fixture
def needs_a_gpu(source):
    machine = validate_machine("cuda").machine
    if machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    if source == "wgmma.cu" and machine.cc != "9.0":
        pytest.skip("no Hopper, which alone has wgmma")


@pytest.mark.gpu
@pytest.mark.usefixtures("needs_a_gpu")
@pytest.mark.parametrize(("source", "bug"), GPU_ERRORS)
def test_a_planted_error_of_a_gpu_kernel_is_named(project, source, bug):
    write_gpu_kernel(project, source, bug)
    found = check_variant("planted", target="cuda")

    assert found.status == "incorrect", found.detail
    assert found.symptom in GPU_ERRORS[source, bug], found.detail


@pytest.mark.gpu
@pytest.mark.usefixtures("needs_a_gpu")
@pytest.mark.parametrize("source", SOURCES)
def test_a_right_gpu_kernel_is_not_explained(project, source):
    write_gpu_kernel(project, source, 0)
    found = check_variant("planted", target="cuda")

    assert (found.status, found.symptom) == ("correct", None), found.detail


@pytest.mark.slow
@pytest.mark.parametrize("source", ["simt.cu", "mma.cu", "cp_async.cu", "wgmma.cu"])
def test_planted_gpu_kernels_compile_without_a_gpu(project, source):
    if find_nvcc() is None:
        pytest.skip("no nvcc")
    write_gpu_kernel(project, source, 4)
    built = build_variant("planted", arch="9.0")

    assert built.error is None


def test_the_smallest_wrong_sizes_are_found_and_kept(project):
    write_planted(project, "tiled.cpp", 11, language="c++", target="cpu")
    found = check_variant("planted", target="cpu")

    # Its second half of each tile of 32 holds the first: wrong from 17 columns on.
    kept = json.loads((project / ".kb" / "wrong-sizes" / "planted.json").read_text())
    assert kept == [{"m": 1, "n": 17, "k": 1}]
    assert "the smallest sizes found to be wrong: m=1 n=17 k=1" in found.detail
    again = check_variant("planted", target="cpu")
    assert "m=1 n=17 k=1" in [case.workload for case in again.cases]
    assert "the smallest sizes found" not in again.detail, "they are known"
    shutil.rmtree(project / "kernels" / "planted")
    write_planted(project, "tiled.cpp", 0, language="c++", target="cpu")
    right = check_variant("planted", target="cpu")
    assert right.status == "correct"
    assert "m=1 n=17 k=1" in [case.workload for case in right.cases]


def test_sizes_that_the_author_excludes_are_not_tried_nor_kept(project):
    folder = write_planted(project, "tiled.cpp", 11, language="c++", target="cpu")
    file = project / ".kb" / "wrong-sizes" / "planted.json"
    file.parent.mkdir(parents=True)
    file.write_text('[{"m": 1, "n": 17, "k": 1}]')
    excluded = "hidden_inputs: {skip: [sizes], reason: only these are called}\nvariants:"
    text = (folder / "kernel.yaml").read_text()
    (folder / "kernel.yaml").write_text(text.replace("variants:", excluded))
    found = check_variant("planted", target="cpu")

    assert found.status == "incorrect"
    assert "m=1 n=17 k=1" not in [case.workload for case in found.cases]
    assert "the smallest sizes found" not in found.detail
    assert file.read_text() == '[{"m": 1, "n": 17, "k": 1}]'


def test_sizes_on_which_the_reference_does_not_run_end_the_search_alone(project, monkeypatch):
    def refuse(*_):
        raise KbError("the reference of planted does not run")

    monkeypatch.setattr(explain_program, "find_wrong_sizes", refuse)
    write_planted(project, "tiled.cpp", 11, language="c++", target="cpu")
    found = check_variant("planted", target="cpu")

    assert (found.status, found.symptom) == ("incorrect", "second-fragment-address")
