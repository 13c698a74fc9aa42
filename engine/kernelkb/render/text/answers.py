"""Text of an answer: its causes and where they lie, the next steps, and the symptoms of a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from kernelkb.decide.conditions import format_comparison
from kernelkb.errors import NextStep
from kernelkb.model.answers.next_step import (
    CallerEdit,
    FixEdit,
    KeepCondition,
    ToolCommand,
)
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.decide.symptoms import FirstError, LogExtent, SymptomMatch
    from kernelkb.model.answers.next_step import Step
    from kernelkb.model.answers.recommendation import (
        Advice,
        Diagnosis,
        Headroom,
        KernelAnswer,
        KernelFindings,
        LearnedFrom,
        Measure,
        NcuRuleEstimate,
        PredictedSpeedup,
        PrintedAnswer,
        PrintedRecommendation,
        Reason,
        Recommendation,
        Suppressed,
    )
    from kernelkb.model.answers.source_place import ChangePlace, CodePlace, LineAnswer, SourceLine

_MAX_TEXT_CHARS = 96
_WAITING = {
    "result": "waits for its result",
    "operands": "waits until it has read its operands, which it overwrites",
    "scoreboard": "may wait for it: they share a scoreboard, and no register",
}

_MAX_UNKNOWN_SHOWN = 4

_BAR_WIDTH = 20

_PEAK_SOURCES = {
    "measured": "practical peaks of this GPU",
    "catalogue": "practical peaks of the catalogue",
    "assumed": "assumed practical peaks",
}

_MAX_HYPOTHESES = 6
"""Most hypotheses named in one line of the metrics to measure."""


def describe_place(change: ChangePlace) -> str:
    """Return the file and line of a change, and what is there."""
    line = f" at line {change['line']}" if change["line"] else ""
    return f"{change['file']}{line} ({change['because']})"


def format_next_lines(change: ChangePlace | None, steps: Sequence[str]) -> Iterator[str]:
    """Yield where the change is made, then the steps, numbered."""
    yield from format_change_place(change)
    if steps:
        yield ""
        yield "Next"
        yield from (f"  {number}. {text}" for number, text in enumerate(steps, 1))


def format_change_place(change: ChangePlace | None) -> Iterator[str]:
    """Yield the place, the variants that exist, and which of them applies the fix already."""
    if change is None:
        return
    others = [name for name in change["variants"] if name != change["variant"]]
    known = f"; also {', '.join(others)}" if others else ""
    done = change["applied_by"]
    which = f"{done} applies {change['fix']}" if done else f"none applies {change['fix']} yet"
    yield ""
    yield "Where"
    yield f"  {describe_place(change)}"
    yield f"  this is {change['variant']}{known}; {which}"


def format_step(step: Step) -> str:
    """Return a step as a command that can be run as it is, or as a sentence."""
    if isinstance(step, NextStep):
        return step.as_shell_words()
    if isinstance(step, ToolCommand):
        return step.line
    if isinstance(step, FixEdit):
        return _format_edit(step)
    if isinstance(step, CallerEdit):
        return f"in the program that calls it, {step.fix}: {step.do}"
    if isinstance(step, KeepCondition):
        return f"keep it only if {step.expect}"
    return step.text


def _format_edit(edit: FixEdit) -> str:
    done = edit.place["applied_by"] if edit.place else None
    if done is not None:
        return f"{name_edit(edit)}: the variant {done} applies it already"
    return f"{name_edit(edit)}: {edit.do}"


def name_edit(edit: FixEdit) -> str:
    """Return the fix, and its file and line where the variant is to be changed there."""
    if edit.place is None or edit.place["applied_by"] is not None:
        return f"change one thing, {edit.fix}"
    return f"change one thing, {edit.fix}, in {describe_place(edit.place)}"


def format_steps(steps: Iterable[Step]) -> list[str]:
    """Return each step in words."""
    return [format_step(step) for step in steps]


def print_answer(answer: KernelAnswer) -> PrintedAnswer:
    """Return an answer as ``kb recommend --json`` prints it."""
    return {**answer, "next": format_steps(answer["next"])}


def print_recommendation(answer: Recommendation) -> PrintedRecommendation:
    """Return the answers of one call as ``kb recommend --json`` prints them."""
    return {
        "kernels": [print_answer(one) for one in answer["kernels"]],
        "knowledge": answer["knowledge"],
    }


def format_source_lines(answer: LineAnswer | None) -> Iterator[str]:
    """Yield the lines with share, text and instruction, or why there are none."""
    if answer is None:
        return
    if answer["reason"]:
        yield f"     no line: {answer['reason']}"
    for number, line in enumerate(answer["lines"]):
        yield f"     {'at' if not number else 'and'} {describe_line(line)}"
        yield from _format_code(line["at"])
        if line["waiting"] is not None and line["dependence"] is not None:
            waiting, word = line["waiting"], _WAITING[line["dependence"]]
            yield f"         line {waiting['line']} {word}"
            if waiting["line"] != line["at"]["line"]:
                yield from _format_code(waiting)


def describe_line(line: SourceLine) -> str:
    """Return where a line is and what it holds: ``naive.cu:17, 97 % of the excess sectors``."""
    at = line["at"]
    called = f", called at line {line['called_at']}" if line["called_at"] else ""
    told = f"{PurePath(at['file']).name}:{at['line']}{called}, {line['share']:.0%} of {line['of']}"
    if not line["samples"] or line["of"] == "the samples":
        return told
    stall = f" ({line['stall']})" if line["stall"] else ""
    return f"{told}, {line['samples']:.0%} of the samples{stall}"


def _format_code(place: CodePlace) -> Iterator[str]:
    if place["text"]:
        yield f"         {place['line']:>4} | {place['text'][:_MAX_TEXT_CHARS]}"
    if place["instruction"]:
        yield f"              {place['instruction'][:_MAX_TEXT_CHARS]}"


def describe_advice(answer: KernelFindings) -> str:
    """Return one sentence: the best diagnosis and its first fix, or the metrics to measure."""
    matches = _select_matches(answer)
    if not matches:
        if answer["gap"]:
            return answer["gap"]["because"]
        ask = ", ".join(row["metric"] for row in answer["measure_next"][:3])
        return f"no cause can be named yet; measure {ask}" if ask else "nothing known limits it"
    best = matches[0]
    if answer["gate"]["verdict"] == "stop":
        return f"{best['bottleneck']} (confidence {best['confidence']:.2f}), and no change yet"
    fix = best["fixes"][0]["id"] if best["fixes"] else "nothing"
    also = f"; also {', '.join(d['bottleneck'] for d in matches[1:])}" if matches[1:] else ""
    gain = _format_gain(best)
    return f"{best['bottleneck']} (confidence {best['confidence']:.2f}) -> {fix}{gain}{also}"


def format_answer_lines(answer: KernelAnswer) -> Iterator[str]:
    """Yield the whole answer, a line at a time: what was found, then the steps."""
    yield from format_findings(answer)
    yield from format_next_lines(answer["change"], format_steps(answer["next"]))


def format_findings(answer: KernelFindings) -> Iterator[str]:
    """Yield what was found, a line at a time: the verdict, the causes, then the evidence."""
    gate = answer["gate"]
    name = f"{answer['kernel']}: " if answer["kernel"] else ""
    yield f"{name}{gate['verdict'].upper()} ({gate['id']})"
    yield f"  {gate['because']}"
    yield from _format_headroom(answer["headroom"])
    yield from _format_at_most(answer)
    yield from (f"  note: {note}" for note in answer["notes"])
    yield from _format_diagnoses(answer)
    yield from _format_outlook(answer)
    yield from _format_time(answer)
    yield from _format_similar(answer)
    yield from _format_conclusions(answer)
    yield from _format_suppressed(answer["suppressed"])
    yield from _format_ncu_rules(answer["ncu_rules"])
    yield from _format_measure_next(answer["measure_next"])


def _format_ncu_rules(rules: Sequence[NcuRuleEstimate]) -> Iterator[str]:
    """Yield Nsight Compute's own estimates: whole-kernel rules first, then the largest share."""
    estimated = [(share, rule) for rule in rules if (share := rule["removes"])]
    if estimated:
        yield ""
        yield "Nsight Compute says"
    for share, rule in sorted(estimated, key=lambda row: (row[1]["scope"] != "kernel", -row[0])):
        percent = f"{100 * share:.3g} %"
        if rule["speedup"]:
            estimate = f"{percent} of the time, {rule['speedup']:.3g}x"
        else:
            estimate = f"{percent} of one unit's time"
        first_sentence = rule["says"].partition(". ")[0]
        yield f"  {rule['rule']}: {estimate}: {first_sentence}"


