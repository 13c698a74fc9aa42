"""A log → what went wrong. Imports nothing that is slow to import."""

from __future__ import annotations

from typing import TypedDict

from kernelkb.actions.rules_cache import decision_program
from kernelkb.decide.parse_metric import device_named
from kernelkb.decide.rules import Stamp
from kernelkb.decide.symptoms import FoundSymptom, find_symptoms

_MOST = 4_000_000
"""Characters read from each end of a log; what lies between repeats itself."""


class LogDiagnosis(TypedDict):
    """What a log shows, in the order in which it says so."""

    symptoms: list[FoundSymptom]
    knowledge: Stamp


def diagnose_log(log: str, gpu: str | None = None) -> LogDiagnosis:
    """Name the failures in a log.

    Args:
        log: Output of a compiler, a loader, a sanitizer or a run.
        gpu: Any name of the GPU that it was for, or None.

    Raises:
        UnknownNameError: No such GPU.
    """
    program = decision_program()
    device = device_named(program, gpu) if gpu else None
    arch = program["hardware"]["devices"][device]["cc"] if device else None
    text = log if len(log) <= 2 * _MOST else f"{log[:_MOST]}\n{log[-_MOST:]}"
    found = find_symptoms(program, text, arch)
    return {"symptoms": found, "knowledge": program["knowledge"]}
