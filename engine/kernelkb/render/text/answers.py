"""Text of an answer: its causes and where they lie, the next steps, and the symptoms of a log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from kernelkb.decide.conditions import format_comparison
from kernelkb.decide.diagnose import LEAST_SURE
from kernelkb.model.answers.next_step import FixEdit, Sentence
from kernelkb.render.text.steps import format_next_lines, format_step, format_steps
from kernelkb.units import format_duration, format_size

if TYPE_CHECKING:
    from kernelkb.model.answers.next_step import Step
    from kernelkb.model.answers.recommendation import (
        Advice,
        Diagnosis,
        Finish,
        Headroom,
        KernelAnswer,
        KernelFindings,
        KernelTimeline,
        LearnedFrom,
        Measure,
        NcuRuleEstimate,
        PredictedSpeedup,
        Reason,
        Suppressed,
    )
    from kernelkb.model.answers.source_place import (
        AccessedLine,
        CodePlace,
        LineAnswer,
        SourceLine,
    )

_MAX_TEXT_CHARS = 96
_WAITING = {
    "result": "waits for its result",
    "operands": "waits until it has read its operands, which it overwrites",
    "scoreboard": "may wait for it: they share a scoreboard, and no register",
}

_MAX_UNKNOWN_SHOWN = 4

_BAR_WIDTH = 20
_LEAST_TAIL, _LEAST_LOST = 0.05, 0.01
"""Of a kernel's time that SMs without blocks cost: told in a short answer, and at all."""

_PEAK_SOURCES = {
    "measured": "practical peaks of this GPU",
    "catalogue": "practical peaks of the catalogue",
    "assumed": "assumed practical peaks",
}

_TEMPLATE_KERNELS = ("Kernel", "Kernel2", "device_kernel")
"""Functions of CUTLASS that run what their template argument names."""
_INSTANCE_NAME = re.compile(r"[^<]{0,200}<(?:\w+::){0,9}(?P<what>\w{1,200})")
_TEMPLATE = re.compile(r"<[^<>]*>")

_LEVELS = (("dram_read", "DRAM read"), ("dram_write", "written"), ("l2", "L2"))
_CEILINGS = {"tensor": "tensor pipe", "launch": "time of an empty kernel"}
_FINISHES = {
    "stop": "finished: stop",
    "stop-if": "finished, stop",
    "open": "not known to be finished",
}
_LINE_WIDTH = 100

_MAX_NOTES = 2
_MIN_ADDED = 1.1
"""Factor between two gains from which the larger one is worth a line."""
_MAX_REASONS = 3
_MAX_HYPOTHESES = 6
"""Most hypotheses named in one line of the metrics to measure."""


def format_source_lines(answer: LineAnswer | None) -> Iterator[str]:
    """Yield the lines with share, text and instruction, or why there are none."""
    if answer is None:
        return
    if answer["reason"]:
        yield f"     no line: {answer['reason']}"
    for number, line in enumerate(answer["lines"]):
        yield f"     {'at' if not number else 'and'} {describe_line(line)}"
        if line["called_at"]:
            yield from _format_code({**line["called_at"], "instruction": ""})
        yield from _format_code(line["at"])
        if line["pattern"]:
            yield f"              {line['pattern']}"
        if line["waiting"] is not None and line["dependence"] is not None:
            waiting, word = line["waiting"], _WAITING[line["dependence"]]
            yield f"         line {waiting['line']} {word}"
            if waiting["line"] != line["at"]["line"]:
                yield from _format_code(waiting)


def describe_line(line: SourceLine) -> str:
    """Return where a line is and what it holds: ``naive.cu:17, 97 % of the excess sectors``."""
    inner, call = line["at"], line["called_at"]
    at = call or inner
    where = f"{PurePath(at['file']).name}:{at['line']}"
    if call:
        file = f" of {PurePath(inner['file']).name}" if inner["file"] != call["file"] else ""
        where += f" (in it, line {inner['line']}{file})"
    told = f"{where}, {line['share']:.0%} of {line['of']}"
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
    if answer["gate"]["verdict"] == "stop" or best["confidence"] < LEAST_SURE:
        return f"{best['bottleneck']} (confidence {best['confidence']:.2f}), and no change yet"
    fix = best["fixes"][0]["id"] if best["fixes"] else "nothing"
    also = f"; also {', '.join(d['bottleneck'] for d in matches[1:])}" if matches[1:] else ""
    gain = _format_gain(best)
    return f"{best['bottleneck']} (confidence {best['confidence']:.2f}) -> {fix}{gain}{also}"


def format_answer_lines(answer: KernelAnswer, *, everything: bool = False) -> Iterator[str]:
    """Yield an answer, a line at a time: what was found, then the steps.

    Args:
        answer: Of one kernel.
        everything: Also the evidence, the other causes, and where the time goes.
    """
    if everything:
        yield from format_findings(answer)
        yield from format_next_lines(answer["change"], format_steps(answer["next"]))
    else:
        yield from format_brief(answer, answer["next"])


