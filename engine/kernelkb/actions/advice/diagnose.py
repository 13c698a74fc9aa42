"""Finds known failures in a log. Imports only modules that start fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.decide.symptoms import (
    FirstError,
    LogExtent,
    SymptomMatch,
    clean_log,
    find_first_error,
    find_symptoms,
)

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KnowledgeStamp

_MAX_END_CHARS = 500_000
"""Characters read from each end of a longer log; compilers repeat the same errors in between."""


class LogDiagnosis(TypedDict):
    """The symptoms in a log: errors first, then warnings, each in the order of its lines."""

    symptoms: list[SymptomMatch]
    first_error: FirstError | None
    read: LogExtent
    knowledge: KnowledgeStamp


def diagnose_log(log: str, gpu: str | None = None) -> LogDiagnosis:
    """Return the symptoms that match a log, its first error line, and how much was read.

    Args:
        log: Output of a compiler, a loader, a sanitizer, a profiler or a run.
        gpu: Any name of the GPU that the program was built for, or None.

    Raises:
        UnknownNameError: No such GPU.
    """
    program = load_compiled_rules()
    device = resolve_device(program, gpu) if gpu else None
    arch = program["hardware"]["devices"][device]["cc"] if device else None
    skipped = max(0, len(log) - 2 * _MAX_END_CHARS)
    read = f"{log[:_MAX_END_CHARS]}\n{log[-_MAX_END_CHARS:]}" if skipped else log
    text = clean_log(read)
    return {
        "symptoms": find_symptoms(program, text, arch),
        "first_error": find_first_error(text),
        "read": {"lines": len(read.splitlines()), "skipped_characters": skipped},
        "knowledge": program["knowledge"],
    }
