"""Completes the steps that an answer names: each command can be run as it is printed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernelkb.decide.recommend import CHANGE
from kernelkb.errors import NextStep
from kernelkb.render.text.edit_location import describe_place
from kernelkb.safety.paths import project_root

if TYPE_CHECKING:
    from kernelkb.model.answers.edit_location import ChangePlace
    from kernelkb.model.answers.recommendation import KernelAnswer

COMMANDS = ("kb ", "ncu ", "nsys ", "nvidia-smi ", "torch.profiler")
_LOG = "kb log "
OF_PROFILE = ("ncu ", "nsys ", "torch.profiler")
_OF_BUILD = ("kernel", "variant", "target")
_BY_VARIANT = {
    "kb build": _OF_BUILD,
    "kb bench": (*_OF_BUILD, "workload"),
    "kb profile": (*_OF_BUILD, "workload"),
}
"""Commands that measure a kernel's variant, and their arguments."""
FILL_IN = (
    "run the first command of Measure next on your program; kb recommend --profile reads its report"
)


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
    answer: KernelAnswer,
    kernel: str | None = None,
    target: str = "cuda",
    measured: Collection[str] = (),
    place: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Replace commands with something to fill in, and put the change at its place.

    Args:
        answer: Its ``next`` is changed.
        kernel: Its name, if the project has it.
        target: Of the measurement.
        measured: Commands, such as ``kb profile``, whose result the answer has seen already.
        place: ``variant`` and ``workload`` of the measurement, where they are not the default ones.
    """
    which = {"kernel": kernel, **place, "target": target} if kernel is not None else {}
    steps: list[str] = []
    for step in answer["next"]:
        if step.startswith(CHANGE) and (change := answer["change"]):
            steps += _list_change_texts(change, answer)
        elif step.startswith(COMMANDS):
            steps += _make_literal(step, which, measured)
        else:
            steps.append(step)
    if which and not any(step.startswith(COMMANDS) and step[:7] != _LOG for step in steps):
        gate = answer["gate"]
        if gate["verdict"] == "stop" and not gate["id"].startswith("stuck-"):
            # What stands there is to be done first.
            steps.append(NextStep("triage", which, "examines it again").as_shell_words())
        elif _has_open_session():
            steps.append("kb session close")
    answer["next"] = list(dict.fromkeys(steps))


def _list_change_texts(change: ChangePlace, answer: KernelAnswer) -> Iterator[str]:
    *before, bench = list_change_steps(change)
    yield from (step.as_shell_words() for step in before)
    fix = change["fix"]
    if change["applied_by"] is not None:
        yield f"{CHANGE}{fix}: the variant {change['applied_by']} applies it already"
    else:
        yield f"{CHANGE}{fix}, in {describe_place(change)}: {_find_words(answer, fix)}"
    yield bench.as_shell_words()


def _find_words(answer: KernelAnswer, fix: str) -> str:
    advice = [one for diagnosis in answer["diagnoses"] for one in diagnosis["fixes"]]
    return next((one["do"] for one in advice if one["id"] == fix), "")


def _make_literal(
    command: str, which: Mapping[str, str | None], measured: Collection[str]
) -> Iterator[str]:
    if which and command.startswith(OF_PROFILE):
        command = "kb profile"
    verb = " ".join(command.split()[:2])
    if verb in measured:
        return
    if which and verb in _BY_VARIANT:  # of the variant that was measured, not of the first one
        given = {name: one for name, one in which.items() if name in _BY_VARIANT[verb]}
        yield NextStep(verb.removeprefix("kb "), given, "").as_shell_words()
    else:
        yield command if "<" not in command else _name_first_step()


def _name_first_step() -> str:
    """Return what to do where no kernel is named: triage the project's only one, or a sentence."""
    own = sorted(Path(project_root(), "kernels").glob("*/kernel.yaml"))
    return f"kb triage {own[0].parent.name}" if len(own) == 1 else FILL_IN


def _has_open_session() -> bool:
    return Path(project_root(), ".kb", "session").exists()
