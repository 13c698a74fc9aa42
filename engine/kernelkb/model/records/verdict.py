"""Defines the verdict of a bench, and what other code asks of one instead of comparing words."""

from __future__ import annotations

from typing import Literal, get_args

FailureVerdict = Literal["incorrect", "invalid"]
TimedVerdict = Literal["faster", "slower", "inconclusive"]
Verdict = Literal["faster", "slower", "inconclusive", "incorrect", "invalid"]
"""incorrect: the answers are wrong. invalid: it could not be timed, or the times are not its
own. inconclusive: right, and the interval of the speedup contains 1, or the times are doubtful."""


def is_valid(verdict: Verdict | str | None) -> bool:
    """Return whether the answers are right and the times count; False without a verdict."""
    return verdict in get_args(TimedVerdict)


def is_decided(verdict: Verdict | str | None) -> bool:
    """Return whether a bench says which one is faster: the candidate or its baseline."""
    return is_valid(verdict) and not is_undecided(verdict)


def is_undecided(verdict: Verdict | str | None) -> bool:
    """Return whether the times count, and do not say which one is faster."""
    return verdict == "inconclusive"


def is_failure(verdict: Verdict | str | None) -> bool:
    """Return whether something is to be corrected before it can be timed."""
    return verdict in get_args(FailureVerdict)


def is_wrong(verdict: Verdict | str | None) -> bool:
    """Return whether the answers are wrong."""
    return verdict == "incorrect"


def may_be_noise(verdict: Verdict | str | None) -> bool:
    """Return whether other work on the machine can have made this verdict: all but a gain."""
    return is_valid(verdict) and verdict != "faster"
