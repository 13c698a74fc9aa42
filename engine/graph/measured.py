"""Summarises what each fix gave in the measured pairs."""

from __future__ import annotations

import statistics

from kernelkb.model.knowledge import Knowledge
from kernelkb.model.recommendation import MeasuredGain


def summarize_measured(knowledge: Knowledge, fix: str) -> MeasuredGain | None:
    """Return what a fix gave, on all GPUs and operations; None without a measured case."""
    cases = [case for case in knowledge.measured.cases if case.fix == fix]
    if not cases:
        return None
    gains = [case.speedup for case in cases]
    return {
        "count": len(cases),
        "median": round(statistics.median(gains), 3),
        "lowest": min(gains),
        "highest": max(gains),
        "kernels": list(dict.fromkeys(case.kernel for case in cases)),
    }
