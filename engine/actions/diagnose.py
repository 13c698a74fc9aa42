"""Finds known failures in a log. Imports only modules that start fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.decide.symptoms import SymptomMatch, find_symptoms

if TYPE_CHECKING:
    from kernelkb.model.recommendation import KnowledgeStamp

_MAX_END_CHARS = 4_000_000
"""Characters read from each end of a longer log; compilers repeat the same errors in between."""


class LogDiagnosis(TypedDict):
    """The symptoms in a log, in the order of its lines."""

    symptoms: list[SymptomMatch]
    knowledge: KnowledgeStamp


def diagnose_log(log: str, gpu: str | None = None) -> LogDiagnosis:
    """Return the symptoms that match a log.

    Args:
        log: Output of a compiler, a loader, a sanitizer or a run.
        gpu: Any name of the GPU that the program was built for, or None.

    Raises:
        UnknownNameError: No such GPU.
    """
    program = load_compiled_rules()
    device = resolve_device(program, gpu) if gpu else None
    arch = program["hardware"]["devices"][device]["cc"] if device else None
    text = (
        log
        if len(log) <= 2 * _MAX_END_CHARS
        else f"{log[:_MAX_END_CHARS]}\n{log[-_MAX_END_CHARS:]}"
    )
    return {"symptoms": find_symptoms(program, text, arch), "knowledge": program["knowledge"]}