def _select_matches(answer: KernelFindings) -> list[Diagnosis]:
    return [d for d in answer["diagnoses"] if d["verdict"] == "matches"]


def _format_gain(diagnosis: Diagnosis) -> str:
    gain = diagnosis["predicted_speedup"]
    return f", predicted {format_speedup(gain)}" if gain else ""


def format_speedup(gain: PredictedSpeedup) -> str:
    """Return a speedup with its interval: ``1.4x [1.2, 1.5]``."""
    return f"{gain['point']:.3g}x [{gain['low']:.3g}, {gain['high']:.3g}]"


def _format_calibration(learned: LearnedFrom | None) -> Iterator[str]:
    if learned:
        left = learned["session_count"] - len(learned["sessions"])
        more = f" and {left} more" if left else ""
        yield (
            f"     learned on {learned['architecture']}: {learned['fix']} gives "
            f"{learned['calibration']:.3g} of its estimate, {learned['prior']:.3g} before any case "
            f"({learned['count']:.3g} measured: {', '.join(learned['sessions'])}{more})"
        )


def _format_headroom(room: Headroom | None) -> Iterator[str]:
    if room:
        bound = f" by {room['bound']}" if room["bound"] else ""
        floor, measured = format_duration(room["floor_us"]), format_duration(room["measured_us"])
        yield (
            f"  floor {floor}{bound}, measured {measured}: "
            f"at most {room['attainable_speedup']:.3g}x faster"
        )


