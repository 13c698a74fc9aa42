"""A stand-in for the judge, with fixed answers: KB_PYTHON for tests of what follows a bench.

Every candidate is correct and takes half the time of its rival. The answers are made up here, so no
test of a verdict may use it; a test holds their fields against the messages of the real judge.
Judging and timing take 20 s of CPU time, most of it in torch; this takes none. Other jobs of a
worker, such as trials, are done by the real one.
"""

import json
import os
import sys
from pathlib import Path

LAYERS = ["limits", "network namespace", "capabilities", "landlock", "signal scope", "seccomp"]
PROBE = {
    "python": "3.11.7",
    "torch": "2.13.0+recorded",  # peaks are kept by torch's version: real ones are not mixed up
    "file": __file__,
    "cuda": None,
    "cxx11_abi": True,
    "gpu": None,
}
PEAKS = {
    "copy_gbps": 20.0,
    "dispatch_us": 0.5,
    "launch_us": 0.0,
    "gemm_gflops": {"float32": 100.0, "float64": 50.0},
}
HIDDEN_INPUTS = ["inputs scaled by 100", "negated inputs", "64 sizes drawn by the judge"]
WRONG_OUTPUTS = ["all ones", "all zeros", "one row of zeros"]
CANDIDATE_NS, RIVAL_NS = 40_000.0, 80_000.0
PAIR_COUNT, CALL_COUNT = 15, 100
NO_MEMORY = {"scratch_bytes": 0, "held_bytes": 0}


def make_case_result(case):
    """Return the result of a candidate that is correct."""
    return {
        "name": case["name"],
        "correct": True,
        "max_abs_error": 1e-7,
        "matched_ratio": 1.0,
        "nan_count": 0,
        "reference_error": 1e-7,
        "kernel_error": None,
        "tampering": None,
        "is_deterministic": True,
        "has_tf32_error": False,
        "error_shape": [],
    }


def make_report(job):
    """Return the report of a check that found nothing."""
    return {
        "cases": [make_case_result(case) for case in job["cases"]],
        "hidden_inputs": HIDDEN_INPUTS,
        "notes": [],
        "missing_parameters": [],
        "selftest_accepted": [],
        "selftest_rejected": WRONG_OUTPUTS,
        "runner_died": None,
        "layers": LAYERS,
        "data": {},
    }


def make_batches(call_ns, calls, start_s):
    """Return batches whose times differ by up to 2 %."""
    times = [calls * call_ns * (1 + number % 5 / 200) for number in range(PAIR_COUNT)]
    return [
        [spent, spent, calls, start_s + at, start_s + at + spent / 1e9, 0.0, 0.0, 0.0, 0.0]
        for at, spent in enumerate(times)
    ]


def make_times(job):
    """Return the times of a bench of a candidate that is twice as fast as its first rival."""
    rivals = [name for name in job["runners"] if name != "candidate"]
    return {
        "candidate_batches": make_batches(CANDIDATE_NS, CALL_COUNT, 1.0),
        "rival_batches": make_batches(RIVAL_NS, CALL_COUNT, 1.5),
        "single_call_batches": make_batches(CANDIDATE_NS, 1, 101.0),
        "rival_single_call_batches": make_batches(RIVAL_NS, 1, 101.5),
        "warm_call_ns": CANDIDATE_NS,
        "busy_cores": 1.0,
        "are_busy_cores_certain": True,
        "checked_count": PAIR_COUNT * CALL_COUNT,
        "check_s": 0.0,
        "hidden_inputs": [],
        "is_plainly_slower": False,
        "new_thread_count": 0,
        "idle_cpu_ns": 0.0,
        "candidate_memory": NO_MEMORY,
        "rival_memory": NO_MEMORY,
        "candidate_energy": None,
        "rival_energy": None,
        "step_seconds": {"load": 0.1, "baselines": 0.1, "timing": 0.4, "checks": 0.0},
        "rival_name": rivals[0],
        "rivals": {name: {"eager_ns": RIVAL_NS, "graph_ns": None} for name in rivals},
        "rejection_reasons": {},
        "left_out": [],
        "uses_graph": False,
        "no_graph_reason": None,
        "eager_ns": CANDIDATE_NS,
        "layers": LAYERS,
        "copy_ns": None,
        "idle_read_ns": 0.0,
        "notes": [],
    }


def answer(job):
    """Return the result of a job; None for one that only a real worker can do."""
    if job["mode"] == "check":
        return {"report": make_report(job)}
    if job["mode"] == "bench":
        return {"times": make_times(job)}
    return {"probe": PROBE, "peaks": PEAKS}.get(job["mode"])


def write_interpreter(folder):
    """Write a program that stands in for the interpreter of workers, and return its path."""
    program = Path(folder) / "recorded-judge"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" "$@"\n')
    program.chmod(0o755)
    return program


if __name__ == "__main__":
    job_file = Path(sys.argv[-1])
    result = answer(json.loads(job_file.read_text()))
    if result is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 as kb starts it
    (job_file.parent / "result.json").write_text(json.dumps(result))