def format_brief(answer: KernelFindings, steps: Sequence[Step] = ()) -> Iterator[str]:
    """Yield what decides: the verdict, the first cause and its line, then the steps.

    Args:
        answer: Of one kernel.
        steps: What to do, in order.
    """
    gate, matches = answer["gate"], _select_matches(answer)
    name = f"{shorten_name(answer['kernel'])}: " if answer["kernel"] else ""
    yield f"{name}{gate['verdict'].upper()} ({gate['id']})"
    yield f"  {gate['because']}"
    yield from format_finish(answer["finish"]) or _format_headroom(answer["headroom"])
    yield from _format_gap(answer)
    yield from _limit([f"  note: {note}" for note in answer["notes"]], _MAX_NOTES)
    is_open = not matches and gate["verdict"] != "done"
    yield from _format_first_cause(answer, matches) if matches or is_open else ()
    if is_open or any(isinstance(one, Sentence) and one.needs == "numbers" for one in steps):
        yield from _format_measure_next(answer["measure_next"][:1])
    if steps:
        yield "Next"
    first = matches[0]["fixes"][0] if matches and matches[0]["fixes"] else None
    for number, step in enumerate(steps, 1):
        yield f"  {number}. {format_step(step)}"
        if isinstance(step, FixEdit) and first is not None and step.fix == first["id"]:
            yield from _format_change(first)
            if (gap := answer["gap"]) and first["id"] in gap["fixes"]:
                yield from (f"       - {way}" for way in gap["steps"])


def _limit(lines: Sequence[str], count: int) -> Iterator[str]:
    """Yield the first lines, and how many there are more."""
    yield from lines[:count]
    if (more := len(lines) - count) > 0:
        yield f"  and {more} more"