def _format_at_most(answer: KernelFindings) -> Iterator[str]:
    if answer["at_most"] is not None:
        yield f"  everything: at most about {answer['at_most']:.3g}x, from the counters alone"
    if answer["gap"]:
        yield f"  {answer['gap']['because']}"


def _format_time(answer: KernelFindings) -> Iterator[str]:
    """Yield where the time goes, one bar for each part, and the peaks behind it."""
    peaks = answer["peaks"]
    if peaks:
        yield ""
        shares = f"memory {100 * peaks['dram']:.3g} %, L2 {100 * peaks['l2']:.3g} % of the peak"
        yield f"Where the time goes ({_PEAK_SOURCES[peaks['source']]}: {shares})"
    for row in answer["time"]:
        filled = round(row["share"] * _BAR_WIDTH)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        yield f"  {row['title']:32} {bar} {100 * row['share']:5.1f} %"


def _format_outlook(answer: KernelFindings) -> Iterator[str]:
    """Yield flaws that hide each other, and what binds after the first fix."""
    joint, chain = answer["joint"], answer["chain"]
    if joint or len(chain) > 1:
        yield ""
    if joint:
        alone = " and ".join(
            f"{part} ({speedup:.3g}x alone)"
            for part, speedup in zip(joint["parts"], joint["alone"], strict=True)
        )
        yield f"Together {format_speedup(joint['predicted_speedup'])}: {alone}"
    if len(chain) > 1:
        yield f"After {chain[0]['fix']} ({chain[0]['total_speedup']:.3g}x)"
    for step in chain[1:]:
        yield (
            f"  {step['bottleneck']} binds: {step['fix']} gives {step['step_speedup']:.3g}x more, "
            f"{step['total_speedup']:.3g}x in all"
        )


