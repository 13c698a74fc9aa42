"""Completes the answer for a kernel with what its history, its report and its project say.

``recommend`` decides from metrics alone; ``complete_answer`` is the one place that adds to it, and
returns a new answer. What it needs of a file or the database is read before, by the caller, and
modules that are slow to import are imported only where there is something for them to do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kernelkb.actions.advice.next_steps import (
    TAKE_IN,
    MeasuredPlace,
    complete_next_steps,
)
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.next_measurement import list_own_commands, strip_kernel_signature
from kernelkb.errors import NextStep

if TYPE_CHECKING:
    from kernelkb.actions.advice.apply_history import KernelHistory
    from kernelkb.actions.advice.edit_location import AnsweredVariant
    from kernelkb.model.answers.recommendation import KernelAnswer
    from kernelkb.sass.counters import SourceCounters


def complete_answer(
    answer: KernelAnswer,
    *,
    counters: SourceCounters | str | None = None,
    history: KernelHistory | str | None = None,
    subject: AnsweredVariant | None = None,
    measured: Collection[str] = (),
    known_kernels: Collection[str] | None = None,
) -> KernelAnswer:
    """Return an answer with lines, with the order of what was tried, and with steps to follow.

    Args:
        answer: Of ``recommend``; it stays as it is.
        counters: What its launch counted by instruction, or why nothing was; None: no report.
        history: What was tried on the kernel, or why that is not known; None: there is no history.
        subject: The variant that was measured; None: none of the project.
        measured: Commands of ``kb`` whose result the answer has seen already.
        known_kernels: Names for which commands that take a kernel by name work; None: for each.
    """
    found = answer
    if known_kernels is not None:
        found = _keep_working_commands(found, known_kernels, is_known=subject is not None)
    if history is not None:
        from kernelkb.actions.advice.apply_history import apply_history  # opens databases

        found = apply_history(found, history)
    if counters is not None:
        from kernelkb.actions.advice.source_lines import add_source_lines  # reads machine code

        found = add_source_lines(load_compiled_rules(), found, counters)
    place = MeasuredPlace({}, measured)
    if subject is not None:
        from kernelkb.actions.advice.edit_location import locate_edit, name_measured

        found, place = locate_edit(found, subject), name_measured(subject, measured)
    # A stop that the history gives names its own way back.
    is_stopped = found["gate"]["verdict"] == "stop" and found["gate"] is answer["gate"]
    return {**found, "next": complete_next_steps(found["next"], place, is_stopped=is_stopped)}


def _keep_working_commands(
    answer: KernelAnswer, known: Collection[str], *, is_known: bool
) -> KernelAnswer:
    """Leave out commands that take the kernel by name, where the project does not have it.

    Args:
        answer: For a kernel of a report.
        known: Names of the project's kernels.
        is_known: Whether one of them is the kernel, under another name than that of its function.
    """
    name = strip_kernel_signature(answer["kernel"])
    if name in known:
        return answer
    own = list_own_commands(load_compiled_rules(), name, "cuda")
    kept = [row for row in answer["measure_next"] if row["command"] not in own]
    if len(kept) == len(answer["measure_next"]):
        return answer
    steps = answer["next"]
    if not is_known:
        steps = [*(step for step in steps if not isinstance(step, NextStep)), TAKE_IN]
    return {**answer, "measure_next": kept, "next": steps}
