"""Metrics in, the whole answer out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING

from kernelkb.decide.conditions import Facts, compare
from kernelkb.decide.derive import binding_roof, complete
from kernelkb.decide.diagnose import Candidate, Finding, diagnose, supported, unknown
from kernelkb.decide.gates import GATE, Walk, walk
from kernelkb.decide.next_measurement import measure_next
from kernelkb.decide.rank import ranked
from kernelkb.decide.residency import next_step

if TYPE_CHECKING:
    from kernelkb.decide.answer import (
        CombinedSpeedup,
        Conclusions,
        Diagnosis,
        Headroom,
        KernelAnswer,
        Measure,
        Recommendation,
    )
    from kernelkb.decide.rules import Program


LEVELS = ("L0", "L1", "L2", "L3", "L4")

_OPEN = 100
"""Unknown diagnoses that asking further considers, the best supported first."""

_SHOWN = 10
"""Unknown diagnoses in an answer."""


def recommend(
    program: Program,
    metrics: Mapping[str, float],
    *,
    target: str = "cuda",
    device: str | None = None,
    kernel: str = "",
) -> KernelAnswer:
    """Say whether to go on, what limits the kernel, what to change, or what to measure.

    Args:
        program: The flattened knowledge.
        metrics: Values by metric id, in its unit; what is not finite counts as absent.
        target: ``cuda`` or ``cpu``.
        device: Our id of the GPU, None if unknown.
        kernel: Its name, for the answer and the commands in it; may be empty.
    """
    facts = compare(program["comparisons"], known := complete(program, metrics, device))
    gate = walk(program["trees"][GATE], facts)
    found = diagnose(program, facts, target)
    matches = ranked(found.matches, program["effort"])
    open_ = supported(found.open, facts, _OPEN)
    ask = measure_next(program, matches, open_, facts, kernel, target, _baseline(known, gate))
    return {
        "kernel": kernel,
        "launch": 0,
        "device": device,
        "gate": gate.gate,
        "evidence_level": (level := evidence_level(program, metrics)),
        "conclusions": _conclusions(program, f"{target}/{level}", known),
        "headroom": _headroom(known),
        "combined_speedup": _combined(matches, known),
        "diagnoses": _diagnoses(matches, open_, facts),
        "open_count": len(found.open),
        "suppressed": found.suppressed,
        "measure_next": ask,
        "ncu_rules": [],
        "notes": _notes(program, matches, known, device),
        "next": _next(matches, gate, ask),
    }


def _diagnoses(matches: list[Finding], open_: list[Candidate], facts: Facts) -> list[Diagnosis]:
    """Return every match, and the unknown ones to which most points."""
    return [
        *(finding.diagnosis for finding in matches),
        *(unknown(candidate, facts) for candidate in open_[:_SHOWN]),
    ]


def _notes(
    program: Program, matches: list[Finding], known: Mapping[str, float], device: str | None
) -> list[str]:
    """Name the next step of the resource that limits residency, where one does."""
    limited = any(finding.row["id"].startswith("occupancy-limited-") for finding in matches)
    step = next_step(program, known, device) if limited else None
    return [f"next step of the launch: {step}"] if step else []


def recommendation(program: Program, answers: Iterable[KernelAnswer]) -> Recommendation:
    """Wrap the answers of one call."""
    return {"kernels": list(answers), "knowledge": program["knowledge"]}


def evidence_level(program: Program, metrics: Mapping[str, float]) -> str:
    """Return the highest level that one of the metrics belongs to."""
    rows = program["metrics"]
    levels = [rows[n]["level"] for n, value in metrics.items() if n in rows and isfinite(value)]
    return max((level for level in levels if level in LEVELS), default="L0")


def _conclusions(program: Program, level: str, known: Mapping[str, float]) -> Conclusions:
    """Sort what the level allows by whether what it takes was measured."""
    can: list[str] = []
    cannot: list[str] = []
    limits = program["levels"].get(level, {"can": [], "cannot": []})
    for say, needs in limits["can"]:
        lacking = [name for name in needs if name not in known]
        if lacking:
            cannot.append(f"{say}; that takes {', '.join(lacking)}")
        else:
            can.append(f"{say} ({', '.join(f'{n} {known[n]:.4g}' for n in needs)})")
    return {"can": can, "cannot": [*cannot, *limits["cannot"]]}


def _headroom(known: Mapping[str, float]) -> Headroom | None:
    if not {"floor_us", "kernel_us", "attainable_speedup"} <= known.keys():
        return None
    roof = binding_roof(known)
    holds = roof is not None and roof.floor_us == known["floor_us"]
    return {
        "bound": roof.name if roof and holds else None,
        "floor_us": known["floor_us"],
        "measured_us": known["kernel_us"],
        "attainable_speedup": known["attainable_speedup"],
    }


def _combined(matches: list[Finding], known: Mapping[str, float]) -> CombinedSpeedup | None:
    """Combine the best match of each group: within a group mechanisms remove the same cycles."""
    best: dict[str, tuple[float, float, float]] = {}
    for finding in matches:
        group = finding.row["group"]
        if finding.removed and finding.removed[1] > best.get(group, (0.0, 0.0, 0.0))[1]:
            best[group] = finding.removed
    if len(best) < 2:
        return None
    from kernelkb.decide.gain import as_speedup, combine

    removed = combine(best)
    attainable = known.get("attainable_speedup", 0.0)
    if attainable > 1 and "memory-traffic" not in best and "system" not in best:
        low, point, high = (min(part, 1 - 1 / attainable) for part in removed)
        removed = (low, point, high)
    return {**as_speedup(removed), "groups": list(best)}


def _baseline(known: Mapping[str, float], gate: Walk) -> list[str]:
    """Ask for the speedup before anything else when the gate could not be decided without it."""
    undecided = gate.path and gate.path[-1][1] == "unknown"
    return ["speedup"] if undecided and "speedup" not in known else []


def _next(matches: list[Finding], gate: Walk, ask: list[Measure]) -> list[str]:
    """The one change to make if there is one, else the one command to type."""
    best = matches[0] if matches else None
    if best is None or not best.diagnosis["fixes"]:
        return [*gate.do[:1], *(row["command"] for row in ask[:1]), *gate.do[1:]]
    fix = best.diagnosis["fixes"][0]
    if gate.gate["verdict"] == "done":
        return [*gate.do]
    steps = [*gate.do] if gate.comes_first else []
    steps.append(f"change one thing, {fix['id']}: {fix['do']}")
    if best.diagnosis["falsifier"]:
        steps.append(f"keep it only if {best.diagnosis['falsifier']['expect']}")
    return steps