def _format_conclusions(answer: KernelFindings) -> Iterator[str]:
    conclusions = answer["conclusions"]
    if conclusions["can"] or conclusions["cannot"]:
        yield ""
        yield f"Evidence {answer['evidence_level']}"
        yield from (f"  can say: {text}" for text in conclusions["can"])
        yield from (f"  cannot say: {text}" for text in conclusions["cannot"])


def _format_diagnoses(answer: KernelFindings) -> Iterator[str]:
    matches, is_stopped = _select_matches(answer), answer["gate"]["verdict"] == "stop"
    unknown = [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "unknown"]
    yield ""
    if not matches:
        yield f"No cause can be named from these numbers{_describe_largest_part(answer)}."
    for number, diagnosis in enumerate(matches, 1):
        confidence = f"confidence {diagnosis['confidence']:.2f}"
        yield f"{number}. {diagnosis['bottleneck']}, {confidence}{_format_gain(diagnosis)}"
        yield from format_source_lines(diagnosis["lines"])
        yield from _format_calibration(diagnosis["learned"])
        yield from (f"     because {_format_reason(r)}" for r in diagnosis["because"])
        yield from (f"     not {r['bottleneck']}: {r['because']}" for r in diagnosis["ruled_out"])
        yield from _format_fixes(diagnosis["fixes"], is_stopped=is_stopped)
        if diagnosis["falsifier"] and not is_stopped:
            yield f"     revert unless {diagnosis['falsifier']['expect']}"
    if unknown:
        left = answer["open_count"] - len(unknown[:_MAX_UNKNOWN_SHOWN])
        more = f" and {left} more" if left else ""
        yield f"Still possible: {', '.join(unknown[:_MAX_UNKNOWN_SHOWN])}{more}"


def _format_similar(answer: KernelFindings) -> Iterator[str]:
    if answer["similar"]:
        yield ""
        yield "Kernels like this one, and what helped them"
        for case in answer["similar"]:
            what = f"{case['fix']} {case['speedup']:.3g}x ({case['bottleneck']})"
            yield f"  {case['kernel']}, {case['operation']}, {case['device']}: {what}"


def _format_reason(reason: Reason) -> str:
    comparison = format_comparison(reason["metric"], reason["value"], reason["op"], reason["limit"])
    return f"{comparison} ({reason['source']})"


def _format_fixes(fixes: Sequence[Advice], *, is_stopped: bool) -> Iterator[str]:
    if is_stopped and fixes:
        yield f"     not yet, see Next: {', '.join(map(_name_fix, fixes))}"
    for fix in fixes[:1] if not is_stopped else ():
        gain = fix["predicted_speedup"]
        told = f", {format_speedup(gain)}" if gain else ""
        yield f"     fix {fix['id']}{told}: {fix['do']}"
        if fix["on_line"]:
            yield f"         {fix['on_line']}"
        yield f"         before {fix['before']}   after {fix['after']}"
        yield f"         {_describe_measured(fix)}"
        if fix["tried"]:
            yield f"         {fix['tried']}"
        cost = f"about {fix['cost_min']} min, risk {fix['risk']}"
        yield f"         {cost}{'; not when ' + fix['when_not'] if fix['when_not'] else ''}"
    if fixes[1:] and not is_stopped:
        yield f"     then {', '.join(map(_name_fix, fixes[1:]))}"


def _name_fix(fix: Advice) -> str:
    return f"{fix['id']} ({fix['tried']})" if fix["tried"] else fix["id"]


def _describe_largest_part(answer: KernelFindings) -> str:
    """Return where most of the time goes, for an answer without a cause."""
    parts = answer["time"]
    if not parts:
        return ""
    largest = max(parts, key=lambda part: part["share"])
    return f"; the largest part of the time is {largest['title']}, {largest['share']:.0%}"