def _format_first_cause(answer: KernelFindings, matches: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield the first cause with its line, what binds after its change, and other causes."""
    if not matches:
        yield f"No cause can be named from these numbers{_describe_largest_part(answer)}."
        return
    first, chain, joint = matches[0], answer["chain"], answer["joint"]
    yield f"{first['bottleneck']}, confidence {first['confidence']:.2f}{_format_gain(first)}"
    if because := list(map(_compare_reason, _choose_reasons(first["because"]))):
        yield f"  because {', '.join(because)}"
    yield from format_source_lines(keep_first_line(first["lines"]))
    timeline = answer["timeline"]
    if timeline and (timeline["lost_us"] or 0.0) >= _LEAST_TAIL * timeline["duration_us"]:
        yield f"  {_describe_tail(timeline)}"
    together, alone = joint and joint["predicted_speedup"], first["predicted_speedup"]
    if joint and together and not (alone and together["point"] < _MIN_ADDED * alone["point"]):
        yield f"  if {joint['parts'][1]} as well: {format_speedup(together)}"
    is_told = answer["gate"]["verdict"] != "stop" and first["confidence"] >= LEAST_SURE
    if len(chain) > 1 and is_told:
        then = chain[1]
        yield (
            f"  then {then['bottleneck']} binds: {then['fix']}, {then['step_speedup']:.3g}x more"
        )
    told = {first["bottleneck"], *(step["bottleneck"] for step in chain[:2])}
    if others := [d["bottleneck"] for d in matches[1:] if d["bottleneck"] not in told]:
        yield f"  also {', '.join(others)}"


def _choose_reasons(reasons: Sequence[Reason]) -> list[Reason]:
    """Return the first reasons that say most: not that something is there at all, each once."""
    by_metric = {one["metric"]: one for one in reversed(reasons) if one["limit"]}
    chosen = [one for one in reasons if by_metric.get(one["metric"]) == one]
    told = [one for one in reasons if one.get("input")][:1]
    return [*told, *(one for one in chosen or reasons if one not in told)][:_MAX_REASONS]


def _format_change(fix: Advice) -> Iterator[str]:
    """Yield a change on its line, or as code before and after it; then what it gave and costs."""
    edit = fix["on_line"] or f"{fix['before']} -> {fix['after']}"
    yield f"       {edit}"
    if fix["tried"]:
        yield f"       {fix['tried']}"
    if fix["undecided"]:
        lacking = ", ".join(fix["undecided"][:_MAX_REASONS])
        yield f"       it may not fit: {lacking} would tell"
    if fix["when_not"]:
        yield f"       not when {fix['when_not']}"
    yield f"       {_describe_measured(fix)}; about {fix['cost_min']} min, risk {fix['risk']}"


def keep_first_line(answer: LineAnswer | None) -> LineAnswer | None:
    """Return the lines of a cause without those after the first."""
    return {**answer, "lines": answer["lines"][:1]} if answer else None


def format_findings(answer: KernelFindings) -> Iterator[str]:
    """Yield what was found, a line at a time: the verdict, the causes, then the evidence."""
    gate = answer["gate"]
    name = f"{answer['kernel']}: " if answer["kernel"] else ""
    yield f"{name}{gate['verdict'].upper()} ({gate['id']})"
    yield f"  {gate['because']}"
    yield from format_finish(answer["finish"]) or _format_headroom(answer["headroom"])
    yield from _format_gap(answer)
    yield from (f"  note: {note}" for note in answer["notes"])
    yield from _format_diagnoses(answer)
    yield from _format_outlook(answer)
    yield from _format_time(answer)
    yield from _format_timeline(answer["timeline"])
    yield from _format_accesses(answer["accesses"])
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
        bound += " on its fastest unit" if room["bound"] == "compute" else ""
        floor, measured = format_duration(room["floor_us"]), format_duration(room["measured_us"])
        yield (
            f"  floor {floor}{bound}, measured {measured}: "
            f"{room['attainable_speedup']:.3g}x its floor"
        )


def format_finish(finish: Finish | None) -> list[str]:
    """Return at most four lines on a kernel near its floor: bytes, ceiling, rest and verdict."""
    if finish is None:
        return []
    ceiling, lines = finish["ceiling"], []
    what = f"the {_CEILINGS.get(ceiling['resource'], '')}"
    if ceiling["resource"] == "memory":
        lines.append(_describe_bytes(finish))
        what = f"{ceiling['rate']:,.0f} GB/s at {ceiling['read_share']:.0%} reads"
    if ceiling["resource"] == "l2":
        what = f"L2's {ceiling['rate']:,.0f}"
    of = "" if ceiling["resource"] == "tensor" else f" ({ceiling['says']})"
    lines.append(f"  reached {ceiling['reached']:.0%} of {what}{of}")
    times = format_duration(finish["measured_us"]), format_duration(finish["floor_us"])
    told = f"  {times[0]}, floor {times[1]}"
    waits = f"; waits: {finish['waits_at']}" if finish["waits_at"] else ""
    rest = finish["rest"]
    parts = [f"{row['what'].removeprefix('waiting: ')} {_tell_us(row['us'])}" for row in rest]
    told += _list_fitting("; the rest: ", parts, _LINE_WIDTH - len(told + waits)) + waits
    if finish["verdict"] == "change":  # it is told below
        return [*lines, told]
    mark = " " if finish["verdict"] == "stop-if" else ": "
    return [*lines, told, f"  {_FINISHES[finish['verdict']]}{mark}{finish['because']}"]


def _describe_bytes(finish: Finish) -> str:
    """Return the bytes that must move, of which arrays as far as they fit, and those that moved."""
    needed, moved = finish["needed_bytes"], finish["moved"]
    known = "an unknown number of bytes" if needed is None else _tell_size(needed)
    levels = ", ".join(f"{name} {_tell_size(moved[key])}" for key, name in _LEVELS if key in moved)
    end = f"; moved: {levels}"
    ranked = sorted(finish["arrays"].items(), key=lambda one: -one[1])
    arrays = [f"{name} {_tell_size(size)}" for name, size in ranked]
    room = _LINE_WIDTH - len(f"  must move {known}{end}") - 1
    told = _list_fitting(" (", arrays, room)
    return f"  must move {known}{told}{')' if told else ''}{end}"


def _list_fitting(start: str, parts: Sequence[str], width: int) -> str:
    """Return the first parts, behind the start, that a width holds; empty if it holds none."""
    told = ""
    for part in parts:
        longer = f"{told}, {part}" if told else f"{start}{part}"
        if len(longer) > width:
            break
        told = longer
    return told


def _tell_us(us: float) -> str:
    return f"{us:,.0f} us" if us >= 100 else f"{us:.2g} us"


def _tell_size(size: float) -> str:
    return format_size(round(size))


def _format_gap(answer: KernelFindings) -> Iterator[str]:
    if answer["gap"]:
        yield f"  {answer['gap']['because']}"


def _format_time(answer: KernelFindings) -> Iterator[str]:
    """Yield where the time goes, one bar for each part, and the peaks behind it."""
    peaks, duration = answer["peaks"], answer["duration_us"]
    if peaks:
        yield ""
        shares = f"memory {100 * peaks['dram']:.3g} %, L2 {100 * peaks['l2']:.3g} % of the peak"
        yield f"Where the time goes ({_PEAK_SOURCES[peaks['source']]}: {shares})"
    for row in answer["time"]:
        filled = round(row["share"] * _BAR_WIDTH)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        spent = f"  {format_duration(row['share'] * duration):>9}" if duration else ""
        at = f"  {row['line']}" if row["line"] else ""
        yield f"  {row['title']:36} {bar} {100 * row['share']:5.1f} %{spent}{at}"


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
        yield from (
            f"     because {_compare_reason(r)} ({r['source']})" for r in diagnosis["because"]
        )
        yield from (f"     not {r['bottleneck']}: {r['because']}" for r in diagnosis["ruled_out"])
        is_open = is_stopped or matches[0]["confidence"] < LEAST_SURE
        yield from _format_fixes(diagnosis["fixes"], is_stopped=is_open)
        if diagnosis["falsifier"] and not is_open:
            yield f"     revert unless {diagnosis['falsifier']['expect']}"
    if unknown:
        left = answer["open_count"] - len(unknown[:_MAX_UNKNOWN_SHOWN])
        more = f" and {left} more" if left else ""
        yield f"Still possible: {', '.join(unknown[:_MAX_UNKNOWN_SHOWN])}{more}"


def _format_timeline(timeline: KernelTimeline | None) -> Iterator[str]:
    if timeline is None:
        return
    yield from ("", f"Inside the kernel (a sample every {timeline['interval_us']:.3g} us)")
    yield from _describe_lost_samples(timeline)
    for phase in timeline["phases"]:
        use = ", ".join(f"{name} {share:.0%}" for name, share in phase["use"].items())
        span = f"{phase['from_us']:.0f} to {phase['to_us']:.0f} us"
        yield f"  {span}: {use or 'no resource at a tenth of its peak'}"
    if tail := _describe_tail(timeline):
        yield f"  {tail}"


def _describe_lost_samples(timeline: KernelTimeline) -> Iterator[str]:
    """Yield what of the kernel was not sampled."""
    if timeline["missing_count"]:
        yield f"  dropped in between: {timeline['missing_count']} samples"
    if not timeline["is_whole"]:
        whole = timeline["kernel_us"]
        of_all = f" of its {whole:,.0f} us" if whole else " us"
        first = f"only the first {timeline['duration_us']:,.0f}{of_all} were sampled"
        yield f"  {first}; ncu --pm-sampling-buffer-size BYTES holds more"


def _describe_tail(timeline: KernelTimeline) -> str:
    """Return when SMs fall idle, and what that costs; empty where it is not known, or nothing."""
    tail, lost, last = timeline["tail_us"], timeline["lost_us"], timeline["last_block_us"]
    whole = timeline["duration_us"]
    if tail is None or lost is None or lost < _LEAST_LOST * whole:
        return ""
    begun = "" if last is None else f"; the last block starts at {last:.0f} us"
    return (
        f"{whole - tail:.0f} to {whole:.0f} us: SMs fall idle one by one, "
        f"which costs {lost:.0f} us ({lost / whole:.0%}){begun}"
    )


def _format_accesses(rows: Sequence[AccessedLine]) -> Iterator[str]:
    if rows:
        yield ""
        yield "What a warp touches, at the lines with most sectors or passes"
    for row in rows:
        where = f"{PurePath(row['file']).name}:{row['line']}"
        yield f"  {where} ({row['share']:.0%}): {row['pattern']}"


def _format_similar(answer: KernelFindings) -> Iterator[str]:
    if answer["similar"]:
        yield ""
        yield "Kernels like this one, and what helped them"
        for case in answer["similar"]:
            what = f"{case['fix']} {case['speedup']:.3g}x ({case['bottleneck']})"
            yield f"  {case['kernel']}, {case['operation']}, {case['device']}: {what}"


def _compare_reason(reason: Reason) -> str:
    of = f"{name}: " if (name := reason.get("input")) else ""
    return of + format_comparison(reason["metric"], reason["value"], reason["op"], reason["limit"])


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
    at = f", above all at {largest['line']}" if largest["line"] else ""
    return f"; the largest part of the time is {largest['title']}, {largest['share']:.0%}{at}"


def _describe_measured(fix: Advice) -> str:
    """Return what a fix gave in measured pairs of kernels, for this cause or else for others."""
    found, gain = fix["measured"], fix["predicted_speedup"]
    if found is None:
        return "no measured case"
    cause = "for this cause" if found["bottleneck"] else "for other causes"
    if gain and not gain["low"] <= found["median"] <= gain["high"]:
        side = "above" if found["median"] > gain["high"] else "below"
        cause += f", {side} the interval told here"
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


def shorten_name(kernel: str) -> str:
    """Return a kernel's name without its arguments, template arguments and name space.

    Of a function that can be anything, the name of its template argument.
    """
    name = kernel.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    while (shorter := _TEMPLATE.sub("", name)) != name:
        name = shorter
    words = name.partition("(")[0].split()
    short = (words[-1].rpartition("::")[2] if words else "") or kernel
    named = _INSTANCE_NAME.match(kernel) if short in _TEMPLATE_KERNELS else None
    return named["what"] if named else short
