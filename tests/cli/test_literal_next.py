"""Following ``next`` as it is printed works, from nothing to a closed session."""

import pytest
from literal_next import FIRST, LAST, follow, keep_only
from simple_kernels import write_kernel

from kernelkb.record.sessions import list_session_ids, read_session

BETTER_TWICE = """
#include <cstdint>
extern "C" int twice(const float* __restrict__ x, float* __restrict__ y, std::int64_t n, void*) {
#pragma omp parallel for simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
  return 0;
}
"""


def follow_to_the_end(project, better):
    edited = []

    def edit(path):
        edited.append(path.name)
        path.write_text(better)

    ran = follow(project, edit)
    (name,) = list_session_ids(project / "sessions")
    assert read_session(name, project / "sessions").is_closed
    assert (ran[0], ran[-1]) == (FIRST, LAST)
    return ran, edited


@pytest.mark.slow
def test_a_kernel_with_nothing_left_to_change(project):
    write_kernel(project, "twice")
    ran, _ = follow_to_the_end(project, BETTER_TWICE)
    assert any(step.startswith("kb triage twice") for step in ran)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "workload"), [("row_softmax", "small"), ("gemm", "tiny")])
def test_a_change_is_made_where_next_says(project, kernel, workload):
    better = keep_only(project, kernel, workload=workload)
    ran, edited = follow_to_the_end(project, better)
    assert any(step.startswith(f"kb variant add {kernel} ") for step in ran)
    assert any(f"kb bench {kernel} --variant {edited[0].split('.')[0]} " in step for step in ran)


@pytest.mark.gpu
@pytest.mark.parametrize("workload", ["small", "large"])
def test_a_change_on_a_gpu_is_made_where_next_says(project, workload):
    better = keep_only(project, "row_softmax", "cuda", workload)
    ran, edited = follow_to_the_end(project, better)
    assert edited
    assert any(step.startswith("kb variant add row_softmax ") for step in ran)
