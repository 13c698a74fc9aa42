"""Reads attempts for read_entry: the log of a kernel, or the difference of two attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kernelkb_mcp.entry_view import EntryView

if TYPE_CHECKING:
    from kernelkb.model.records.attempt import Attempt
    from kernelkb.record.attempts.views import AttemptDifference, AttemptLog

PREFIX = "attempts"
"""Before the slash in an id of ``read_entry``."""
_ID_DIGITS = 12


def names_attempts(name: str) -> bool:
    """Return whether an id of ``read_entry`` names attempts."""
    return name.partition("/")[0] == PREFIX


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
    from kernelkb.actions.comparison.compare_attempts import compare_attempts
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
        yield f"read_entry(id='{PREFIX}/{kernel}')"


def _find_faster(found: AttemptDifference) -> Attempt | None:
    """Return the attempt that is faster by the whole interval; None where it does not tell."""
    low, high = (found.comparison and found.comparison.interval) or (0.0, 0.0)
    if low > 1.0:
        return found.after.attempt
    return found.before.attempt if 0.0 < high < 1.0 else None


def _format_difference_call(before: str, after: str) -> str:
    return f"read_entry(id='{PREFIX}/{before[:_ID_DIGITS]}..{after[:_ID_DIGITS]}')"
