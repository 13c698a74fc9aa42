"""Text of the next steps and of the place of a change; and answers with them, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kernelkb.errors import NextStep
from kernelkb.model.answers.next_step import (
    CallerEdit,
    FixEdit,
    KeepCondition,
    Step,
    ToolCommand,
)

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import (
        KernelAnswer,
        PrintedAnswer,
        PrintedRecommendation,
        Recommendation,
    )
    from kernelkb.model.answers.source_place import ChangePlace


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


def format_step(step: Step) -> str:
    """Return a step as a command that can be run as it is, or as a sentence."""
    if isinstance(step, NextStep):
        return step.as_shell_words()
    if isinstance(step, ToolCommand):
        return step.line
    if isinstance(step, FixEdit):
        return _format_edit(step)
    if isinstance(step, CallerEdit):
        return f"in the program that calls it, {step.fix}: {step.do}"
    if isinstance(step, KeepCondition):
        return f"keep it only if {step.expect}"
    return step.text


def _format_edit(edit: FixEdit) -> str:
    done = edit.place["applied_by"] if edit.place else None
    if done is not None:
        return f"{name_edit(edit)}: the variant {done} applies it already"
    return f"{name_edit(edit)}: {edit.do}"


def name_edit(edit: FixEdit) -> str:
    """Return the fix, and its file and line where the variant is to be changed there."""
    if edit.place is None or edit.place["applied_by"] is not None:
        return f"change one thing, {edit.fix}"
    return f"change one thing, {edit.fix}, in {describe_place(edit.place)}"


def format_steps(steps: Iterable[Step]) -> list[str]:
    """Return each step in words."""
    return [format_step(step) for step in steps]


def print_answer(answer: KernelAnswer) -> PrintedAnswer:
    """Return an answer as ``kb recommend --json`` prints it."""
    return {**answer, "next": format_steps(answer["next"])}


def print_recommendation(answer: Recommendation) -> PrintedRecommendation:
    """Return the answers of one call as ``kb recommend --json`` prints them."""
    return {
        "kernels": [print_answer(one) for one in answer["kernels"]],
        "knowledge": answer["knowledge"],
    }
