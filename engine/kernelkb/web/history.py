"""The history: attempts as a tree, measurements over time, sessions, predictions and outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.comparison.compare_reports import compare_attempts, compare_measured
from kernelkb.actions.history.attempts import load_attempt_log
from kernelkb.actions.history.measurements import select_and_compare
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import KbError, UnknownNameError
from kernelkb.loading.kernels import find_kernel_folders
from kernelkb.model.records.history import Attempt, AttemptEvent, Measurement, Promotion
from kernelkb.model.records.measurement import is_valid
from kernelkb.record.attempt_store import open_attempts
from kernelkb.record.attempt_tree import AttemptNode, AttemptTree
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.store import open_store
from kernelkb.record.sessions import list_session_ids
from kernelkb.render.html.diagrams import (
    PredictionPoint,
    TimePoint,
    place_predictions,
    place_times,
)
from kernelkb.render.text.attempts import (
    ID_DIGITS,
    describe_attempt,
    describe_attempt_log,
    describe_outcome,
    format_attempt_difference,
    format_measured_difference,
)
from kernelkb.render.text.measurements import describe_compared_use
from kernelkb.units import format_duration
from kernelkb.web.site import WebPage
from kernelkb.web.start import SessionRow, list_kernel_rows, list_session_rows

_MAX_TIMES = 60
"""Measurements in the picture, the newest."""
_MAX_ROWS, _FEW_ROWS = 40, 12
"""Measurements in the table, with the older ones and without them."""
_MAX_DEPTH = 8
"""Steps to the right in the tree of attempts."""
_PAGE = 12
_MAX_POINTS = 30
_MAX_OUTCOMES = 20
"""Of a kernel, the newest."""
_MAX_KERNELS = 20
"""Whose outcomes are drawn, those measured last."""
_REGRESSED = 0.97
"""As ``kb lab regress``: an interval below it is a regression."""


def show_history(asked: Mapping[str, str]) -> WebPage:
    """Return the kernels, the sessions of one page with their trend, and the predictions.

    Args:
        asked: ``page``: how many pages of older sessions to go back.

    Raises:
        DatabaseError: The database cannot be read.
    """
    project = get_project_path()
    names = list_session_ids(project / "sessions")[::-1]
    last = max(len(names) - 1, 0) // _PAGE
    wanted = asked.get("page", "")[:9]
    page = min(int(wanted) if wanted.isdecimal() else 0, last)
    shown = list_session_rows(project, names[page * _PAGE : (page + 1) * _PAGE])
    kernels = list_kernel_rows(project)
    newest = list_session_rows(project, names[:_PAGE])
    points = list(_iter_predictions(project, [row.name for row in kernels], newest))
    inside = sum(one.inside for one in points)
    said = f"{inside} of {len(points)} measured gains lie in their predicted intervals"
    values = {
        "kernels": kernels,
        "sessions": shown,
        "before": _find_earlier(shown),
        "page": page,
        "pages": last + 1,
        "chart": place_predictions(points, said),
        "said": said,
        "points": points[:_MAX_POINTS],
    }
    return WebPage("history.html", "History", "history", values)


def _find_earlier(rows: Sequence[SessionRow]) -> dict[str, float]:
    """Return for each session the best speedup of the last one before it that is like it."""
    found: dict[str, float] = {}
    seen: dict[tuple[str | None, ...], float] = {}
    for row in reversed(rows):
        if row.best:
            one = row.best
            like = one.kernel, one.target, one.machine, one.baseline, one.workload
            if like in seen:
                found[row.id] = seen[like]
            seen[like] = one.speedup
    return found


def _iter_predictions(
    project: Path, kernels: Sequence[str], rows: Sequence[SessionRow]
) -> Iterator[PredictionPoint]:
    """Yield what was told and measured: in the newest outcomes, then in sessions."""
    with open_attempts(project, writes=False) as store:
        events = [
            event
            for kernel in kernels[:_MAX_KERNELS]
            for event in store.list_events_of_kind(kernel, ("outcome",), _MAX_OUTCOMES)
        ]
    for event in sorted(events, key=lambda one: one.at, reverse=True):
        one = event.outcome
        advised = one.advised if one else None
        if one and advised and advised.predicted and one.measured and advised.fix in one.fixes:
            title = f"{event.kernel}: {advised.fix}"
            yield PredictionPoint(advised.predicted, one.measured, title)
    for session in filter(None, (row.session for row in rows)):
        for entry in session.entries:
            for decision in entry.decisions:
                if decision.predicted and decision.measured:
                    title = f"{entry.kernel or session.kernel or session.session}: {decision.fix}"
                    yield PredictionPoint(decision.predicted, decision.measured, title)


def show_kernel_history(asked: Mapping[str, str]) -> WebPage:
    """Return the attempts at a kernel, and its measurements over time.

    Args:
        asked: ``name``: the kernel. ``workload`` and ``device``: which measurements; by default
            those of the newest. ``all``: the older ones, too.

    Raises:
        UnknownNameError: There is neither a kernel nor a measurement of that name.
        DatabaseError: The database cannot be read.
    """
    project, kernel = get_project_path(), asked["name"]
    with open_store(project, writes=False) as store:
        newest = sorted(store.latest(kernel), key=lambda one: one.at, reverse=True)
        places = list(dict.fromkeys((one.subject.workload, one.subject.device) for one in newest))
        place = asked.get("workload", ""), asked.get("device", "")
        chosen = place if place in places else next(iter(places), (None, None))
        measured = store.history(kernel, None, *chosen, kind="bench", limit=_MAX_TIMES)
        promoted = store.list_promotions(kernel, in_force=False)
    if not places and kernel not in find_kernel_folders(project):
        raise UnknownNameError("kernel", kernel, find_kernel_folders(project), "show", id="kernels")
    log = None
    with suppress(KbError):
        log = load_attempt_log(kernel)
    looks = _judge(measured, promoted)
    values = {
        "kernel": kernel,
        "places": places,
        "place": chosen,
        "measured": measured[:_MAX_ROWS],
        "shown": measured[: _MAX_ROWS if "all" in asked else _FEW_ROWS],
        "looks": looks,
        "chart": place_times(_list_points(measured, looks), _describe_times(kernel, measured)),
        "log": log,
        "log_said": describe_attempt_log(log) if log and log.tree.nodes else "",
        "lines": list_attempt_lines(log.tree) if log else [],
    }
    return WebPage("kernel.html", kernel, "history", values)


def _judge(measured: Sequence[Measurement], promoted: Sequence[Promotion]) -> dict[str, str]:
    """Return what marks each measurement: plain, promoted, slower or wrong.

    slower: by its interval slower than the promoted one in force then; see ``kb lab regress``.
    """
    marks = {one.measurement for one in promoted}
    by_id = {one.id: one for one in measured}
    looks: dict[str, str] = {}
    for one in measured:
        look = "promoted" if one.id in marks else "plain"
        if not is_valid(one.verdict):
            look = "wrong"
        elif look == "plain":
            before = [p for p in promoted if p.at <= one.at and p.measurement in by_id]
            last = max(before, key=lambda p: p.number, default=None)
            found = compute_comparison(by_id[last.measurement], one) if last else None
            if found and found.interval and found.interval[1] < _REGRESSED:
                look = "slower"
        looks[one.id] = look
    return looks


def _list_points(measured: Sequence[Measurement], looks: Mapping[str, str]) -> list[TimePoint]:
    points = []
    for one in reversed(measured):
        if one.candidate_us is None:
            continue
        low = high = None
        if one.interval and one.speedup and min(one.interval) > 0:
            low = one.candidate_us * one.speedup / one.interval[1]
            high = one.candidate_us * one.speedup / one.interval[0]
        title = f"{one.subject.variant}, {one.at:%d %b %H:%M}: {format_duration(one.candidate_us)}"
        points.append(TimePoint(one.candidate_us, low, high, looks[one.id], title))
    return points


def _describe_times(kernel: str, measured: Sequence[Measurement]) -> str:
    times = [one.candidate_us for one in measured if one.candidate_us and is_valid(one.verdict)]
    if not times:
        return f"{kernel}: no valid time"
    first, best = format_duration(times[-1]), format_duration(min(times))
    return f"{kernel}: {len(times)} valid times, the first {first}, the best {best}"


class AttemptRow(NamedTuple):
    """An attempt in the tree of all."""

    id: str
    look: str
    """Class of its dot: best, way (to the best one), faster, slower, failed or plain."""
    text: str
    branches: tuple[list[AttemptRow], ...]
    """What else was tried from it than the attempt that follows in its line."""

    @property
    def beside(self) -> int:
        """How many attempts are in its branches."""
        return sum(1 + one.beside for line in self.branches for one in line)


def list_attempt_lines(tree: AttemptTree) -> list[list[AttemptRow]]:
    """Return each first state with what came of it: the way to the best one is one line."""
    path = frozenset(tree.list_path(tree.best))
    return [_list_line(tree, path, root, 0) for root in tree.roots]


def _list_line(tree: AttemptTree, path: frozenset[str], name: str, depth: int) -> list[AttemptRow]:
    rows: list[AttemptRow] = []
    pending = [name]
    while pending:
        at = pending.pop()
        node = tree.nodes[at]
        following = next((one for one in node.children if one in path), None)
        following = following or next(reversed(node.children), None)
        others = [one for one in node.children if one != following]
        pending += [following] if following else []
        if depth == _MAX_DEPTH:
            pending += reversed(others)
            others = []
        branches = tuple(_list_line(tree, path, one, depth + 1) for one in others)
        look = "best" if at == tree.best else "way" if at in path else _judge_attempt(node)
        rows.append(AttemptRow(at, look, describe_attempt(tree, node), branches))
    return rows


def _judge_attempt(node: AttemptNode) -> str:
    result = node.outcome.result if node.outcome else ""
    if node.failure or result == "failed":
        return "failed"
    return result if result in ("faster", "slower") else "plain"


def show_attempt(asked: Mapping[str, str]) -> WebPage:
    """Return the attempt ``name``: what was done with it, what differs from the state before.

    Raises:
        UnknownNameError: There is no such attempt.
        DatabaseError: The database cannot be read.
    """
    with open_attempts(get_project_path(), writes=False) as store:
        one: Attempt = store.find(asked["name"])
        events: list[AttemptEvent] = store.list_events([one.id])
    lines: list[str] = []
    if one.parent:
        try:
            lines = list(format_attempt_difference(compare_attempts(one.parent, one.id)))
        except KbError as error:
            lines = [str(error)]
    values = {"attempt": one, "events": events, "lines": lines, "say_event": _say_event}
    return WebPage("attempt.html", f"Attempt {one.id[:ID_DIGITS]}", "history", values)


def _say_event(one: AttemptEvent) -> str:
    """Return what an event gave: in its own words, else as an outcome, else its time."""
    time = (
        f"{one.verdict or 'timed'}, {format_duration(one.candidate_us)}" if one.candidate_us else ""
    )
    return one.found or (describe_outcome(one.outcome) if one.outcome else time)


def show_difference(asked: Mapping[str, str]) -> WebPage:
    """Return the ratio of measurements ``a`` and ``b`` with its interval, and what differs.

    Raises:
        UnknownNameError: There is no such measurement.
        DatabaseError: The database cannot be read.
    """
    found = select_and_compare(asked.get("a", ""), asked.get("b", ""))
    compared = found.comparison
    values = {
        "pair": (found.a, found.b),
        "comparison": compared,
        "differences": [
            *describe_compared_use(compared),
            *format_measured_difference(compare_measured(found.a, found.b)),
        ],
    }
    return WebPage("difference.html", "Two measurements", "history", values)
