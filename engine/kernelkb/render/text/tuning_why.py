"""Formats why the winner of a search is faster than the default configuration."""

from __future__ import annotations

from kernelkb.device_math.parse_size import format_size
from kernelkb.model.kernels.tuning import FactChange, GainExplanation, SavedTime
from kernelkb.units import format_duration

_MAX_PARTS = 5
_MAX_CHANGES = 10
_INSTRUCTIONS = "instructions"


def format_gain_explanation(why: GainExplanation) -> list[str]:
    """Return where time was saved, what differs in launch and counters, and in machine code."""
    lines = ["why it is faster than the default:"]
    lines += [f"  {describe_part(one)}" for one in why.parts[:_MAX_PARTS]]
    facts = [one for one in why.changes if one.unit != _INSTRUCTIONS]
    code = [one for one in why.changes if one.unit == _INSTRUCTIONS]
    for title, changes in (("differs", facts), ("instructions in the code", code)):
        if changes:
            told = "; ".join(describe_change(one) for one in changes[:_MAX_CHANGES])
            lines.append(f"  {title}: {told}")
    if why.no_counters:
        cure = f"; {why.cure}" if why.cure else ""
        lines.append(f"  no counters: {why.no_counters}{cure}")
    elif not why.parts and not why.changes:
        lines.append("  nothing that is counted differs by 5 %")
    if why.reports:
        lines.append(f"  line by line: kb compare {' '.join(why.reports)}")
    return lines


def describe_part(one: SavedTime) -> str:
    """Return what one part of the time saves or costs."""
    sides = [
        "below 2 %" if us is None else format_duration(us) for us in (one.default_us, one.winner_us)
    ]
    word = "saved" if one.saved_us >= 0 else "added"
    return f"{format_duration(abs(one.saved_us))} {word}: {one.title} ({sides[0]} -> {sides[1]})"


def describe_change(one: FactChange) -> str:
    """Return a fact of the default and of the winner."""
    default, winner = (format_value(value, one.unit) for value in (one.default, one.winner))
    return f"{one.title} {default} -> {winner}"


def format_value(value: float, unit: str) -> str:
    """Return a value in its unit: a share in percent, bytes as KiB or MiB."""
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "bytes":
        return format_size(int(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"