def _describe_measured(fix: Advice) -> str:
    """Return what a fix gave in measured pairs of kernels, for this cause or else for others."""
    found = fix["measured"]
    if found is None:
        return "no measured case"
    cause = "for this cause" if found["bottleneck"] else "for other causes"
    if found["count"] == 1:
        return f"measured once {cause}: {found['median']:.3g}x"
    span = f"{found['lowest']:.3g}x to {found['highest']:.3g}x"
    return f"measured {found['count']} times {cause}: median {found['median']:.3g}x, {span}"


def _format_suppressed(rows: Sequence[Suppressed]) -> Iterator[str]:
    """Yield the suppressed advice, one line for each guard."""
    guards: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        what = f"{row['fix']} for {row['bottleneck']}" if row["fix"] else row["bottleneck"]
        guards.setdefault((row["guard"], row["because"]), []).append(what)
    if guards:
        yield ""
        yield "Suppressed"
    for (guard, because), names in guards.items():
        yield f"  {', '.join(names)} ({guard}): {because}"


def _format_measure_next(rows: Sequence[Measure]) -> Iterator[str]:
    """Yield the metrics to collect, each command once."""
    commands: dict[str, list[Measure]] = {}
    for row in rows:
        commands.setdefault(row["command"], []).append(row)
    if commands:
        yield ""
        yield "Measure next"
    for command, metrics in commands.items():
        separates = list(dict.fromkeys(name for row in metrics for name in row["separates"]))
        more = (
            f" and {len(separates) - _MAX_HYPOTHESES} more"
            if len(separates) > _MAX_HYPOTHESES
            else ""
        )
        about = f": decides {', '.join(separates[:_MAX_HYPOTHESES])}{more}" if separates else ""
        yield f"  {', '.join(row['metric'] for row in metrics)}{about}"
        yield f"    $ {command}"


def format_diagnosis_lines(
    matches: list[SymptomMatch], error: FirstError | None, read: LogExtent, source: str
) -> Iterator[str]:
    """Yield the symptoms; where none is an error the first error line; then what was read.

    Args:
        matches: The symptoms in the log.
        error: Its first error line.
        read: How much of it was read.
        source: The file, or ``stdin``.
    """
    yield from format_symptom_lines(matches)
    if error and not any(row["severity"] == "error" for row in matches):
        yield f"first error (line {error['line']}): {error['said']}"
    elif not matches:
        yield "no line reports an error"
    yield _format_extent(read, source)


def format_symptom_lines(matches: list[SymptomMatch]) -> Iterator[str]:
    """Yield one block of lines for each symptom, with an empty line in between."""
    for position, row in enumerate(matches):
        if position:
            yield ""
        times = f", {row['times']} times" if row["times"] > 1 else ""
        warning = "" if row["severity"] == "error" else "warning, "
        yield f"{row['symptom']}: {row['title']} ({warning}line {row['line']}{times})"
        yield f"  said: {row['said']}"
        yield from (f"  {name}: {value}" for name, value in row["captured"].items())
        yield f"  cause: {row['cause']}"
        if row["note"]:
            yield f"  note: {row['note']}"
        yield f"  cure: {row['cure']}"
        yield f"  check: {row['check']}"
        if row["fixes"]:
            yield f"  fixes: {', '.join(row['fixes'])}"
        if row["pattern"]:
            yield f"  pattern: {row['pattern']}"
    if not matches:
        yield "no known symptom; kb show symptoms lists the known ones"


def _format_extent(read: LogExtent, source: str) -> str:
    lines = f"{read['lines']:,} line{'' if read['lines'] == 1 else 's'}"
    if skipped := read["skipped_characters"]:
        return f"read {source}: {lines}, without {skipped:,} characters in the middle"
    return f"read {source}: {lines}"
