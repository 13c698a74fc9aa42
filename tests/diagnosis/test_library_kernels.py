"""Kernels of PyTorch, cuBLAS, cuDNN and CUB on an H100: tuned code, of which little should be said.

What they showed to be wrong when they were first seen has been corrected. Each row names the first
cause that a reader of the profile would grant, or None where nothing stands out, and what would be
wrong to say.
"""

from functools import cache
from pathlib import Path

from shipped_rules import program

from kernelkb.decide.recommend import recommend
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page

PAGE = Path(__file__).parents[1] / "data" / "ncu" / "library" / "torch_operations.csv"


@cache
def read_launches():
    return tuple(read_raw_page(PAGE.read_text(), list_raw_names(program())))


TENSOR = {"occupancy-limited-registers", "occupancy-limited-shared-memory", "low-ilp"}
COALESCED = {"uncoalesced-global-access", "partial-sector-writes"}

EXPECTED = {
    "gemm_fp16": ("tensor-pipe-saturated", TENSOR | COALESCED | {"l1tex-bandwidth-bound"}),
    "gemm_fp32": ("compute-pipe-bound", COALESCED | {"occupancy-limited-registers"}),
    "gemm_skinny": ("tensor-pipe-underfed", TENSOR | COALESCED | {"small-grid"}),
    "gemv": ("dram-bandwidth-bound", TENSOR | COALESCED | {"small-grid"}),
    "sdpa": ("shared-memory-bank-conflicts", TENSOR | COALESCED),
    "sdpa_small": ("small-grid", COALESCED),
    "add_big": ("dram-bandwidth-bound", COALESCED | {"memory-latency-bound"}),
    "add_small": ("small-grid", COALESCED),
    "softmax": (None, COALESCED),
    "layernorm": ("dram-bandwidth-bound", COALESCED),
    "sum_rows": ("dram-bandwidth-bound", COALESCED),
    "transpose": ("uncoalesced-global-access", {"dram-bandwidth-bound", "l2-bandwidth-bound"}),
    "gather_rows": ("dram-bandwidth-bound", COALESCED),
    "gather_random": ("uncoalesced-global-access", {"dram-bandwidth-bound"}),
    "index_add_hot": ("atomic-contention", {"memory-latency-bound"}),
    "cub::DeviceScan::InclusiveScan": (None, COALESCED),
    "conv": ("tensor-pipe-saturated", TENSOR | COALESCED),
    "gelu_fp32": ("dram-bandwidth-bound", COALESCED | {"special-function-bound"}),
    "pow": ("compute-pipe-bound", COALESCED | {"integer-address-overhead"}),
    "exp_fp64": ("dram-bandwidth-bound", COALESCED),
    "strided_copy": ("uncoalesced-global-access", {"l2-bandwidth-bound"}),
    "bytes_add": ("dram-bandwidth-bound", {"narrow-memory-access"}),
    "cub::DeviceReduce::Sum": (None, COALESCED),
    "max_pool": ("tail-effect", COALESCED),  # 1.7 waves
}


def list_diagnoses(operation):
    launch = next(one for one in read_launches() if one.kernel.startswith(f"{operation}/"))
    answer = recommend(program(), launch.metrics, device="h100-sxm", kernel=launch.kernel)
    return [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]


def test_the_first_cause_is_one_that_a_reader_would_grant():
    found = {operation: (list_diagnoses(operation) or [None])[0] for operation in EXPECTED}

    assert found == {operation: first for operation, (first, _) in EXPECTED.items()}


def test_no_forbidden_diagnosis_is_given():
    wrong = {
        operation: set(list_diagnoses(operation)) & forbidden
        for operation, (_, forbidden) in EXPECTED.items()
    }

    assert {operation: names for operation, names in wrong.items() if names} == {}


def test_no_library_kernel_is_promised_five_times_its_speed():
    promised = [
        (launch.kernel, d["predicted_speedup"]["point"])
        for launch in read_launches()
        for d in recommend(program(), launch.metrics, device="h100-sxm")["diagnoses"]
        if d["predicted_speedup"]
    ]

    assert len(promised) > len(EXPECTED)
    assert [(kernel, point) for kernel, point in promised if point >= 5] == []
