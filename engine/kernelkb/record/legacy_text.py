"""Reads fields back from the sentences of records that were written before the fields existed.

Only for old session files and old measurements: new records carry the fields, and no other module
parses messages of KernelKB. The patterns are frozen: they match the files on disk, not the current
messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelkb.model.records.measurement import Disturbance
from kernelkb.model.records.session import Decision, SessionEntry, Step

_BENCH_SENTENCE = re.compile(
    r", (?P<baseline>(?:variant )?\S+) [0-9.]+ (?:us|ms|s) on (?P<workload>[a-z0-9-]+): "
    r"(?P<speedup>[0-9.e+-]+)x \[(?P<low>[0-9.e+-]+), (?P<high>[0-9.e+-]+)\] of \d+ pairs, "
    r"(?P<verdict>faster|slower|inconclusive|incorrect|invalid)\b"
)
_ADVICE_SENTENCE = re.compile(
    r"(?P<bottleneck>[a-z][a-z0-9]*(?:-[a-z0-9]+)*) \(confidence [0-9.]+\) -> "
)
_FALSIFIER_PREFIXES = {"held: ": True, "failed: ": False}
_WARNING_PREFIXES: dict[str, Disturbance] = {
    "threads waited for cores": "cpu-contention",
    "the GPU had other work while all processes stood still": "gpu-contention",
    "the GPU slowed down in nearly all pairs": "thermal",
}


def fill_entry(entry: SessionEntry) -> SessionEntry:
    """Return a session entry with the current fields filled in its steps and decisions."""
    steps = tuple(fill_step(step) for step in entry.steps)
    decisions = tuple(fill_decision(decision) for decision in entry.decisions)
    if steps == entry.steps and decisions == entry.decisions:
        return entry
    return entry.model_copy(update={"steps": steps, "decisions": decisions})


def fill_step(step: Step) -> Step:
    """Return a step with its missing fields filled from its sentence.

    A speedup and its interval belong together: if the speedup is set, the interval is not filled.
    """
    fields: dict[str, object] = {}
    if step.name == "recommend" and (advice := _ADVICE_SENTENCE.match(step.found)):
        fields["bottleneck"] = advice["bottleneck"]
    if step.name in ("bench", "compare") and (bench := _BENCH_SENTENCE.search(step.found)):
        fields |= {name: bench[name] for name in ("verdict", "baseline", "workload")}
        if step.speedup is None:
            fields["speedup"] = float(bench["speedup"])
            fields["interval"] = (float(bench["low"]), float(bench["high"]))
    missing = {name: value for name, value in fields.items() if getattr(step, name) is None}
    return step.model_copy(update=missing) if missing else step


def fill_decision(decision: Decision) -> Decision:
    """Return a decision with ``held:`` or ``failed:`` moved from its falsifier to a boolean."""
    if decision.falsifier is None or decision.falsifier_held is not None:
        return decision
    for prefix, held in _FALSIFIER_PREFIXES.items():
        if decision.falsifier.startswith(prefix):
            text = decision.falsifier.removeprefix(prefix)
            return decision.model_copy(update={"falsifier": text, "falsifier_held": held})
    return decision


def find_disturbance(warnings: Sequence[str]) -> Disturbance | None:
    """Return the disturbance of a bench from its warnings, if ``disturbed_by`` is missing."""
    for warning in warnings:
        for prefix, disturbance in _WARNING_PREFIXES.items():
            if warning.startswith(prefix):
                return disturbance
    return None
