"""Reads what was tried on a kernel, and orders its answer by that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.actions.history.attempts import load_tree
from kernelkb.actions.history.measured_subject import identify_checkout, keep_advice
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.past_changes import TriedChange, find_similar_cases, reorder_by_history
from kernelkb.errors import KbError, NextStep
from kernelkb.model.answers.next_step import Step
from kernelkb.model.answers.recommendation import KernelAnswer, SimilarCase
from kernelkb.model.records.history import AttemptEvent, AttemptId
from kernelkb.record.attempt_store import AttemptStore, open_attempts
from kernelkb.record.attempt_tree import Stuck, find_stuck

if TYPE_CHECKING:
    from kernelkb.decide.rules import MeasuredCaseRow

_OWN = "of this project"
MAX_SIMILAR = 3
"""Similar kernels in an answer."""
_MAX_OUTCOMES = 100
"""The newest that are read."""
_MAX_EVENTS = 300
_MAX_FOR_STUCK = 30
"""The newest attempts among which a row of changes without gain is looked for."""


class KernelHistory(NamedTuple):
    """What an answer needs of the history of its kernel."""

    state: AttemptId | None
    """That the answer is about."""
    tried: list[TriedChange]
    stuck: Stuck | None
    is_best: bool
    """Whether the state is the best one: nothing is left to go back to."""
    cases: list[MeasuredCaseRow]
    """Changes that gained on other kernels of the project."""


def read_history(
    project: Path,
    kernel: str,
    *,
    attempt: AttemptId | None = None,
    measurement: str | None = None,
) -> KernelHistory | str:
    """Return what was tried on a kernel of the project, or why that is not known.

    Args:
        project: Holds the history.
        kernel: Its name.
        attempt: The state that the answer is about.
        measurement: Or a bench or profile of it. Without both, it is the last state here.
    """
    try:
        return _read_history(project, kernel, attempt, measurement)
    except KbError as error:
        return str(error)


def apply_history(answer: KernelAnswer, history: KernelHistory | str) -> KernelAnswer:
    """Return an answer in the order of what was tried before; it stops work that is stuck."""
    if isinstance(history, str):
        unknown = f"what was tried before is not known: {history}"
        return {**answer, "notes": [*answer["notes"], unknown]}
    rules = load_compiled_rules()
    own = find_similar_cases(answer, history.cases, MAX_SIMILAR)
    measured = find_similar_cases(answer, rules["cases"], MAX_SIMILAR)
    undoes = {name: row["undoes"] for name, row in rules["fixes"].items()}
    diagnoses, behind = reorder_by_history(
        answer["diagnoses"], history.tried, undoes, _describe_help(own)
    )
    of_log = f"{behind} of the fixes stand behind for what was tried: kb log {answer['kernel']}"
    ordered: KernelAnswer = {
        **answer,
        "similar": [*own, *measured][:MAX_SIMILAR],
        "diagnoses": diagnoses,
        "notes": [*answer["notes"], *([of_log] if behind else [])],
    }
    return _stop_stuck(ordered, history)


def keep_first_fix(
    project: Path, answer: KernelAnswer, history: KernelHistory | str | None
) -> KernelAnswer:
    """Keep the first fix of a complete answer with the state that it is about.

    Returns:
        The answer, with a note where the history cannot be written.
    """
    if history is None or isinstance(history, str):
        return answer
    failure = keep_advice(project, answer, history.state)
    return answer if failure is None else {**answer, "notes": [*answer["notes"], failure]}


def _describe_help(cases: Sequence[SimilarCase]) -> dict[str, str]:
    return {
        case[
            "fix"
        ]: f"helped {case['kernel']}{case['operation'].removeprefix(_OWN)}, whose profile "
        f"is like this one: {case['speedup']:.3g}x"
        for case in cases
    }


def list_own_cases(store: AttemptStore, kernel: str) -> list[MeasuredCaseRow]:
    """Return confirmed gains of other kernels of the project, with what was found before them."""
    found: list[MeasuredCaseRow] = []
    for event in store.list_outcomes(_MAX_OUTCOMES):
        outcome = event.outcome
        if (
            event.kernel == kernel
            or outcome is None
            or outcome.result != "faster"
            or outcome.recognised_by in (None, "guess", "unconfirmed")
            or outcome.measured is None
            or outcome.advised is None
        ):
            continue
        found.append(
            {
                "kernel": event.kernel,
                "fix": outcome.fixes[0],
                "bottleneck": outcome.advised.bottleneck,
                "operation": f"{_OWN}{_mark(event)}",
                "device": event.device or "",
                "speedup": outcome.measured,
                "state": outcome.advised.state,
            }
        )
    return found


def _read_history(
    project: Path, kernel: str, attempt: AttemptId | None, measurement: str | None
) -> KernelHistory:
    with open_attempts(project, writes=False) as store:
        state = attempt
        if state is None and measurement is not None:
            state = find_attempt_of(store, kernel, measurement)
        elif state is None:
            state = _find_present(store, project, kernel)
        tried = list_tried_changes(store, kernel, state)
        recent = load_tree(store, kernel, _MAX_FOR_STUCK) if tried else None
        stuck = find_stuck(recent) if recent else None
        is_best = recent is not None and recent.best is not None and recent.best == state
        return KernelHistory(state, tried, stuck, is_best, list_own_cases(store, kernel))


def _stop_stuck(answer: KernelAnswer, history: KernelHistory) -> KernelAnswer:
    """Let the gate of an answer stop work that leads nowhere; another stop stays."""
    stuck, which = history.stuck, {"kernel": answer["kernel"]}
    if stuck is None or answer["gate"]["verdict"] not in ("continue", "caution"):
        return answer
    because = f"{stuck.because}; {stuck.cure}"
    steps: list[Step] = [NextStep("log", which, "lists what was tried")]
    if stuck.way_back and not history.is_best:
        steps.append(NextStep("restore", {"best": answer["kernel"]}, "goes back to the best state"))
    if not history.is_best:
        steps.append(NextStep("profile", which, "measures it"))
    return {
        **answer,
        "gate": {"id": f"stuck-{stuck.kind}", "verdict": "stop", "because": because},
        "next": steps,
    }


def list_tried_changes(
    store: AttemptStore, kernel: str, state: AttemptId | None
) -> list[TriedChange]:
    """Return the changes of a kernel, the oldest first."""
    events = store.list_events_of_kind(kernel, ["outcome"], _MAX_OUTCOMES)
    path = set(store.list_ancestors(state)) if state else set()
    return [
        TriedChange(
            event.attempt, f"{event.at:%d %b}{_mark(event)}", event.outcome, event.attempt in path
        )
        for event in events
        if event.outcome is not None
    ]


def _mark(event: AttemptEvent) -> str:
    return ", imported" if event.imported else ""


def _find_present(store: AttemptStore, project: Path, kernel: str) -> AttemptId | None:
    events = store.list_events_here(kernel, identify_checkout(project), 1)
    return events[-1].attempt if events else None


def find_attempt_of(store: AttemptStore, kernel: str, measurement: str) -> AttemptId | None:
    """Return the state that a bench or profile measured; None where it is not among the newest."""
    events = store.list_events_of_kind(kernel, ["bench", "profile"], _MAX_EVENTS)
    return next((one.attempt for one in reversed(events) if one.measurement == measurement), None)
