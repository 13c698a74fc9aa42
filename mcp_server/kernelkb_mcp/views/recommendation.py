"""Fit a recommendation or the causes of a log into one MCP answer, with the next calls."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver.exceptions import ToolError

from kernelkb.errors import KbError, NextStep
from kernelkb.model.answers.next_step import FixEdit, Sentence, ToolCommand
from kernelkb.render.text.answers import keep_first_line
from kernelkb.render.text.calculators import format_what_if_lines
from kernelkb.render.text.reports import (
    format_program_lines,
    format_report_table,
    print_program,
)
from kernelkb.render.text.steps import format_step, name_edit, print_answer
from kernelkb_mcp.views.next_call import format_offered_call
from kernelkb_mcp.views.paginate import MAX_ANSWER_BYTES, json_size, paginate

if TYPE_CHECKING:
    from kernelkb.decide.symptoms import PossibleEntry
    from kernelkb.model.answers.next_step import Step
    from kernelkb.model.answers.recommendation import (
        KernelAnswer,
        ProgramAnswer,
        Recommendation,
    )

_IN_PROGRAMS = ("device", "gate", "chain", "at_most", "time", "diagnoses", "notes")
"""Fields of a kernel's answer that the answer for a program repeats."""
_LEFT_OUT_OF_CAUSES = ("group", "verdict", "ruled_out", "learned")
_RESERVED_BYTES = 1200
"""Bytes reserved for summary, list of omissions and next calls."""
_BRIEF_LIMITS = {"matches": 1, "unknown": 0, "ncu_rules": 0, "suppressed": 0, "measure_next": 1}
"""Maximum items per field of a short answer."""
_BRIEF_LISTS = {"time": 3, "similar": 0}
"""The same for fields that are whole in a long one."""
_TRIM_ORDER = (
    ("unknown", 0),
    ("ncu_rules", 2),
    ("measure_next", 1),
    ("matches", 1),
)
"""Fields that are trimmed to fit, in this order, and the items that stay."""
_TRIM_LAST = (
    ("ncu_rules", 0),
    ("suppressed", 1),
    ("notes", 2),
)
"""The same, after the last fixes of the first match."""
_LIST_FIELDS = ("ncu_rules", "measure_next", "suppressed", "notes")
_MIN_FIXES = 3
_MAX_TEXT_CHARS = 300
_NUMBERS_NEEDED = (
    "the command of measure_next, run on your program; recommend_fix(profile=PATH) reads its "
    "report, recommend_fix(metrics=...) takes its numbers"
)
_KERNEL_NEEDED = (
    "the kernel in this project, which build_kernel(kernel=NAME, file=PATH) sets up from its source"
)
_SHORTENED = "the first cause and change only; everything=True tells the rest"
_MAX_ROWS = 20
"""Kernels in the table."""
_CHANGE_NEEDED = "new numbers after the change, for recommend_fix"


def build_recommend_fields(
    answer: Recommendation,
    source_argument: str,
    tools: Collection[str],
    *,
    everything: bool = False,
) -> dict[str, Any]:
    """Return the fields of a ``RecommendResult``: of the longest kernel, and a row for each.

    Args:
        answer: The engine's recommendation, longest kernel first.
        source_argument: The argument that named the source, such as ``profile='x.csv'``; may be
            empty.
        tools: Names of the offered tools.
        everything: Of the longest, also the evidence and the other causes and fixes, as far as
            there is room; else the first cause and its first fix.
    """
    count, first = len(answer["kernels"]), answer["kernels"][0]
    table = list(format_report_table(answer["kernels"][:_MAX_ROWS])) if count > 1 else []
    room = MAX_ANSWER_BYTES - _RESERVED_BYTES - json_size(answer["knowledge"]) - json_size(table)
    shown, more = _fit_kernel(print_answer(first), room, is_brief=not everything)
    if count > 1:
        source = source_argument if len(source_argument) < _MAX_TEXT_CHARS else "profile=..."
        more.append(f"the other kernels: recommend_fix({source}, kernel='regex') asks for one")
    more += [] if everything else [_SHORTENED]
    return {
        "summary": _clip_texts(_summarize_kernel(first, count)),
        "table": table,
        "kernels": [shown],
        "symptoms": [],
        "log": None,
        "more": more,
        "next": _list_next_calls(first, tools),
        "needs": _describe_needs(first),
        "knowledge": answer["knowledge"],
    }


