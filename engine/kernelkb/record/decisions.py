"""Formats the outcome of a decision: predicted and measured speedup, and falsifier."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.model.records.session import Decision


def format_decision_outcome(decision: Decision) -> Iterator[str]:
    """Yield predicted speedup, measured speedup and falsifier, as far as each is present."""
    if decision.predicted:
        low, point, high = decision.predicted
        yield f"predicted {point:.3g}x [{low:.3g}, {high:.3g}]"
    if decision.measured is not None:
        measured = f"measured {decision.measured:.3g}x"
        if decision.interval:
            low, high = decision.interval
            measured += f" [{low:.3g}, {high:.3g}]"
        yield measured
    if decision.falsifier:
        yield describe_falsifier(decision)


def describe_falsifier(decision: Decision) -> str:
    """Return the falsifier and its result.

    ``falsifier held: occupancy 0.6 >= 0.5``, ``falsifier failed: …``, or neither word when it was
    not measured.
    """
    word = {True: " held:", False: " failed:", None: ""}[decision.falsifier_held]
    return f"falsifier{word} {decision.falsifier}"
