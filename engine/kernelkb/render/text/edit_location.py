"""Formats where a recommended change is made; takes the plain dictionary, to start fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelkb.model.answers.edit_location import ChangePlace


def describe_place(change: ChangePlace) -> str:
    """Return the file and line of a change, and what is there."""
    line = f" at line {change['line']}" if change["line"] else ""
    return f"{change['file']}{line} ({change['because']})"


def format_next_lines(change: ChangePlace | None, steps: Sequence[str]) -> Iterator[str]:
    """Yield where the change is made, then the steps, numbered."""
    yield from format_change_place(change)
    if steps:
        yield ""
        yield "Next"
        yield from (f"  {number}. {text}" for number, text in enumerate(steps, 1))


def format_change_place(change: ChangePlace | None) -> Iterator[str]:
    """Yield the place, the variants that exist, and which of them applies the fix already."""
    if change is None:
        return
    others = [name for name in change["variants"] if name != change["variant"]]
    known = f"; also {', '.join(others)}" if others else ""
    done = change["applied_by"]
    which = f"{done} applies {change['fix']}" if done else f"none applies {change['fix']} yet"
    yield ""
    yield "Where"
    yield f"  {describe_place(change)}"
    yield f"  this is {change['variant']}{known}; {which}"