def build_what_if_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a ``RecommendResult`` for a change of a launch; ``table`` has its lines.

    Args:
        answer: Of ``kernelkb.actions.advice.recommend_report.predict_report_change``.
    """
    lines = list(format_what_if_lines(answer))
    time = answer["time"]
    factor = ""
    if time:
        ends = f"not known, {time['low']:.2g} to {time['high']:.2g}"
        told = ends if time["factor"] is None else f"{time['factor']:.3g}"
        factor = f": {told}x its time, {time['verdict']}"
    return {
        "summary": f"{lines[0]}{factor}",
        "table": [line.strip() for line in lines[1:]],
        "kernels": [],
        "symptoms": [],
        "log": None,
        "more": [],
        "next": [],
        "needs": None if answer["obstacles"] else "the change made, and a report of it",
        "knowledge": answer["knowledge"],
    }


def build_program_fields(answer: ProgramAnswer, tools: Collection[str]) -> dict[str, Any]:
    """Return what a ``ProfileResult`` says of a program: summary, program and next.

    Args:
        answer: What its runs have shown.
        tools: Names of the offered tools.
    """
    whole = print_program(answer)
    shown = {
        **whole,
        "output": whole["output"][-_MAX_TEXT_CHARS:],
        "program": _make_brief(whole["program"]) if whole["program"] else None,
        "kernels": [
            {**one, "answer": _make_brief(one["answer"]) if one["answer"] else None}
            for one in whole["kernels"]
        ],
    }
    lines = itertools.takewhile(bool, format_program_lines(answer))
    first = answer["first"]
    said = f" First: {first['what']}, {first['because']}." if first else ""
    return {
        "summary": f"{'; '.join(line.strip() for line in lines)}.{said}",
        "program": shown,
        "next": _list_calls_after_program(answer, tools),
    }


def _make_brief(kernel: Mapping[str, Any]) -> dict[str, Any]:
    """Return a kernel's answer with its first cause and change, without what names no place."""
    brief, _ = _fit_kernel(kernel, MAX_ANSWER_BYTES, is_brief=True)
    causes = [
        {name: value for name, value in one.items() if name not in _LEFT_OUT_OF_CAUSES}
        for one in brief["diagnoses"]
    ]
    kept = {**brief, "diagnoses": causes}
    return {name: kept[name] for name in _IN_PROGRAMS if kept[name] not in (None, [], {})}


def _list_calls_after_program(answer: ProgramAnswer, tools: Collection[str]) -> tuple[str, ...]:
    """Return the calls that say more of what comes first, or of what the log tells."""
    first, answers = answer["first"], [one["answer"] for one in answer["kernels"]]
    if answer["status"]:
        return ("correct what output says; recommend_fix(log=...) takes its text",)
    of_first = [
        one["answer"] for one in answer["kernels"] if first and one["kernel"] == first["kernel"]
    ]
    chosen = next((one for one in (*of_first, answer["program"], *answers) if one), None)
    return tuple(_list_next_calls(chosen, tools)) if chosen else tuple(answer["notes"])


