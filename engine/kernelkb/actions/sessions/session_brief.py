"""Says in a few lines where work on a kernel stands, for an author who comes back to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from kernelkb.actions.advice.code_location import AnsweredVariant, find_change
from kernelkb.actions.advice.next_steps import list_change_steps
from kernelkb.actions.history.attempts import read_tree
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.sessions.sessions import (
    choose_session_id,
    choose_subject_kernel,
    load_session,
    start_session,
    step_to_open,
)
from kernelkb.errors import KbError, NextStep
from kernelkb.loading.kernels import find_kernel_folder, load_kernel, select_variant
from kernelkb.model.records.history import AttemptEvent
from kernelkb.model.records.session import Session
from kernelkb.record.attempt_tree import AttemptNode, AttemptTree, describe_way_back, find_stuck
from kernelkb.record.sessions import (
    find_open_session,
    find_open_session_for,
    list_session_ids,
    read_session,
    session_path,
)
from kernelkb.render.text.attempts import ID_DIGITS, describe_outcome, mark_imported
from kernelkb.render.text.steps import describe_place
from kernelkb.units import format_duration, format_minutes

MAX_BYTES = 2000
_MAX_TRIED = 8
_MAX_PATH = 6
_MAX_READ = 60
"""The newest attempts that are read."""
_ON_DEVICE = ("check", "bench", "profile")
_MAX_MISTAKES = 3
_GAINLESS = ("no-gain", "slower", "failed")

StepFormat = Callable[[NextStep], str]
"""Writes a next step in a front end's own notation."""


def brief_session(
    name: str | None = None,
    kernel: str | None = None,
    format_step: StepFormat = NextStep.as_shell_words,
) -> str:
    """Return where a session and its kernel stand, in at most 2,000 bytes.

    Args:
        name: The session; None: the open one, or none.
        kernel: The kernel; None: that of the session, or of its newest entry.
        format_step: Writes the steps that it names; by default as shell commands.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: Its file is invalid.
        DatabaseError: The history cannot be read.
    """
    return _join_lines(list_brief_lines(name, kernel, format_step))


class BriefStep(NamedTuple):
    """A line of a brief that says what to do, or what was done."""

    label: Literal["next", "change", "then", "+", "-"]
    """``+``: a change that gained; ``-``: one that did not."""
    text: str
    """A command, where the change is made, or the change with what it gave."""

    def __str__(self) -> str:
        return f"{self.label}{'' if self.is_past else ':'} {self.text}"

    @property
    def is_past(self) -> bool:
        """Whether it was done."""
        return self.label in ("+", "-")


def _join_lines(lines: Sequence[str | BriefStep]) -> str:
    return _cut("\n".join(map(str, lines)))


def list_brief_lines(
    name: str | None = None,
    kernel: str | None = None,
    format_step: StepFormat = NextStep.as_shell_words,
) -> list[str | BriefStep]:
    """Return the lines of ``brief_session``, which takes the same and raises the same."""
    project = get_project_path()
    chosen = name or find_open_session(project)
    session = load_session(chosen) if chosen else None
    subject = kernel or (_find_kernel(session) if session else None)
    lines: list[str | BriefStep] = list(_describe_session(session))
    if session is not None:
        lines += _describe_mistakes(find_mistakes(project))
    if subject is not None:
        tree = read_tree(project, subject, _MAX_READ)
        lines += _describe_budget(session, tree) if session else []
        lines += _describe_kernel(subject, tree, format_step)
    elif not lines:
        first = format_step(step_to_open(kernel, project))
        lines = ["no session is open", BriefStep("next", first)]
    return lines


class ResumedSession(NamedTuple):
    """A session that was opened, or was open."""

    summary: str
    session: str | None
    brief: str
    steps: tuple[str, ...]
    """What comes next, in its order: commands, and a change between them."""


def resume_session(
    kernel: str | None,
    goal: str | None,
    budget: Mapping[str, float] | None = None,
    format_step: StepFormat = NextStep.as_shell_words,
) -> ResumedSession:
    """Return where work stands; open a session if none is open for the kernel and a goal is given.

    Args:
        kernel: Its name; None: that of the open session.
        goal: One sentence.
        budget: Fields of ``SessionBudget``, for a session that is opened.
        format_step: Writes the steps that the brief names; by default as shell commands.

    Raises:
        UnknownNameError: There is no such kernel; nothing was opened.
        SessionError: The project is not writable.
        DatabaseError: The history cannot be read.
    """
    project = get_project_path()
    if kernel is not None:
        kernel = find_kernel_folder(kernel, project).name
    name = find_open_session_for(kernel, project)
    verb = "is open"
    if name is None and goal is not None:
        name, verb = choose_session_id(kernel, project), "was opened"
        start_session(name, goal, None, kernel, budget)
    words = "no session is open" if name is None else f"session {name} {verb}"
    lines = list_brief_lines(name, kernel, format_step)
    steps = [
        f"change one thing, in {line.text}" if line.label == "change" else line.text
        for line in lines
        if isinstance(line, BriefStep) and not line.is_past
    ]
    if name is None and kernel is not None:
        steps.insert(0, format_step(step_to_open(kernel, project)))
    if not steps and (subject := choose_subject_kernel(project)) is not None:
        steps.append(format_step(_make_step("triage", subject)))  # the session names no kernel
    return ResumedSession(words, name, _join_lines(lines), tuple(steps))


