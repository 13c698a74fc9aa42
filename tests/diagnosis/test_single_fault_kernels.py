"""Kernels with one fault each, profiled on an H100: the engine must name that fault, and no other.

The kernels are in ``tests/data/ncu/faults/kernels.cu``. What each list allows beside the first
cause are true companions of the fault that a reader of the profile would grant.
"""

from pathlib import Path

from shipped_rules import program

from kernelkb.decide.recommend import recommend
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page

FOLDER = Path(__file__).parents[1] / "data" / "ncu" / "faults"
RAW_METRICS = list_raw_names(program())

FAULTS = {
    "byte_stores": ["uncoalesced-global-access", "dram-bandwidth-bound"],
    "chase": ["uncoalesced-global-access"],
    "constant_by_lane": ["constant-cache-miss"],
    "divergent": ["branch-divergence", "non-fused-fp"],
    "divisions": ["integer-address-overhead", "compute-pipe-bound"],
    "double_literals": ["fp64-on-slow-pipe"],
    "exponentials": ["special-function-bound"],
    "fences": ["memory-fence-stall"],
    "few_blocks": ["small-grid"],
    "hot_histogram": ["atomic-contention", "narrow-memory-access"],
    "huge_code": ["small-grid"],
    "indexed_array": ["local-array-indexing"],
    "last_wave": ["tail-effect"],
    "latency_stream": ["memory-latency-bound", "occupancy-limited-shared-memory"],
    "many_chains": ["compute-pipe-bound"],
    "one_chain": ["small-grid", "compute-pipe-bound"],
    "one_warp_prepares": ["barrier-stall", "uncoalesced-global-access"],
    "plain_copy": ["dram-bandwidth-bound"],
    "reread_l2": ["l2-bandwidth-bound"],
    "scalar_gemm": ["l1tex-bandwidth-bound", "narrow-memory-access"],
    "spilling": ["register-spilling"],
    "staged_tiles": ["small-grid"],
    "strided_copy": ["uncoalesced-global-access", "store-drain"],
    "transpose_conflicts": ["shared-memory-bank-conflicts", "barrier-stall"],
    "transpose_padded": ["l1tex-bandwidth-bound", "mio-throttle", "narrow-memory-access"],
    "triangular": ["integer-address-overhead", "workload-imbalance"],
    "wmma_gemm": ["uncoalesced-global-access", "l1tex-bandwidth-bound", "tail-effect"],
}


def list_matches(name, **told):
    (launch,) = read_raw_page((FOLDER / f"{name}.csv").read_text(), RAW_METRICS)
    answer = recommend(program(), {**launch.metrics, **told}, device="h100-sxm")
    return [d for d in answer["diagnoses"] if d["verdict"] == "matches"]


def test_every_recording_has_its_fault():
    assert sorted(FAULTS) == sorted(file.stem for file in FOLDER.glob("*.csv"))


def test_the_fault_is_named_first():
    first = {name: list_matches(name)[0]["bottleneck"] for name in FAULTS}

    assert first == {name: causes[0] for name, causes in FAULTS.items()}


def test_no_other_bottleneck_promises_more_than_15_percent():
    """Units that are a little unequal are real, but a tenth at most is no cause."""
    blamed = [
        (name, d["bottleneck"])
        for name, causes in FAULTS.items()
        for d in list_matches(name)
        if d["bottleneck"] not in causes
        if d["predicted_speedup"] is None or d["predicted_speedup"]["point"] > 1.15
    ]

    assert blamed == []


def test_a_pointer_chase_is_a_dependent_load_chain_once_the_flag_is_given():
    found = [d["bottleneck"] for d in list_matches("chase", dependent_load=1)]

    assert "dependent-load-chain" in found


def test_a_scalar_gemm_with_known_work_names_unused_tensor_cores():
    work = {
        "kernel_us": 3133.0,
        "matrix_work": 1,
        "tensor_type": 1,
        "algorithmic_flop_count": 2 * 2048**3,
        "algorithmic_bytes": 3 * 2048**2 * 4,
    }

    assert list_matches("scalar_gemm", **work)[0]["bottleneck"] == "tensor-core-unused"