def _fit_kernel(
    kernel: Mapping[str, Any], max_bytes: int, *, is_brief: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return a kernel's answer trimmed to ``max_bytes`` if possible, and what was omitted."""
    if is_brief:
        cut = {name: kernel[name][:most] for name, most in _BRIEF_LISTS.items()}
        kernel = {**kernel, **cut, "conclusions": {"can": [], "cannot": []}}
    matches = [d for d in kernel["diagnoses"] if d["verdict"] == "matches"]
    unknown = [d for d in kernel["diagnoses"] if d["verdict"] != "matches"]
    whole = {"matches": matches, "unknown": unknown} | {name: kernel[name] for name in _LIST_FIELDS}
    most = _BRIEF_LIMITS if is_brief else {}
    parts = {name: list(items)[: most.get(name)] for name, items in whole.items()}
    if is_brief:
        parts["matches"] = [
            {**d, "fixes": d["fixes"][:1], "ruled_out": [], "lines": keep_first_line(d["lines"])}
            for d in parts["matches"]
        ]
    used = json_size(_assemble_kernel(kernel, parts, whole))
    used -= _trim(parts, _TRIM_ORDER, used - max_bytes)
    omissions = []
    if used > max_bytes and parts["matches"]:
        first = parts["matches"][0]
        parts["matches"][0] = cut = _drop_last_fixes(first, used - max_bytes)
        used -= json_size(first) - json_size(cut)
        omissions.append(f"fixes: {len(cut['fixes'])} of {len(first['fixes'])}")
    used -= _trim(parts, _TRIM_LAST, used - max_bytes)
    fitted = _assemble_kernel(kernel, parts, whole)
    omissions += [
        f"{name}: {len(parts[name])} of {len(whole[name])}"
        for name in _LIST_FIELDS
        if not is_brief and len(parts[name]) < len(whole[name])
    ]
    return (_clip_texts(fitted) if used > max_bytes else fitted), omissions


def _trim(
    parts: Mapping[str, list[Any]], order: Sequence[tuple[str, int]], excess_bytes: int
) -> int:
    """Remove the last items of fields until enough bytes are gone; return how many are."""
    saved = 0
    for name, fewest in order:
        while len(parts[name]) > fewest and saved < excess_bytes:
            removed = parts[name].pop()
            saved += json_size(removed) + 1
            if name in ("matches", "unknown"):
                saved -= json_size(removed["bottleneck"]) + 1
    return saved


def _drop_last_fixes(diagnosis: Mapping[str, Any], excess_bytes: int) -> dict[str, Any]:
    """Return a diagnosis without its last fixes, as many as it takes; the first few stay."""
    fixes = list(diagnosis["fixes"])
    while excess_bytes > 0 and len(fixes) > _MIN_FIXES:
        excess_bytes -= json_size(fixes.pop()) + 1
    return {**diagnosis, "fixes": fixes}


def _assemble_kernel(
    kernel: Mapping[str, Any], parts: Mapping[str, list[Any]], whole: Mapping[str, list[Any]]
) -> dict[str, Any]:
    others = {name: items for name, items in parts.items() if name not in ("matches", "unknown")}
    return {
        **kernel,
        **others,
        "diagnoses": [*parts["matches"], *parts["unknown"]],
        "also_matches": [d["bottleneck"] for d in whole["matches"][len(parts["matches"]) :]],
        "also_possible": [d["bottleneck"] for d in whole["unknown"][len(parts["unknown"]) :]],
    }


def _clip_texts(value: Any) -> Any:
    """Shorten every long text: names of template instances can take kilobytes."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT_CHARS else f"{value[:_MAX_TEXT_CHARS]}…"
    if isinstance(value, dict):
        return {name: _clip_texts(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clip_texts(inner) for inner in value]
    return value


def _summarize_kernel(kernel: KernelAnswer, count: int) -> str:
    gate = kernel["gate"]
    best = next((d for d in kernel["diagnoses"] if d["verdict"] == "matches"), None)
    summary = f"{gate['verdict']}: {gate['because']}"
    if best is None and gate["verdict"] != "done":
        summary += f" No cause can be named yet; {kernel['open_count']} are possible."
    elif best is not None:
        summary += f" Limited by {best['bottleneck']} (confidence {best['confidence']:.2f})"
        for line in (best["lines"] or {"lines": []})["lines"][:1]:
            summary += f" at {PurePath(line['at']['file']).name}:{line['at']['line']}"
        gain = best["predicted_speedup"]
        edit = next((step for step in kernel["next"] if isinstance(step, FixEdit)), None)
        summary += f"; fix {edit.fix}" if edit else ""
        if gain:
            summary += (
                f", predicted {gain['point']:.3g}x of the kernel's time"
                f" [{gain['low']:.3g}, {gain['high']:.3g}]"
            )
        summary += "."
    return f"{summary} The longest of {count} kernels." if count > 1 else summary


def _list_next_calls(kernel: KernelAnswer, tools: Collection[str]) -> list[str]:
    """Return the next steps in their order: exact calls, and what is to be edited between them."""
    steps = [one for one in kernel["next"] if not (isinstance(one, Sentence) and one.needs)]
    if kernel["change"] and "build_kernel" in tools:
        steps = [one for one in steps if isinstance(one, NextStep) or _is_open_edit(one)]
    calls = [_format_next(one, tools) for one in steps]
    is_shell_only = not any(isinstance(one, NextStep) and _offers(one, tools) for one in steps)
    if is_shell_only and kernel["diagnoses"]:
        calls.append(f"read_entry(id={kernel['diagnoses'][0]['bottleneck']!r})")
    return calls


def _is_open_edit(step: Step) -> bool:
    """Return whether a step is an edit at a place that no variant has made yet."""
    return isinstance(step, FixEdit) and step.place is not None and not step.place["applied_by"]


def _offers(step: NextStep, tools: Collection[str]) -> bool:
    return format_offered_call(step, tools) is not None


def _format_next(step: Step, tools: Collection[str]) -> str:
    if isinstance(step, NextStep):
        return format_offered_call(step, tools) or f"in a shell: {format_step(step)}"
    if isinstance(step, ToolCommand):
        return f"in a shell: {format_step(step)}"
    return name_edit(step) if isinstance(step, FixEdit) and step.place else format_step(step)


def _describe_needs(kernel: KernelAnswer) -> str | None:
    """Return what only the caller can bring before this kernel is asked about again."""
    steps = kernel["next"]
    needs = [step.needs for step in steps if isinstance(step, Sentence)]
    if "source" in needs:
        return _KERNEL_NEEDED
    if "numbers" in needs or any(isinstance(one, ToolCommand) and one.verb for one in steps):
        return _NUMBERS_NEEDED
    is_loose = any(isinstance(one, FixEdit) and one.place is None for one in steps)
    return _CHANGE_NEEDED if is_loose else None


_MAX_LOG_BYTES = 64 * 2**20
_LOG_RESERVED_BYTES = 1500
"""Bytes reserved for everything but the symptoms."""
_LIST_OF_SYMPTOMS = ("kb show symptoms", "read_entry(id='symptoms')")
_WORDS_NEEDED = "words of the first error, for search_knowledge(query=...)"
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err")


def diagnose_log_text(log: str, gpu: str | None) -> dict[str, Any] | None:
    """Return the fields of a ``RecommendResult`` for a log; None: it is a profile, no log.

    Args:
        log: The text of a log, or the path of one.
        gpu: Any name of the GPU that the program was built for, or None.

    Raises:
        ToolError: A path of no file.
        ForbiddenPathError: The path leads out of the workspace.
        UnknownNameError: No such GPU.
    """
    from kernelkb.actions.advice.calculators import diagnose_log
    from kernelkb.actions.knowledge.search import find_possible_entries
    from kernelkb.profiles.report import holds_report
    from kernelkb.render.text.calculators import format_diagnosis_lines

    text = _read_log(log)
    found = diagnose_log(text, gpu, apart=True)
    if not found["symptoms"] and holds_report(text):
        return None
    symptoms = [dict(one) for one in found["symptoms"]]
    room = MAX_ANSWER_BYTES - _LOG_RESERVED_BYTES - json_size(found["knowledge"])
    shown = paginate(symptoms, 0, room).value
    left = len(symptoms) - len(shown)
    perhaps = find_possible_entries(found["symptoms"], found["first_error"])
    said = found["first_error"], found["read"], "log", perhaps
    lines = format_diagnosis_lines(found["symptoms"], *said)
    first = "; ".join(list(lines)[: 1 if symptoms else None]).replace(*_LIST_OF_SYMPTOMS)
    return {
        "summary": f"{first}; cure: {symptoms[0]['cure']}" if symptoms else first,
        "table": [],
        "kernels": [],
        "symptoms": shown,
        "log": {"first_error": found["first_error"], "read": found["read"]},
        "more": [f"{left} of {len(symptoms)} symptoms further on in the log"] if left else [],
        "next": _list_calls_after_log(symptoms, perhaps),
        "needs": None if symptoms else _WORDS_NEEDED,
        "knowledge": found["knowledge"],
    }


def _list_calls_after_log(
    symptoms: list[dict[str, Any]], perhaps: list[PossibleEntry]
) -> list[str]:
    if not symptoms:
        return [f"read_entry(id={entry['id']!r})" for entry in perhaps]
    entries = [symptoms[0]["symptom"], *symptoms[0]["fixes"][:1]]
    return [f"read_entry(id={entry!r})" for entry in entries]


def _read_log(log: str) -> str:
    from kernelkb.safety.workspace import read_bytes

    if "\n" in log or not _names_file(log):
        return log
    try:
        return read_bytes(log, _MAX_LOG_BYTES).decode("utf-8", errors="replace")
    except KbError:
        raise
    except OSError as error:
        message = f"cannot read {log}: {error.strerror}; log takes a path or the text itself"
        raise ToolError(message) from error


def _names_file(log: str) -> bool:
    """Return whether one line is the path of a file, or can be nothing else."""
    try:
        is_file = Path(log).is_file()
    except OSError:  # too long for a name
        return False
    return is_file or (" " not in log.strip() and log.strip().endswith(_LOG_SUFFIXES))