def _cut(text: str) -> str:
    body = text.encode()
    if len(body) <= MAX_BYTES:
        return text
    return body[: MAX_BYTES - 4].decode(errors="ignore").rpartition("\n")[0] + "\n..."


def _find_kernel(session: Session) -> str | None:
    named = [entry.kernel for entry in session.entries if entry.kernel]
    return session.kernel or (named[-1] if named else None)


def _describe_session(session: Session | None) -> Iterator[str]:
    if session is not None:
        state = "closed" if session.is_closed else f"open since {session.opened:%d %b %H:%M}"
        yield f"session {session.session}, {state}: {session.goal}"


class Mistake(NamedTuple):
    """A cause of failed steps that recurs in a project."""

    symptom: str
    times: int
    """In a row of failures on one variant it counts once."""
    sessions: int
    steps: float | None
    """Median number of steps of the same name until one went well; None: none has."""


def find_mistakes(project: Path) -> list[Mistake]:
    """Return what went wrong twice or more in the sessions of a project, the most frequent first.

    Only steps count of which the knowledge knew the cause.
    """
    begun: dict[str, list[str]] = {}
    ended: dict[str, list[int]] = {}
    folder = project / "sessions"
    for name in list_session_ids(folder):
        with suppress(KbError, OSError):  # its file is invalid
            seen = os.stat(f"{folder}/{name}.md")  # noqa: PTH116 a Path each takes 10 ms
            for symptom, steps in _read_failures(name, folder, seen.st_mtime_ns, seen.st_size):
                begun.setdefault(symptom, []).append(name)
                ended.setdefault(symptom, []).extend([] if steps is None else [steps])
    found = [
        Mistake(one, len(own), len(set(own)), median(ended[one]) if ended[one] else None)
        for one, own in begun.items()
        if len(own) > 1
    ]
    return sorted(found, key=lambda own: -own.times)


@lru_cache(maxsize=4096)
def _read_failures(
    name: str, folder: Path, _stamp: int, _size: int
) -> tuple[tuple[str, int | None], ...]:
    """Return the failures of a session; reading one without a known cause would be for nothing."""
    if b"symptom:" not in session_path(name, folder).read_bytes():
        return ()
    return tuple(_list_failures(read_session(name, folder)))


def _list_failures(session: Session) -> Iterator[tuple[str, int | None]]:
    """Yield the cause of each row of failed steps, and after how many one of its name went well."""
    failing: dict[tuple[str | None, str | None, str], tuple[str, int]] = {}
    for entry in session.entries:
        for step in entry.steps:
            subject = entry.kernel, step.variant, step.name
            cause = step.symptom if step.status == "failure" else None
            known = failing.pop(subject, None)
            if step.status != "failure" and known:
                yield known[0], known[1]
            elif known and cause in (None, known[0]):
                failing[subject] = known[0], known[1] + 1
            elif cause is not None:
                if known:
                    yield known[0], None
                failing[subject] = cause, 1
    yield from ((symptom, None) for symptom, _ in failing.values())


def _describe_mistakes(mistakes: Sequence[Mistake]) -> Iterator[str]:
    told = []
    for one in mistakes[:_MAX_MISTAKES]:
        after = "" if one.steps is None else f", right after {one.steps:g} steps"
        where = f" in {one.sessions} sessions" if one.sessions > 1 else ""
        told.append(f"{one.symptom} {one.times} times{where}{after}")
    if told:
        yield f"mistakes that recur: {'; '.join(told)}"


_SPENT: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("attempts", "attempts", "{:.0f}".format),
    ("minutes", "since it was opened", format_minutes),
    ("device_seconds", "on the device", lambda seconds: format_minutes(seconds / 60)),
)


def _describe_budget(session: Session, tree: AttemptTree) -> Iterator[str]:
    """Yield what was used of the budget, and what is left."""
    since = session.opened if session.opened.tzinfo else session.opened.replace(tzinfo=UTC)
    events = [event for node in tree.nodes.values() for event in node.events if event.at >= since]
    made = [node for node in tree.nodes.values() if node.attempt.at >= since]
    used = {
        "attempts": float(len(made)),
        "minutes": (datetime.now(UTC) - since).total_seconds() / 60,
        "device_seconds": sum(event.seconds for event in events if event.kind in _ON_DEVICE),
    }
    told = []
    for field, title, say in _SPENT:
        limit = getattr(session.budget, field) if session.budget else None
        of = f" of {say(limit)}" if limit else ""
        over = ", used up" if limit and used[field] >= limit else ""
        told.append(f"{say(used[field])}{of} {title}".rstrip() + over)
    yield f"spent: {', '.join(told)}"


