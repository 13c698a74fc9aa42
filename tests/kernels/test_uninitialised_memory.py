"""A candidate that takes new memory, or a GPU's shared memory, for cleared is incorrect."""

import pytest
import torch
from broken_kernels import make_broken_kernel
from task_checks import check_task, make_module, make_task

from kernelkb.actions.kernels.measure_variant import check_variant

ELEMENTS = 2**20  # of 4 MiB: memory that the system clears
TASK = make_task("return x * 3.0", f"[torch.rand({ELEMENTS})]")
ADDS_TO_SCRATCH = "scratch = torch.empty_like(x)\nscratch.add_(x)\nreturn scratch * 3.0"
CLEARS_SCRATCH = ADDS_TO_SCRATCH.replace("empty_like", "zeros_like")


@pytest.mark.slow
@pytest.mark.defends(
    "R7",
    attack=(
        "read memory that it never wrote: scratch, or shared memory of a GPU, which are often zero"
    ),
    defence="both are filled",
)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (ADDS_TO_SCRATCH, "incorrect"),
        pytest.param(CLEARS_SCRATCH, "correct", marks=pytest.mark.slow),
    ],
)
def test_memory_that_torch_gives_is_not_clear(project, body, status):
    found = check_task(project, TASK, make_module("ModelNew", body))

    assert found.status == status, found.detail


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("body", "status"), [(ADDS_TO_SCRATCH, "incorrect"), (CLEARS_SCRATCH, "correct")]
)
def test_memory_that_torch_gives_on_a_gpu_is_not_clear(project, body, status):
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch sees")
    found = check_task(project, TASK, make_module("ModelNew", body), "cuda")

    assert found.status == status, found.detail


@pytest.mark.gpu
@pytest.mark.parametrize(("clears", "status"), [(False, "incorrect"), (True, "correct")])
def test_shared_memory_is_not_clear(project, clears, status):
    """Something is added to a maximum that each block of threads has not set."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch sees")
    source = make_broken_kernel(project, "right") / "naive.cu"
    text = source.read_text()
    declared = "__shared__ volatile float offset;" + clears * " offset = 0.0f;"
    wrong = f"{declared}\n  float row_max = x[0] + offset;"
    source.write_text(text.replace("float row_max = x[0];", wrong))
    found = check_variant("broken", "naive", "cuda")

    assert found.status == status, found.detail
