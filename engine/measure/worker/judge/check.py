"""Is a candidate right? Every case on fresh inputs, more than once, judged here."""

from __future__ import annotations

import random
import secrets
import time
from pathlib import Path
from typing import Any

from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import KernelCase, Tensors, same_bits
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError

Job = dict[str, Any]

_DELAY_CYCLES = 400_000_000
_MIN_DELAY_S = 0.1
"""How long that many take at the least: no GPU's clock reaches 4 GHz."""
_PEEK_AFTER_S = 0.02


def check_cases(job: Job, folder: Path, runners: dict[str, RunnerProcess]) -> Job:
    """Judge every case.

    ``{"cases": [...], "accepted": [...], "refused": [...], "layers": [...], "lost": {...}}``:
    ``accepted`` and ``refused`` are wrong outputs that the same comparison was shown first;
    ``lost`` says how the runner ended when it did not answer to the end.
    """
    candidate = runners["candidate"]
    allowed_s = job["timeout_s"]
    result: Job = {"cases": [], "accepted": [], "refused": [], "lost": None}
    accepted: set[str] = set()
    refused: set[str] = set()
    where = ""
    try:
        candidate.wait_ready()
        candidate.ask("load", _remaining_s(candidate, allowed_s))
        for case in job["cases"]:
            where = case["name"]
            (folder / "progress").write_text(where, encoding="utf-8")
            found, wrong, right = _check_case(job, case, candidate, allowed_s)
            result["cases"].append(found)
            accepted |= set(wrong)
            refused |= set(right)
    except RunnerDied as lost:
        late = f"it did not finish within {job['timeout_s']:g} s"
        detail = late if lost.status == "timed-out" else lost.detail
        result["lost"] = {"status": lost.status, "detail": detail, "where": where}
    except RunnerError as problem:
        status = "crashed" if where else "unloadable"
        result["lost"] = {"status": status, "detail": str(problem), "where": where}
    return {
        **result,
        "accepted": sorted(accepted),
        "refused": sorted(refused - accepted),
        "layers": candidate.sandbox_layers,
        "log": candidate.read_log_tail(),
    }


def _remaining_s(candidate: RunnerProcess, allowed_s: float) -> float:
    """Return what is left of the candidate's time; the judge takes its own."""
    return max(0.1, allowed_s - candidate.total_request_s)


def _check_case(
    job: Job, case: Job, candidate: RunnerProcess, allowed_s: float
) -> tuple[Job, list[str], list[str]]:
    task = KernelCase(job, case)
    draw = random.Random(secrets.randbits(64))
    stage = CaseBuffers(task, job["tolerances"], 2, draw, flush_bytes=4)
    try:
        stage.attach_runner(candidate, timeout_s=_remaining_s(candidate, allowed_s))
        found, fooled = _check_repeated_calls(stage, candidate, allowed_s)
    finally:
        stage.close()
    return {**found, "name": case["name"]}, *fooled


def _check_repeated_calls(
    buffers: CaseBuffers, candidate: RunnerProcess, allowed_s: float
) -> tuple[Job, tuple[list[str], list[str]]]:
    """Call on one slot, again on the same inputs, and on another slot; judge each answer."""
    first, problem = _call_once(buffers, candidate, 0, allowed_s)
    expected = buffers.compute_reference(0)
    fooled = expected.run_selftest() if buffers.case.case_spec["selftest"] else ([], [])
    found = _build_result(buffers, 0, expected.compare(first), problem)
    if not _is_passing(found):
        return {**found, "steady": True}, fooled
    again, problem = _call_once(buffers, candidate, 0, allowed_s)
    steady = all(map(same_bits, first, again))
    if not steady:
        found = _worse_result(found, _build_result(buffers, 0, expected.compare(again), problem))
    del first, again, expected
    other, problem = _call_once(buffers, candidate, 1, allowed_s)
    last = _build_result(buffers, 1, buffers.compute_reference(1).compare(other), problem)
    if buffers.case.case_spec["selftest"] and _is_passing(last):
        last["tampered"] = _find_stream_order_fault(buffers, candidate, allowed_s)
    return {**_worse_result(found, last), "steady": steady}, fooled


def _call_once(
    buffers: CaseBuffers, candidate: RunnerProcess, slot: int, allowed_s: float
) -> tuple[Tensors, str | None]:
    """Return a slot's outputs after one call, and what the candidate reported."""
    buffers.reset_outputs(slot)
    try:
        candidate.ask("call", _remaining_s(candidate, allowed_s), slot=slot)
    except RunnerError as refused:
        return buffers.copy_outputs(slot), str(refused)
    return buffers.copy_outputs(slot), None


def _find_stream_order_fault(
    buffers: CaseBuffers, candidate: RunnerProcess, allowed_s: float
) -> str | None:
    """Say that it did not wait for what was before it on its stream.

    A caller's stream is where its inputs come from, and nobody waits for another. Nothing is known
    of a call that waits for the GPU itself: it returns when all is over.
    """
    if buffers.case.target != "cuda":
        return None
    buffers.reset_outputs(0)
    started = time.monotonic()
    candidate.ask("behind", _remaining_s(candidate, allowed_s), slot=0, cycles=_DELAY_CYCLES)
    time.sleep(_PEEK_AFTER_S)
    written = not buffers.is_untouched(0)
    in_time = time.monotonic() - started < _MIN_DELAY_S
    candidate.ask("finish", _remaining_s(candidate, allowed_s))
    if not (written and in_time):
        return None
    return (
        "it wrote its outputs before what came first on its stream was done: launch on the stream "
        "that it is given, not on one of its own"
    )


def _build_result(buffers: CaseBuffers, slot: int, compared: Job, problem: str | None) -> Job:
    return {**compared, "error": problem, "tampered": buffers.find_tampering(slot)}


def _is_passing(result: Job) -> bool:
    return result["correct"] and not result["error"] and not result["tampered"]


def _worse_result(one: Job, other: Job) -> Job:
    return min(one, other, key=lambda found: (_is_passing(found), found["matched_ratio"]))
