"""Summarises what each fix gave in the measured pairs."""

from __future__ import annotations

import statistics

from kernelkb.decide.change_rows import MeasuredCaseRow
from kernelkb.model.answers.recommendation import MeasuredGain
from kernelkb.model.entries.knowledge import Knowledge


def summarize_measured(
    knowledge: Knowledge, fix: str, bottleneck: str | None = None
) -> MeasuredGain | None:
    """Return what a fix gave, on all GPUs and operations; None without a measured case.

    Args:
        knowledge: Holds the measured cases.
        fix: Its id.
        bottleneck: Only the cases that had this cause; None: all.
    """
    cases = [
        case
        for case in knowledge.measured.cases
        if case.fix == fix and bottleneck in (None, case.bottleneck)
    ]
    if not cases:
        return None
    gains = [case.speedup for case in cases]
    return {
        "count": len(cases),
        "median": round(statistics.median(gains), 3),
        "lowest": min(gains),
        "highest": max(gains),
        "kernels": list(dict.fromkeys(case.kernel for case in cases)),
        "bottleneck": bottleneck,
    }


def summarize_by_cause(knowledge: Knowledge, fix: str) -> dict[str, MeasuredGain]:
    """Return what a fix gave for each cause that it was measured for."""
    causes = dict.fromkeys(c.bottleneck for c in knowledge.measured.cases if c.fix == fix)
    found = {cause: summarize_measured(knowledge, fix, cause) for cause in causes}
    return {cause: gain for cause, gain in found.items() if gain is not None}


def build_case_rows(knowledge: Knowledge) -> list[MeasuredCaseRow]:
    """Return the measured changes that gained, for the search of similar kernels."""
    return [
        {
            "kernel": case.kernel,
            "fix": case.fix,
            "bottleneck": case.bottleneck,
            "operation": case.operation,
            "device": case.device,
            "speedup": case.speedup,
            "state": dict(case.state),
        }
        for case in knowledge.measured.cases
        if case.state
    ]
