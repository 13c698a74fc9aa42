"""What an id of read_entry stands for where it names no entry of the knowledge."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from mcp.server.mcpserver.exceptions import ToolError

from kernelkb.errors import BadValueError, UnknownNameError

if TYPE_CHECKING:
    from kernelkb.actions.project.profile_reports import ReportChoice
    from kernelkb.model.records.history import Attempt
    from kernelkb.record.attempt_tree import AttemptDifference, AttemptLog


class EntryView(NamedTuple):
    """Something that was measured, to be read like an entry."""

    content: dict[str, Any]
    """As the command of ``kb`` prints it with ``--json``."""
    summary: str
    next: tuple[str, ...]


_ATTEMPTS = "attempts"
"""Before the slash in an id of ``read_entry``."""
_ID_DIGITS = 12


def names_attempts(name: str) -> bool:
    """Return whether an id of ``read_entry`` names attempts."""
    return name.partition("/")[0] == _ATTEMPTS


def load_attempts_view(name: str, tools: Collection[str]) -> EntryView:
    """Return the log for ``attempts/KERNEL``, and the difference for ``attempts/A..B``.

    Args:
        name: The id.
        tools: Names of the offered tools; the next calls are of these.

    Raises:
        UnknownNameError: There is no such kernel or attempt.
        BadValueError: Several ids of attempts begin like this.
        DatabaseError: The history cannot be read.
    """
    from kernelkb.actions.comparison.compare_reports import compare_attempts
    from kernelkb.actions.history.attempts import load_attempt_log
    from kernelkb.render.text import attempts as render

    subject = name.partition("/")[2]
    before, dots, after = subject.partition("..")
    if dots:
        found = compare_attempts(before, after)
        return EntryView(
            render.build_difference_object(found),
            render.describe_attempt_difference(found),
            _select_offered(_iter_calls_after_difference(found), tools),
        )
    log = load_attempt_log(subject)
    return EntryView(
        render.build_log_object(log),
        render.describe_attempt_log(log),
        _select_offered(_iter_calls_after_log(log), tools),
    )


def _select_offered(calls: Iterator[str], tools: Collection[str]) -> tuple[str, ...]:
    return tuple(call for call in calls if call.partition("(")[0] in tools)


def _iter_calls_after_log(log: AttemptLog) -> Iterator[str]:
    which = f"kernel={log.kernel!r}"
    tree = log.tree
    if not tree.nodes:
        yield f"build_kernel({which})"
        return
    newest = list(tree.nodes.values())[-1].attempt
    if tree.best is None:
        yield f"bench_kernel({which}, variant={newest.variant!r}, target={newest.target!r})"
        return
    best = tree.nodes[tree.best].attempt
    if best.id != newest.id:
        yield _format_difference_call(best.id, newest.id)
        yield f"build_kernel({which}, restore='best')"
    elif best.parent is not None:
        yield _format_difference_call(best.parent, best.id)
    yield f"recommend_fix({which})"


def _iter_calls_after_difference(found: AttemptDifference) -> Iterator[str]:
    before, after = found.before.attempt, found.after.attempt
    faster = _find_faster(found)
    if faster is not None:
        yield f"build_kernel(kernel={faster.kernel!r}, restore={faster.id[:_ID_DIGITS]!r})"
    for kernel in dict.fromkeys((before.kernel, after.kernel)):
        yield f"read_entry(id='{_ATTEMPTS}/{kernel}')"


def _find_faster(found: AttemptDifference) -> Attempt | None:
    """Return the attempt that is faster by the whole interval; None where it does not tell."""
    low, high = (found.comparison and found.comparison.interval) or (0.0, 0.0)
    if low > 1.0:
        return found.after.attempt
    return found.before.attempt if 0.0 < high < 1.0 else None


def _format_difference_call(before: str, after: str) -> str:
    return f"read_entry(id='{_ATTEMPTS}/{before[:_ID_DIGITS]}..{after[:_ID_DIGITS]}')"


_MEASUREMENTS = re.compile(r"[\w/-]+\.\.[\w-]+")
_REPORT = r".+\.(?:ncu-repz?|csv)(?:#[\d,-]+)?"
_REPORTS = re.compile(rf"{_REPORT}\.\.{_REPORT}")
_DOTS = re.compile(r"(?=\.\.)")
"""Each place where the two sides may be cut apart; a path may begin with ``../``."""


def names_comparison(name: str) -> bool:
    """Return whether an id of ``read_entry`` names two measurements or reports."""
    return _MEASUREMENTS.fullmatch(name) is not None or _REPORTS.fullmatch(name) is not None


def load_comparison_view(name: str) -> EntryView:
    """Return what ``kb compare A B`` finds.

    Args:
        name: ``A..B``: ids of measurements or their beginnings, or paths of reports, each perhaps
            with ``#LAUNCH`` or ``#2-5``. ``KERNEL/A..B`` also takes variants (their newest bench)
            and best.

    Raises:
        KbError: A file is no report.
        UnknownNameError: There is no such measurement.
        BadValueError: A side selects several measurements, or a report does not exist.
    """
    from kernelkb.actions.comparison.compare_reports import compare_reports
    from kernelkb.render.text.comparisons import format_report_comparison

    reports = _find_reports(name)
    if reports is None:
        return _compare_measurements(name)
    found = compare_reports(*reports)
    summary = next(iter(format_report_comparison(found)), "nothing to compare")
    now = str(reports[1].path)
    return EntryView(cast("dict[str, Any]", found), summary, (f"recommend_fix(profile={now!r})",))


def _iter_sides(name: str) -> Iterator[tuple[str, str]]:
    for cut in _DOTS.finditer(name):
        before, now = name[: cut.start()], name[cut.start() + 2 :]
        if before and now:
            yield before, now


def _find_reports(name: str) -> tuple[ReportChoice, ReportChoice] | None:
    """Return the two reports; None if the sides name measurements.

    Raises:
        BadValueError: One side is a file, and the other is named as a report that does not exist.
    """
    from kernelkb.actions.project.profile_reports import choose_reports

    problem = None
    for before, now in _iter_sides(name):
        try:
            reports = choose_reports(before, now)
        except BadValueError as error:
            problem = problem or error
            continue
        if reports is not None:
            return reports
    if problem is not None:
        raise problem
    return None


def _compare_measurements(name: str) -> EntryView:
    from kernelkb.actions.comparison.compare_reports import compare_measured
    from kernelkb.actions.history.measurements import select_and_compare
    from kernelkb.render.text.attempts import build_measured_object
    from kernelkb.render.text.measurements import describe_choice, describe_comparison

    a, _, b = name.partition("..")
    kernel, slash, variant = a.rpartition("/")
    try:
        found = select_and_compare(variant if slash else a, b, kernel or None)
    except UnknownNameError as error:
        message = f"{error.complaint}; attempts/A..B compares attempts"
        raise ToolError(message) from error
    chosen = [
        describe_choice(letter, said, one)
        for letter, said, one in zip("ab", found.selected_by, (found.a, found.b), strict=True)
    ]
    summary = "; ".join((describe_comparison(found.comparison), *chosen))
    follow = f"recommend_fix(run={found.b.id[:12]!r})"
    difference = build_measured_object(compare_measured(found.a, found.b))
    content = {**found.comparison.model_dump(mode="json"), "difference": difference}
    return EntryView(content, summary, (follow,))


_ENVIRONMENT = "environment"
"""The id of ``read_entry``; a target may follow behind a slash."""


def names_environment(name: str) -> bool:
    """Return whether an id of ``read_entry`` names this machine."""
    return name.partition("/")[0] == _ENVIRONMENT


def load_environment_view(name: str, tools: Collection[str]) -> EntryView:
    """Inspect this machine, as ``kb env`` does; takes seconds.

    Args:
        name: ``environment``, ``environment/cpu`` or ``environment/cuda``.
        tools: Names of the offered tools.

    Raises:
        ToolError: There is no such target, or this server measures nothing.
    """
    from kernelkb.actions.project.bench_target import get_project_path, validate_machine
    from kernelkb.actions.sessions.sessions import choose_subject_kernel
    from kernelkb.measure.machine.environment import TargetChoice
    from kernelkb.render.text.measurements import describe_environment

    target = name.partition("/")[2] or "auto"
    if target not in get_args(TargetChoice):
        raise ToolError(
            f"no target {target!r}; {_ENVIRONMENT}, {_ENVIRONMENT}/cpu or {_ENVIRONMENT}/cuda"
        )
    if "build_kernel" not in tools:
        raise ToolError("this server builds and measures nothing; start it without --read-only")
    found = validate_machine(cast("TargetChoice", target), fresh=True)
    broken = next((line for line in found.lines if line.status == "failure"), None)
    follow = (
        (f"bench_kernel(kernel={choose_subject_kernel(get_project_path())!r})",)
        if broken is None
        else (broken.cure or broken.found,)
    )
    return EntryView(found.model_dump(mode="json"), describe_environment(found), follow)
