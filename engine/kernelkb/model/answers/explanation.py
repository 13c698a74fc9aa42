"""The answer of ``kb explain``: where a program hangs or crashes, and the causes known for it."""

from __future__ import annotations

from typing import TypedDict


class ExplainedCause(TypedDict):
    """A cause, from an entry of the knowledge that fits what was seen."""

    symptom: str
    """Its id, for kb show."""
    title: str
    cause: str
    cure: str
    """What to change."""
    check: str
    """What shows that it helped."""
    fixes: list[str]


class Explanation(TypedDict):
    """Why a program does not end, or not well."""

    command: list[str]
    """Empty for a process that ran already."""
    outcome: str
    """ended, failed, crashed (the GPU raised an exception), hangs, or out-of-time."""
    status: int | None
    """Its exit status, negative by a signal; null where it was ended from here."""
    seconds: float
    lines: list[str]
    """What was seen: kernels on the GPU, their threads by line, the exception, the host."""
    causes: list[ExplainedCause]
    """Empty where nothing known fits."""
    notes: list[str]
    """What could not be learned, and how to get it."""
