"""Finds sequences that repeat across sessions, as candidates for patterns that a person accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kernelkb.model.records.session import Session, SessionEntry

MIN_SESSIONS = 3
"""Least number of sessions in which a sequence has to occur."""


_FALSIFIER_TEXT = {True: ", falsifier held", False: ", falsifier failed", None: ""}


class PatternCandidate(NamedTuple):
    """A sequence that occurred in several sessions."""

    kind: str
    """``cure``: a diagnosis, its fix and the outcome; ``failure``: a failed step with its cure;
    ``detour``: a failed step, and the next step that succeeded."""
    says: str
    """The sequence as text, such as ``bottleneck -> fix -> faster``."""
    sessions: tuple[str, ...]


def find_pattern_candidates(
    sessions: Sequence[Session], min_sessions: int = MIN_SESSIONS
) -> tuple[PatternCandidate, ...]:
    """Return the sequences of at least ``min_sessions`` recorded sessions, the most frequent first.

    A sequence counts once per session, even if it occurred there several times.
    """
    seen: dict[tuple[str, str], set[str]] = {}
    for session in sessions:
        if session.kind == "recorded":
            for entry in session.entries:
                for key in (*_iter_fix_outcomes(entry), *_iter_failures(entry)):
                    seen.setdefault(key, set()).add(session.session)
    candidates = [
        PatternCandidate(kind, says, tuple(sorted(names)))
        for (kind, says), names in seen.items()
        if len(names) >= min_sessions
    ]
    return tuple(sorted(candidates, key=lambda one: (-len(one.sessions), one.kind, one.says)))


def _iter_fix_outcomes(entry: SessionEntry) -> Iterator[tuple[str, str]]:
    for decision in entry.decisions:
        if decision.applied_as is None or decision.interval is None:
            continue
        low, high = decision.interval
        outcome = "faster" if low > 1 else "slower" if high < 1 else "no difference"
        falsifier = _FALSIFIER_TEXT[decision.falsifier_held]
        yield "cure", f"{decision.bottleneck} -> {decision.fix} -> {outcome}{falsifier}"


def _iter_failures(entry: SessionEntry) -> Iterator[tuple[str, str]]:
    for at, step in enumerate(entry.steps):
        if step.status != "failure":
            continue
        if step.cure:
            yield "failure", f"{step.name}: {_normalize_message(step.found)} -> {step.cure}"
        following = next((s for s in entry.steps[at + 1 :] if s.status == "ok"), None)
        if following and following.name != step.name:
            yield "detour", f"{step.name} failed -> {following.name} went on"


def _normalize_message(text: str) -> str:
    """Return the first line without numbers and paths, so that equal failures count together."""
    first = text.splitlines()[0] if text else ""
    placeless = re.sub(r"\S*/\S+", "…", first)
    return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "N", placeless)[:160]