def _describe_kernel(
    kernel: str, tree: AttemptTree, format_step: StepFormat
) -> Iterator[str | BriefStep]:
    if not tree.nodes:
        yield f"{kernel}: nothing was tried yet"
        yield BriefStep("next", format_step(_make_step("triage", kernel)))
        return
    path = [tree.nodes[name] for name in tree.list_path(tree.best)]
    yield from _describe_best(kernel, tree, path, format_step)
    newest = max(tree.nodes.values(), key=_find_last_time)
    if newest.attempt.id != tree.best:
        what = describe_outcome(newest.outcome) if newest.outcome else "not timed"
        yield f"now: {_name(newest)}, {what}"
    tried = [one for one in tree.nodes.values() if _is_gainless(one)]
    if tried:
        yield "tried without gain, not to be repeated while the same cause is found:"
        yield from (BriefStep("-", _describe_tried(one)) for one in tried[-_MAX_TRIED:])
    yield from _describe_next(kernel, tree, newest, format_step)


def _describe_next(
    kernel: str, tree: AttemptTree, newest: AttemptNode, format_step: StepFormat
) -> Iterator[str | BriefStep]:
    stuck = find_stuck(tree)
    advice = _find_advice(newest)
    variant = newest.attempt.variant
    if stuck is not None:
        yield f"stuck: {stuck.because}"
        if stuck.way_back is None:
            yield BriefStep("next", stuck.then)
        else:
            yield BriefStep("next", format_step(stuck.way_back))
            yield BriefStep("then", stuck.then)
    elif advice is not None and advice.advised is not None:
        advised = advice.advised
        gain = f", told {advised.predicted[1]:.3g}x" if advised.predicted else ""
        yield f"open: {advised.fix} for {advised.bottleneck}{gain}"
        yield from _describe_change(newest, advised.fix, format_step)
    else:
        yield BriefStep("next", format_step(_make_step("triage", kernel, variant)))


def _describe_change(
    newest: AttemptNode, fix: str, format_step: StepFormat
) -> Iterator[str | BriefStep]:
    """Yield where an advised fix goes, and the commands before and after that."""
    attempt = newest.attempt
    try:
        folder = load_kernel(attempt.kernel, get_project_path())
        variant = select_variant(folder.kernel, attempt.target, attempt.variant)
    except KbError:  # the kernel or the variant is gone
        step = _make_step("bench", attempt.kernel, attempt.variant)
        yield BriefStep("change", "its source")
        yield BriefStep("then", format_step(step))
        return
    change = find_change(AnsweredVariant(folder, variant), fix)
    *before, bench = list_change_steps(change)
    yield from (BriefStep("next", format_step(step)) for step in before)
    if change["applied_by"] is None:
        yield BriefStep("change", describe_place(change))
    yield BriefStep("then" if before else "next", format_step(bench))


def _make_step(verb: str, kernel: str, variant: str | None = None) -> NextStep:
    effects = {"bench": "times it", "triage": "says what limits it"}
    which = {"kernel": kernel, **({"variant": variant} if variant else {})}
    return NextStep(verb, which, effects[verb])


def _describe_best(
    kernel: str, tree: AttemptTree, path: Sequence[AttemptNode], format_step: StepFormat
) -> Iterator[str | BriefStep]:
    if tree.best is None or tree.place is None:
        yield f"{kernel}: {len(tree.nodes)} attempts, none with a valid time"
        return
    best = tree.nodes[tree.best]
    time = best.find_time_us(tree.place)
    first = path[0].find_time_us(tree.place)
    shown = format_duration(time) if time else "?"
    since = f", the first {format_duration(first)}" if first and len(path) > 1 else ""
    where = f"{tree.place.workload}, {tree.place.device}"
    yield f"{kernel}: best {_name(best)} {shown}{since}"
    yield f"on {where}; {format_step(describe_way_back(kernel))}"
    gained = [one for one in path if one.outcome and one.outcome.result == "faster"]
    for node in gained[-_MAX_PATH:]:
        if node.outcome:
            yield BriefStep("+", f"{describe_outcome(node.outcome)}{mark_imported(node)}")


def _name(node: AttemptNode) -> str:
    return f"{node.attempt.id[:ID_DIGITS]} ({node.attempt.variant}{mark_imported(node)})"


def _find_last_time(node: AttemptNode) -> datetime:
    return node.events[-1].at if node.events else node.attempt.at


def _is_gainless(node: AttemptNode) -> bool:
    return node.outcome is not None and node.outcome.result in _GAINLESS


def _describe_tried(node: AttemptNode) -> str:
    what = describe_outcome(node.outcome) if node.outcome else ""
    return f"{node.attempt.id[:ID_DIGITS]} {what}{mark_imported(node)}"


def _find_advice(node: AttemptNode) -> AttemptEvent | None:
    """Return the newest advice for a state, unless something was measured after it."""
    return next((event for event in reversed(node.events) if event.advised), None)
