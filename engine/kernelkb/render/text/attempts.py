"""Formats attempts as lines of text: the tree of a kernel, and the difference of two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from kernelkb.render.text.comparisons import format_report_comparison
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.model.records.history import AttemptId, ChangeOutcome
    from kernelkb.record.attempt_tree import (
        AdviceCheck,
        AttemptDifference,
        AttemptLog,
        AttemptNode,
        AttemptTree,
        MeasuredDifference,
        RestoredAttempt,
        Stuck,
    )

ID_DIGITS = 8
IMPORTED = "imported"
"""Marks what was not measured here."""
_MAX_WHY = 90
_MAX_DIFF = 200
_SAID_HOW = {
    "said": "",
    "unconfirmed": " (unconfirmed)",
    "source": "",
    "code": "",
    "advice": " (as advised)",
    "guess": " (it looks like it)",
}


def format_attempt_log(log: AttemptLog) -> Iterator[str]:
    """Yield the tree of a kernel: the best path is marked, dead ends have their reason."""
    tree = log.tree
    if not tree.nodes:
        yield f"{log.kernel}: no attempts yet; kb build {log.kernel} keeps the first"
        return
    yield describe_attempt_log(log)
    path = frozenset(tree.list_path(tree.best))
    for root in tree.roots:
        yield from _format_branch(tree, root, path, "", "")
    if log.total > len(tree.nodes):
        yield f"{log.total - len(tree.nodes)} older ones are not shown; --limit shows more"
    if log.stuck is not None:
        yield f"stuck: {log.stuck.because}; {log.stuck.cure}"


def describe_attempt_log(log: AttemptLog) -> str:
    """Return in one line how many attempts there are, what they took, and which is the best."""
    tree = log.tree
    spent = f"{_format_span(tree.seconds)}, {_format_span(tree.device_seconds)} on the device"
    words = f"{log.kernel}: {log.total} attempts, {spent}"
    if tree.best is not None and tree.place is not None:
        time = tree.nodes[tree.best].find_time_us(tree.place)
        shown = format_duration(time) if time else "?"
        words += f"; best {tree.best[:ID_DIGITS]}, {shown} ({tree.place.workload}, "
        words += f"{tree.place.device}){mark_imported(tree.nodes[tree.best])}"
    elif tree.nodes:
        words += "; none with a valid time"
    return words


def mark_imported(node: AttemptNode) -> str:
    """Return the mark of an attempt that was imported, as the end of its name; empty for others."""
    return f", {IMPORTED}" if node.is_imported else ""


def _format_span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _format_branch(
    tree: AttemptTree, name: AttemptId, path: frozenset[AttemptId], first: str, rest: str
) -> Iterator[str]:
    """Yield an attempt and those after it; a child that has no brother stands below its parent."""
    pending = [(name, first, rest)]
    while pending:
        name, first, rest = pending.pop()
        node = tree.nodes[name]
        mark = "*" if name in path else " "
        yield f"{first}{mark} {name[:ID_DIGITS]}  {describe_attempt(tree, node)}"
        children = node.children
        if len(children) == 1:
            pending.append((children[0], rest, rest))
            continue
        rows = []
        for child in children:
            last = child == children[-1]
            rows.append((child, rest + ("└─" if last else "├─"), rest + ("  " if last else "│ ")))
        pending += reversed(rows)


def describe_attempt(tree: AttemptTree, node: AttemptNode) -> str:
    """Return in one line what an attempt was, what it gave, and its time."""
    outcome = node.outcome
    what = "first state" if node.attempt.parent is None else "not timed yet"
    if outcome is not None:
        what = describe_outcome(outcome)
    elif node.failure is not None:
        what = f"failed: {node.failure[:_MAX_WHY]}"
    if node.said:
        what = f'"{node.said[:_MAX_WHY]}": {what}'
    time = node.find_time_us(tree.place) if tree.place else None
    shown = f"  {format_duration(time)}" if time else ""
    best = "  best" if node.attempt.id == tree.best else ""
    mark = mark_imported(node)
    return f"{node.attempt.variant} {node.attempt.at:%d %b %H:%M}{mark}  {what}{shown}{best}"


def describe_outcome(outcome: ChangeOutcome) -> str:
    """Return what a change was and what it gave: ``vectorize-128b at line 48: 1.32x [..]``."""
    fixes = " or ".join(outcome.fixes) if outcome.recognised_by == "guess" else ", ".join(
        outcome.fixes
    )  # fmt: skip
    how = _SAID_HOW[outcome.recognised_by] if outcome.recognised_by else ""
    at = f" at line {outcome.lines[0]}" if outcome.lines else ""
    what = f"{fixes or 'unknown change'}{at}{how}"
    if outcome.result == "failed":
        return f"{what}: failed, {(outcome.why or '')[:_MAX_WHY]}"
    if outcome.measured is not None and outcome.interval is None:
        return f"{what}: about {outcome.measured:.3g}x, {outcome.result}, of two runs"
    if outcome.measured is None or outcome.interval is None:
        return f"{what}: {outcome.result}, {(outcome.why or 'not compared')[:_MAX_WHY]}"
    low, high = outcome.interval
    words = {"faster": "", "slower": ", slower", "no-gain": ", no gain", "undecided": ", undecided"}
    gain = f"{outcome.measured:.3g}x [{low:.3g}, {high:.3g}]{words[outcome.result]}"
    return f"{what}: {gain}{_compare_to_advice(outcome)}"


def _compare_to_advice(outcome: ChangeOutcome) -> str:
    advised = outcome.advised
    if advised is None or advised.predicted is None or advised.fix not in outcome.fixes:
        return ""
    low, point, high = advised.predicted
    return f", told {point:.3g}x [{low:.3g}, {high:.3g}]"


def describe_attempt_difference(found: AttemptDifference) -> str:
    """Return in one line which attempts are compared, and the change in time."""
    return f"{_describe_pair(found)}; {_describe_time_change(found)}"


def _describe_pair(found: AttemptDifference) -> str:
    names = (
        f"{node.attempt.id[:ID_DIGITS]} {node.attempt.variant}{mark_imported(node)}"
        for node in (found.before, found.after)
    )
    return " -> ".join(names)


def _describe_time_change(found: AttemptDifference) -> str:
    compared = found.comparison
    if compared is None:
        return "time: not both were timed on one workload and device"
    if compared.ratio is None or compared.interval is None:
        return f"time: not comparable, {compared.because}"
    low, high = compared.interval
    return f"time: {compared.ratio:.3g}x [{low:.3g}, {high:.3g}], {compared.because}"


def format_attempt_difference(found: AttemptDifference) -> Iterator[str]:
    """Yield the change of time, of the machine code and the metrics, then that of the source."""
    yield _describe_pair(found)
    yield _describe_time_change(found)
    yield from _format_advice(found)
    if found.same_code is not None:
        yield f"machine code: {'the same' if found.same_code else 'different'}"
    metrics = {} if found.reports is not None else found.metrics  # those say the same, and where
    for title, pairs in (("instructions", found.counts), ("metrics", metrics)):
        if pairs:
            told = (f"{name} {old:.4g} -> {new:.4g}" for name, (old, new) in pairs.items())
            yield f"{title}: {', '.join(told)}"
    if found.reports is not None:
        yield from format_report_comparison(found.reports)
    if found.flags is not None:
        yield f"flags: {' '.join(found.flags[0])} -> {' '.join(found.flags[1])}"
    yield from found.source[:_MAX_DIFF]
    if len(found.source) > _MAX_DIFF:
        yield f"... {len(found.source) - _MAX_DIFF} more lines"
    if not found.source:
        yield "source: the same, or not kept here"


_GAINS = {"below": "below the interval", "inside": "inside it", "above": "above the interval"}
_MAX_METRICS = 6
_MAX_DIFF_CHARS = 96
_MAX_SHORT_DIFF = 12
"""Lines of source that a comparison of measurements shows."""


def _format_advice(found: AttemptDifference) -> Iterator[str]:
    """Yield what was advised for the state before, what it gave, and whether its rule held."""
    check = found.advice
    if check is None:
        return
    told = f"told {check.advised.fix}"
    if check.advised.predicted is not None:
        low, point, high = check.advised.predicted
        told += f" {point:.3g}x [{low:.3g}, {high:.3g}]"
    if check.measured is not None:
        told += f", got {check.measured:.3g}x"
    yield f"{told}: {_GAINS[check.gain]}" if check.gain else told
    outcome = found.after.outcome
    if outcome and outcome.fixes and check.advised.fix not in outcome.fixes:
        yield f"  another change was made: {', '.join(outcome.fixes)}"
    rule = check.rule
    if rule is not None and rule["now"] is not None:
        shown = f"{rule['metric']} {rule['op']} {rule['value']:.4g}"
        yield f"  keep rule {shown}: {rule['before']:.4g} -> {rule['now']:.4g}, {rule['says']}"
    elif check.advised.falsifier is not None:
        yield f"  keep rule {check.advised.falsifier}: not checked, both need kb profile"


def format_measured_difference(found: MeasuredDifference) -> Iterator[str]:
    """Yield in few lines what differs between two measurements besides their times."""
    attempts = found.attempts
    if attempts is not None:
        yield from _format_advice(attempts)
    for title, pairs in (("environment", found.environment), ("build", found.builds)):
        if pairs:
            told = (f"{name} {_show(old)} -> {_show(new)}" for name, (old, new) in pairs.items())
            yield f"{title}: {', '.join(told)}"
    if found.flags is not None:
        yield f"flags: {' '.join(found.flags[0]) or 'none'} -> {' '.join(found.flags[1]) or 'none'}"
    if attempts is None:
        if found.files:
            yield f"source: {', '.join(found.files)} differ; their text is not kept here"
        return
    yield from _format_code(attempts)
    if attempts.reports is not None:
        yield from format_report_comparison(attempts.reports)
    elif attempts.metrics:
        ranked = sorted(attempts.metrics.items(), key=lambda pair: -_measure_move(*pair[1]))
        moved = [f"{name} {old:.4g} -> {new:.4g}" for name, (old, new) in ranked[:_MAX_METRICS]]
        yield f"profiles: {', '.join(moved)}"
    yield from _format_short_diff(attempts)


def _show(value: float | str) -> str:
    return (value or "unknown") if isinstance(value, str) else f"{value:.6g}"


def _measure_move(old: float, new: float) -> float:
    return abs(new - old) / max(abs(old), abs(new))


def _format_code(found: AttemptDifference) -> Iterator[str]:
    if found.same_code:
        yield "machine code: the same"
    if found.counts:
        told = (f"{name} {old:.4g} -> {new:.4g}" for name, (old, new) in found.counts.items())
        yield f"instructions: {', '.join(told)}"


def _format_short_diff(found: AttemptDifference) -> Iterator[str]:
    """Yield the lines that changed, without those around them."""
    changed = [
        line
        for line in found.source
        if line.startswith(("+", "-", "@@"))
        and not line.startswith(("---", "+++ b/"))
        and line[1:].strip()
    ]
    names = [PurePath(line[6:]).name for line in found.source if line.startswith("+++ b/")]
    if not changed:
        yield "source: the same, or not kept here"
        return
    yield f"source: {', '.join(names)}"
    yield from (f"  {line[:_MAX_DIFF_CHARS]}" for line in changed[:_MAX_SHORT_DIFF])
    if len(changed) > _MAX_SHORT_DIFF:
        before, after = found.before.attempt.id[:ID_DIGITS], found.after.attempt.id[:ID_DIGITS]
        more = len(changed) - _MAX_SHORT_DIFF
        yield f"  ... {more} more lines: kb lab diff {before} {after}"


def format_restored(restored: RestoredAttempt) -> Iterator[str]:
    """Yield what was written, and where the state before is."""
    attempt = restored.attempt
    files = ", ".join(restored.written)
    mark = f", {IMPORTED}" if attempt.imported else ""
    yield (
        f"restored {attempt.id[:ID_DIGITS]}, {attempt.variant} of {attempt.kernel}{mark}: {files}"
        if files
        else f"{attempt.id[:ID_DIGITS]} is there already"
    )
    if restored.kept is not None:
        yield f"what was there is kept as {restored.kept[:ID_DIGITS]}"
    if restored.flags_differ:
        yield f"its flags were {' '.join(attempt.flags)}; kernel.yaml has others and stays"
    if restored.unrecorded is not None:
        yield f"not recorded: {restored.unrecorded}"


def build_log_object(log: AttemptLog) -> dict[str, Any]:
    """Return the attempts at a kernel as ``kb log --json`` prints them."""
    tree = log.tree
    return {
        "kernel": log.kernel,
        "total": log.total,
        "best": tree.best,
        "best_path": tree.list_path(tree.best),
        "workload": tree.place.workload if tree.place else None,
        "device": tree.place.device if tree.place else None,
        "seconds": round(tree.seconds, 3),
        "device_seconds": round(tree.device_seconds, 3),
        "stuck": _build_stuck_object(log.stuck) if log.stuck else None,
        "attempts": [
            {
                **_build_node_object(node),
                "said": node.said,
                "candidate_us": node.find_time_us(tree.place) if tree.place else None,
                "failure": node.failure,
                "outcome": node.outcome.model_dump(mode="json") if node.outcome else None,
            }
            for node in tree.nodes.values()
        ],
    }


def _build_node_object(node: AttemptNode) -> dict[str, Any]:
    return {**node.attempt.model_dump(mode="json"), "imported": node.is_imported}


def _build_stuck_object(stuck: Stuck) -> dict[str, Any]:
    return {
        "kind": stuck.kind,
        "because": stuck.because,
        "attempts": stuck.attempts,
        "cure": stuck.cure,
    }


def build_difference_object(found: AttemptDifference) -> dict[str, Any]:
    """Return two attempts side by side as ``kb lab diff --json`` prints them."""
    return {
        "before": _build_node_object(found.before),
        "after": _build_node_object(found.after),
        "comparison": found.comparison.model_dump(mode="json") if found.comparison else None,
        "same_code": found.same_code,
        "counts": found.counts,
        "metrics": found.metrics,
        "reports": found.reports,
        "flags": found.flags,
        "source": found.source,
        "advice": _build_advice_object(found.advice) if found.advice else None,
    }


def _build_advice_object(check: AdviceCheck) -> dict[str, Any]:
    return {**check._asdict(), "advised": check.advised.model_dump(mode="json")}


def build_measured_object(found: MeasuredDifference) -> dict[str, Any]:
    """Return what differs between two measurements as ``kb compare --json`` prints it."""
    attempts = build_difference_object(found.attempts) if found.attempts else None
    return {**found._asdict(), "attempts": attempts}


def build_restored_object(restored: RestoredAttempt) -> dict[str, Any]:
    """Return what was written back as ``kb lab restore --json`` prints it."""
    return {**restored._asdict(), "attempt": restored.attempt.model_dump(mode="json")}
