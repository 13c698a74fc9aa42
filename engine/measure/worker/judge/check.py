"""Is a candidate right? Every case on fresh inputs, more than once, judged here."""

from __future__ import annotations

import random
import secrets
import time
from pathlib import Path
from typing import Any

from kernelkb.measure.worker.judge.buffers import Stage
from kernelkb.measure.worker.judge.inputs import Task, Tensors, same_bits
from kernelkb.measure.worker.judge.runner_process import Partner
from kernelkb.measure.worker.shared.failures import Refused, RunnerLost

Job = dict[str, Any]

_CYCLES = 400_000_000
_ASLEEP_S = 0.1
"""How long that many take at the least: no GPU's clock reaches 4 GHz."""
_LOOK_S = 0.02


def check(job: Job, folder: Path, partners: dict[str, Partner]) -> Job:
    """Judge every case.

    ``{"cases": [...], "accepted": [...], "refused": [...], "layers": [...], "lost": {...}}``:
    ``accepted`` and ``refused`` are wrong outputs that the same comparison was shown first;
    ``lost`` says how the runner ended when it did not answer to the end.
    """
    candidate = partners["candidate"]
    allowed_s = job["timeout_s"]
    result: Job = {"cases": [], "accepted": [], "refused": [], "lost": None}
    accepted: set[str] = set()
    refused: set[str] = set()
    where = ""
    try:
        candidate.enter()
        candidate.ask("load", _left(candidate, allowed_s))
        for case in job["cases"]:
            where = case["name"]
            (folder / "progress").write_text(where, encoding="utf-8")
            found, wrong, right = _case(job, case, candidate, allowed_s)
            result["cases"].append(found)
            accepted |= set(wrong)
            refused |= set(right)
    except RunnerLost as lost:
        late = f"it did not finish within {job['timeout_s']:g} s"
        detail = late if lost.status == "timed-out" else lost.detail
        result["lost"] = {"status": lost.status, "detail": detail, "where": where}
    except Refused as problem:
        status = "crashed" if where else "unloadable"
        result["lost"] = {"status": status, "detail": str(problem), "where": where}
    return {
        **result,
        "accepted": sorted(accepted),
        "refused": sorted(refused - accepted),
        "layers": candidate.layers,
        "log": candidate.log(),
    }


def _left(candidate: Partner, allowed_s: float) -> float:
    """Return what is left of the candidate's time; the judge takes its own."""
    return max(0.1, allowed_s - candidate.asked_s)


def _case(
    job: Job, case: Job, candidate: Partner, allowed_s: float
) -> tuple[Job, list[str], list[str]]:
    task = Task(job, case)
    draw = random.Random(secrets.randbits(64))
    stage = Stage(task, job["tolerances"], 2, draw, flush_bytes=4)
    try:
        stage.join(candidate, timeout_s=_left(candidate, allowed_s))
        found, fooled = _repeated(stage, candidate, allowed_s)
    finally:
        stage.close()
    return {**found, "name": case["name"]}, *fooled


def _repeated(
    stage: Stage, candidate: Partner, allowed_s: float
) -> tuple[Job, tuple[list[str], list[str]]]:
    """Call on one slot, again on the same inputs, and on another slot; judge each answer."""
    first, problem = _called(stage, candidate, 0, allowed_s)
    expected = stage.expected(0)
    fooled = expected.fooled_by() if stage.task.case["selftest"] else ([], [])
    found = _verdict(stage, 0, expected.compare(first), problem)
    if not _fine(found):
        return {**found, "steady": True}, fooled
    again, problem = _called(stage, candidate, 0, allowed_s)
    steady = all(map(same_bits, first, again))
    if not steady:
        found = _worse(found, _verdict(stage, 0, expected.compare(again), problem))
    del first, again, expected
    other, problem = _called(stage, candidate, 1, allowed_s)
    last = _verdict(stage, 1, stage.expected(1).compare(other), problem)
    if stage.task.case["selftest"] and _fine(last):
        last["tampered"] = _overtaken(stage, candidate, allowed_s)
    return {**_worse(found, last), "steady": steady}, fooled


def _called(
    stage: Stage, candidate: Partner, slot: int, allowed_s: float
) -> tuple[Tensors, str | None]:
    """Return a slot's outputs after one call, and what the candidate reported."""
    stage.poison(slot)
    try:
        candidate.ask("call", _left(candidate, allowed_s), slot=slot)
    except Refused as refused:
        return stage.taken(slot), str(refused)
    return stage.taken(slot), None


def _overtaken(stage: Stage, candidate: Partner, allowed_s: float) -> str | None:
    """Say that it did not wait for what was before it on its stream.

    A caller's stream is where its inputs come from, and nobody waits for another. Nothing is known
    of a call that waits for the GPU itself: it returns when all is over.
    """
    if stage.task.target != "cuda":
        return None
    stage.poison(0)
    started = time.monotonic()
    candidate.ask("behind", _left(candidate, allowed_s), slot=0, cycles=_CYCLES)
    time.sleep(_LOOK_S)
    written = not stage.untouched(0)
    in_time = time.monotonic() - started < _ASLEEP_S
    candidate.ask("finish", _left(candidate, allowed_s))
    if not (written and in_time):
        return None
    return (
        "it wrote its outputs before what came first on its stream was done: launch on the stream "
        "that it is given, not on one of its own"
    )


def _verdict(stage: Stage, slot: int, compared: Job, problem: str | None) -> Job:
    return {**compared, "error": problem, "tampered": stage.tampered(slot)}


def _fine(found: Job) -> bool:
    return found["correct"] and not found["error"] and not found["tampered"]


def _worse(one: Job, other: Job) -> Job:
    return min(one, other, key=lambda found: (_fine(found), found["matched_ratio"]))
