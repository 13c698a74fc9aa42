"""Kernels with one planted error each, compiled and judged: the right kind of cause comes first."""

import pytest
from planted_kernels import write_planted

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant

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
