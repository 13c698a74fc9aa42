"""Completes the steps that an answer names: each command can be run as it is printed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.errors import NextStep
from kernelkb.model.answers.next_step import FixEdit, Sentence, ToolCommand
from kernelkb.render.text.steps import format_step
from kernelkb.safety.paths import project_root, shipped_folder

if TYPE_CHECKING:
    from kernelkb.model.answers.next_step import Step
    from kernelkb.model.answers.source_place import ChangePlace

_OF_BUILD = ("kernel", "variant", "target")
_BY_VARIANT = {
    "build": _OF_BUILD,
    "bench": (*_OF_BUILD, "workload"),
    "profile": (*_OF_BUILD, "workload"),
}
"""Commands that measure a kernel's variant, and their arguments."""
_FILL_IN = Sentence(
    "run the first command of Measure next on your program; "
    "kb recommend --profile reads its report",
    needs="numbers",
)
TAKE_IN = Sentence(
    "kb init its-source.cu takes this kernel into a project; then kb bench times it beside its "
    "reference",
    needs="source",
)


class MeasuredPlace(NamedTuple):
    """What was measured, as commands name it."""

    which: Mapping[str, str]
    """``kernel`` and ``target``; ``variant`` and ``workload`` where they are not the default ones;
    empty for a kernel that is not in the project."""
    measured: Collection[str] = ()
    """Commands of ``kb`` whose result the answer has seen already."""


def list_change_steps(change: ChangePlace) -> list[NextStep]:
    """Return the commands that make and time a change: what stands between them is the edit.

    Args:
        change: Of an answer.
    """
    which = {"kernel": change["kernel"]}
    place = {"target": change["target"], "workload": change["workload"]}
    given = {name: value for name, value in place.items() if value is not None}
    origin, done = change["variant"], change["applied_by"]
    if done is not None:
        against = {**which, "variant": done, **given, "against": origin}
        return [NextStep("bench", against, "times the variant that applies it")]
    new = change["new_variant"]
    copy = {**which, "name": new, "from": origin, "target": change["target"]}
    against = {**which, "variant": new, **given, "against": origin, "change": change["fix"]}
    bench = NextStep("bench", against, "times the change")
    if change["is_copied"]:
        return [bench]
    return [NextStep("variant add", copy, "copies the variant"), bench]


def complete_next_steps(
    steps: Sequence[Step], place: MeasuredPlace, *, is_stopped: bool
) -> list[Step]:
    """Return steps with commands that can be run, and with those around each located edit.

    Args:
        steps: Of an answer.
        place: What was measured.
        is_stopped: Whether the gate stops, until what the steps say is done.
    """
    done = [command for step in steps for command in _complete_step(step, place)]
    if place.which and not any(_is_command(step) for step in done):
        if is_stopped:  # what stands there is to be done first
            done.append(NextStep("triage", place.which, "examines it again"))
        elif _has_open_session():
            done.append(NextStep("session close", {}, "closes it"))
    return list({format_step(step): step for step in done}.values())


def _is_command(step: Step) -> bool:
    """Return whether a step leads on; the log of what was tried is only read."""
    return isinstance(step, ToolCommand) or (isinstance(step, NextStep) and step.verb != "log")


def _complete_step(step: Step, place: MeasuredPlace) -> Iterator[Step]:
    if isinstance(step, FixEdit) and step.place is not None:
        *before, bench = list_change_steps(step.place)
        yield from before
        yield step
        yield bench
    elif isinstance(step, NextStep | ToolCommand):
        yield from _make_literal(step, place)
    else:
        yield step


def _make_literal(step: NextStep | ToolCommand, place: MeasuredPlace) -> Iterator[Step]:
    """Yield a command without a placeholder, of the variant that was measured."""
    verb = step.verb if place.which or isinstance(step, NextStep) else None
    if verb in place.measured:
        return
    if place.which and verb in _BY_VARIANT:
        given = {name: one for name, one in place.which.items() if name in _BY_VARIANT[verb]}
        yield NextStep(verb, given, "measures it")
    else:
        yield _name_first_step() if _has_placeholder(step) else step


def _has_placeholder(step: NextStep | ToolCommand) -> bool:
    if isinstance(step, ToolCommand):
        return "<" in step.line
    return None in step.arguments.values()


def _name_first_step() -> Step:
    """Return what to do where no kernel is named: triage the project's only one, or a sentence."""
    own = sorted(Path(project_root(), "kernels").glob("*/kernel.yaml"))
    if len(own) != 1:
        return _FILL_IN
    return NextStep("triage", {"kernel": own[0].parent.name}, "examines it")


def _has_open_session() -> bool:
    return Path(project_root(), ".kb", "session").exists()


def list_project_kernels() -> Collection[str]:
    """Return the names of the kernels that ``kb bench`` knows here.

    ``loading.kernels`` says the same, and takes 0.3 s to import.
    """
    bases = (Path(shipped_folder("kernels")), Path(project_root()) / "kernels")
    return {path.parent.name for base in bases for path in base.glob("*/kernel.yaml")}
