"""Recommends for each kernel of an Nsight Compute report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kernelkb.actions.advice.code_location import (
    AnsweredVariant,
    find_profiled_variant,
    measure_counted_code,
    read_all_counters,
)
from kernelkb.actions.advice.next_steps import list_project_kernels
from kernelkb.actions.advice.recommend import complete_answer, parse_given_metrics
from kernelkb.actions.project.bench_target import measure_language
from kernelkb.actions.project.hardware import find_reported_gpu
from kernelkb.actions.project.profile_reports import compile_pattern, match_names
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.device_facts import Pressure, predict_launch_change
from kernelkb.decide.headroom import add_timeline_to_rest
from kernelkb.decide.kernel_phases import describe_timeline, find_kept_bytes
from kernelkb.decide.next_measurement import list_own_commands, strip_kernel_signature
from kernelkb.decide.recommend import build_recommendation, recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.errors import BadValueError, KbError, NextStep
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.profile.program import READING_S, export_timeline
from kernelkb.profiles.launch import NcuRule, ProfiledLaunch, list_raw_names
from kernelkb.profiles.reader_process import ReaderProcess, read_in_process
from kernelkb.profiles.report import (
    is_binary_report,
    is_report_text,
    read_report,
    read_report_text,
)
from kernelkb.profiles.timeline import load_program
from kernelkb.safety.workspace import resolve_inside
from kernelkb.sass.counters import SourceCounters
from kernelkb.sass.static_dataflow import measure_register_use
from kernelkb.units import format_duration, format_size

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import (
        KernelAnswer,
        Measure,
        NcuRuleEstimate,
        Recommendation,
    )

_Shape: TypeAlias = tuple[str, tuple[str, str]]
"""A kernel with its grid and block."""
_MEASURED = ("profile",)
"""Commands of ``kb`` whose result a report is."""
_MIN_SPREAD = 2.0
"""Least ratio of the longest and the shortest launch of a shape that is told (judgement)."""
_MAX_WITH_LINES = 3
"""Most kernels whose lines are told: each takes a run of the disassembler."""
_MAX_ABSENT = 5
"""Most counters without a value that are named."""
_NSYS_SUFFIXES = (".nsys-rep", ".qdrep")
MAX_KERNELS = 20
"""Most kernels in one answer, those that take the most time first."""


class AnsweredReport(NamedTuple):
    """The answers for the kernels of a report, and what they were found from."""

    recommendation: Recommendation
    launches: list[ProfiledLaunch]
    """All of the report."""
    chosen: list[int]
    """Index of the launch of each answer."""
    counters: list[SourceCounters | str]
    """Of the first answers, what was counted by instruction or why nothing was; none of a table."""


def recommend_from_report(
    path: str,
    *,
    kernel_pattern: str | None = None,
    metrics: Mapping[str, str | float] | None = None,
    headlines: Mapping[str, str | float] | None = None,
    gpu: str | None = None,
    max_kernels: int | None = MAX_KERNELS,
) -> Recommendation:
    """Answer for the kernels of a report, the longest first.

    Of several launches of one kernel with the same grid and block, the longest is used. Metrics
    given beside the report hold for every kernel.

    Args:
        path: Of a report: a ``.ncu-rep`` file, a CSV page, or what ncu printed; or the text of one.
        kernel_pattern: A regular expression; kernels whose name does not match are left out.
        metrics: Further values by metric id; they override those of the report.
        headlines: Further values by headline flag.
        gpu: Any name of the GPU; by default the one in the report.
        max_kernels: Kernels in the answer; None for all.

    Raises:
        KbError: The file is not a report, or no kernel matches.
        UnknownNameError: A metric or GPU that does not exist.
        BadValueError: A value that its metric cannot have, or an invalid regular expression.
    """
    notes: list[str] = []
    rules = load_compiled_rules()
    given = parse_given_metrics(rules, metrics or {}, headlines or {}, "cuda", notes)
    answered = answer_report(
        path, kernel_pattern=kernel_pattern, given=given, gpu=gpu, max_kernels=max_kernels
    )
    found = answered.recommendation
    kernels: list[KernelAnswer] = [
        {**one, "notes": [*notes, *one["notes"]]} for one in found["kernels"]
    ]
    return {**found, "kernels": kernels}


def answer_report(
    path: str,
    *,
    kernel_pattern: str | None = None,
    given: Mapping[str, float] | None = None,
    gpu: str | None = None,
    max_kernels: int | None = MAX_KERNELS,
    max_with_lines: int = _MAX_WITH_LINES,
) -> AnsweredReport:
    """Answer and raise like ``recommend_from_report``; return what was read, too.

    Args:
        path: The report, or its text.
        kernel_pattern: A regular expression.
        given: Metrics that override those of the report.
        gpu: Any name of the GPU.
        max_kernels: Kernels in the answer; None for all.
        max_with_lines: Kernels whose lines are told.
    """
    program, name = load_compiled_rules(), compile_pattern(kernel_pattern)
    with ReaderProcess() as reader:
        launches = _read_launches(program, path, reader)
        chosen = _pick_representatives(launches, name, path)[:max_kernels]
        positions = {id(launch): index for index, launch in enumerate(launches)}
        indices = [positions[id(one.launch)] for one in chosen]
        with_lines = indices[:max_with_lines] if is_binary_report(path) else []
        counters = read_all_counters(Path(path), with_lines, reader) if with_lines else []
    subjects = [find_profiled_variant(one.launch.kernel) for one in chosen[:max_with_lines]]
    total_us, named = sum(_sum_durations(launches).values()), list_project_kernels()
    answers: list[KernelAnswer] = []
    for one, code, subject in zip_longest(chosen, counters, subjects):
        known = _measure_subject(subject, one.launch.kernel, named) | measure_counted_code(code)
        answer = _answer_representative(program, one, {**known, **(given or {})}, gpu, total_us)
        answer = _note_flush(answer, program, launches, positions[id(one.launch)], gpu)
        names = None if one.launch.says else named
        answer = complete_answer(
            answer, counters=code, subject=subject, measured=_MEASURED, known_kernels=names
        )
        answers.append(answer)
    return AnsweredReport(build_recommendation(program, answers), launches, indices, counters)


def _note_flush(
    answer: KernelAnswer,
    program: CompiledRules,
    launches: Sequence[ProfiledLaunch],
    at: int,
    gpu: str | None,
) -> KernelAnswer:
    """Return the answer for a launch with a note on what the one before it leaves in L2."""
    notes = _describe_flush(program, launches, at, gpu)
    return {**answer, "notes": [*answer["notes"], *notes]}


def _describe_flush(
    program: CompiledRules, launches: Sequence[ProfiledLaunch], at: int, gpu: str | None
) -> Iterator[str]:
    """Yield what the kernel before leaves in L2, which a profiler's flush takes away."""
    if not at or launches[at].says or launches[at - 1].kernel == launches[at].kernel:
        return
    before, now = launches[at - 1], launches[at]
    rules, device, _ = find_reported_gpu(program, now, gpu)
    facts = rules["devices"].get(device, {}) if device else {}
    kept = find_kept_bytes(
        before.metrics, now.metrics, {f"device.{name}": value for name, value in facts.items()}
    )
    if kept is None:
        return
    name = strip_kernel_signature(before.kernel)[:40]
    saved = "" if kept.saved_us is None else f", up to {format_duration(kept.saved_us)} less"
    dirty = f"; {format_size(round(kept.dirty_bytes))} that it wrote leave L2 meanwhile"
    yield (
        f"ncu empties L2: {format_size(round(kept.read_bytes))} of "
        f"{format_size(round(now.metrics['dram_read_bytes']))} read may be in it after {name}"
        f"{saved}{dirty if kept.dirty_bytes else ''}"
    )


def predict_report_change(
    path: str,
    changes: Mapping[str, str | float],
    *,
    kernel_pattern: str | None = None,
    metrics: Mapping[str, str | float] | None = None,
    gpu: str | None = None,
) -> dict[str, Any]:
    """Return what changes of the longest kernel's launch would cost or gain, as plain data.

    That is ``kernelkb.decide.device_facts.predict_launch_change``, with kernel and launch.

    Args:
        path: As of ``recommend_from_report``.
        changes: By name, the value as typed.
        kernel_pattern: A regular expression, for another kernel than the longest.
        metrics: Further values by metric id; they override those of the report.
        gpu: Any name of the GPU; by default the one in the report.

    Raises:
        KbError: The file is not a report, or no kernel matches.
        UnknownNameError: A change, metric or GPU that does not exist.
        BadValueError: A value that a launch or a metric cannot have, or a report without a launch.
    """
    program, name = load_compiled_rules(), compile_pattern(kernel_pattern)
    given = parse_given_metrics(program, metrics or {}, {}, "cuda", [])
    with ReaderProcess() as reader:
        launches = _read_launches(program, path, reader)
        launch, number, *_ = _pick_representatives(launches, name, path)[0]
        index = next(at for at, one in enumerate(launches) if one is launch)
        code = read_all_counters(Path(path), [index], reader) if is_binary_report(path) else []
    if launch.says:
        raise BadValueError("this is a report of a whole program; profile one kernel with ncu")
    rules, device, note = find_reported_gpu(program, launch, gpu)
    sound = dict(iter_plausible_metrics(program, launch, []))
    known = complete_metrics(rules, {**(read_peak_metrics(device) or {}), **sound, **given}, device)
    found = predict_launch_change(rules, known, device, changes, find_pressure(code))
    notes = [note] if note else []
    stamp = {"notes": notes, "knowledge": rules["knowledge"]}
    return {"kernel": launch.kernel, "launch": number, **found, **stamp}


def find_pressure(counted: Sequence[SourceCounters | str]) -> Pressure | None:
    """Return what the code that was counted needs of registers; None: nothing was counted."""
    for one in counted:
        executed = {} if isinstance(one, str) else one.raw.get("inst_executed", {})
        if executed and not isinstance(one, str):
            return Pressure(*measure_register_use(one.function, executed))
    return None


def _read_launches(
    program: CompiledRules, path: str, reader: ReaderProcess
) -> list[ProfiledLaunch]:
    names = list_raw_names(program)
    if is_report_text(path):
        return read_report_text(path, names)
    if Path(path).suffix in _NSYS_SUFFIXES:
        return [_read_nsys_report(path, reader)]
    return read_report(Path(path), names, find_cuda_tool("ncu"), reader=reader)


def _read_nsys_report(path: str, reader: ReaderProcess) -> ProfiledLaunch:
    """Return the program of a report of Nsight Systems, which only its own program can read."""
    if not Path(real := resolve_inside(Path(path))).is_file():
        raise KbError(f"cannot read {path}: there is no such file")
    nsys = find_cuda_tool("nsys")
    if nsys is None:
        raise KbError(
            f"{path} can be read by nsys only, which is not on PATH; where it is: "
            f"nsys export --type sqlite {shlex.quote(path)}, then give the .sqlite file"
        )
    with scratch_folder() as folder:
        file = export_timeline(nsys, Path(real), folder)
        if file is None:
            raise KbError(f"nsys cannot export {path}; is it a report of a newer release?")
        return read_in_process(
            load_program, [str(file)], name=path, reader=reader, timeout_s=READING_S
        )


def _measure_subject(
    subject: AnsweredVariant | None, kernel: str, named: Collection[str]
) -> dict[str, float]:
    if subject is not None:
        return measure_language(subject.variant)
    return {} if strip_kernel_signature(kernel) in named else {"foreign_profile": 1.0}


def _answer_representative(
    program: CompiledRules,
    one: _Representative,
    known: Mapping[str, float],
    gpu: str | None,
    total_us: float,
) -> KernelAnswer:
    """Return the answer for a kernel of a report, with its share of the report's time."""
    answer = answer_launch(program, one.launch, one.number, known, gpu)
    if not total_us:
        return answer
    share = round(one.spent_us / total_us, 4)
    notes = [*_describe_others(one), *answer["notes"]]
    return {**answer, "duration_us": _duration_us(one.launch), "share": share, "notes": notes}


def _describe_others(one: _Representative) -> list[str]:
    """Return what the launches of the same kernel and shape took, where they differ."""
    if len(one.times_us) < 2 or max(one.times_us) < _MIN_SPREAD * min(one.times_us):
        return []
    low, high = f"{min(one.times_us):,.1f}", f"{max(one.times_us):,.1f}"
    return [f"the longest of {len(one.times_us)} launches of this shape, of {low} to {high} us"]


class _Representative(NamedTuple):
    """The longest launch of a kernel with one grid and block."""

    launch: ProfiledLaunch
    number: int
    """Its index among the launches of its kernel."""
    spent_us: float
    """Time of all launches of that kernel and shape."""
    times_us: tuple[float, ...] = ()
    """Of each of them that the report holds."""


def _pick_representatives(
    launches: list[ProfiledLaunch], name: re.Pattern[str], path: str
) -> list[_Representative]:
    """Return the longest launch of each kernel and shape; those that take the most time first."""
    wanted = match_names(name, {launch.kernel for launch in launches} - {""})
    longest: dict[_Shape, tuple[ProfiledLaunch, int]] = {}
    seen: dict[str, int] = {}
    for launch in launches:
        number = seen.get(launch.kernel, 0)
        seen[launch.kernel] = number + 1
        key = (launch.kernel, launch.shape)
        if launch.kernel in wanted and _duration_us(launch) > _duration_us(
            longest.get(key, (None, 0))[0]
        ):
            longest[key] = (launch, number)
    if not longest:
        known = ", ".join(list(seen)[:8])
        place = "the text" if is_report_text(path) else path
        raise KbError(f"no kernel in {place} matches {name.pattern!r}; it holds {known}")
    spent = _sum_durations(launches)
    times: dict[_Shape, tuple[float, ...]] = {}
    for launch in launches:
        key = (launch.kernel, launch.shape)
        times[key] = (*times.get(key, ()), max(0.0, _duration_us(launch)))
    found = [_Representative(*one, spent[key], times[key]) for key, one in longest.items()]
    return sorted(found, key=lambda one: -one.spent_us)


def _sum_durations(launches: Sequence[ProfiledLaunch]) -> dict[_Shape, float]:
    """Return the time of all launches of each kernel and shape."""
    spent: dict[_Shape, float] = {}
    for launch in launches:
        key = (launch.kernel, launch.shape)
        spent[key] = spent.get(key, 0.0) + launch.launch_count * max(0.0, _duration_us(launch))
    return spent


def _duration_us(launch: ProfiledLaunch | None) -> float:
    return -1.0 if launch is None else launch.metrics.get("profiled_us", 0.0)


def answer_launch(
    program: CompiledRules,
    launch: ProfiledLaunch,
    number: int,
    given: Mapping[str, float],
    gpu: str | None,
) -> KernelAnswer:
    """Return the answer for one launch of a report, without lines.

    Args:
        program: The compiled rules.
        launch: Its metrics.
        number: Its index among the launches of its kernel.
        given: Metrics that override those of the report.
        gpu: Any name of the GPU; None: the one in the report.
    """
    rules, device, note = find_reported_gpu(program, launch, gpu)
    notes = [*([note] if note else []), *launch.says]
    notes += [f"called by {launch.called_by}"] if launch.called_by else []
    if launch.absent:
        notes.append(_describe_absent(program, launch.absent))
    sound = dict(iter_plausible_metrics(program, launch, notes))
    answer = recommend(
        rules,
        {**sound, **given},
        device=device,
        kernel="" if launch.says else launch.kernel,
        peaks=read_peak_metrics(device),
    )
    if launch.says:
        answer = _leave_out_kernels(program, answer)
    return {
        **_add_timeline(answer, launch),
        "kernel": launch.kernel,
        "launch": number,
        "ncu_rules": [_rule_to_dict(rule) for rule in launch.rules],
        "notes": [*notes, *answer["notes"]],
        "measure_next": [_profile_hottest(row, launch.hottest) for row in answer["measure_next"]],
    }


def _add_timeline(answer: KernelAnswer, launch: ProfiledLaunch) -> KernelAnswer:
    timeline = describe_timeline(launch.samples, launch.metrics.get("profiled_us"))
    finish = answer["finish"] and add_timeline_to_rest(answer["finish"], timeline)
    return {**answer, "timeline": timeline, "finish": finish}


def _leave_out_kernels(program: CompiledRules, answer: KernelAnswer) -> KernelAnswer:
    """Return the answer for a program without what only a kernel of a project has."""
    own = list_own_commands(program, "", "cuda")
    return {
        **answer,
        "conclusions": {"can": [], "cannot": []},
        "measure_next": [row for row in answer["measure_next"] if row["command"] not in own],
        "next": [step for step in answer["next"] if not isinstance(step, NextStep)],
    }


def _profile_hottest(row: Measure, hottest: str) -> Measure:
    """Return a measurement whose command profiles the kernel that takes most of a program."""
    if not hottest:
        return row
    return {**row, "command": row["command"].replace("regex:<kernel>", f"regex:{hottest}")}


def _describe_absent(program: CompiledRules, absent: Sequence[str]) -> str:
    """Return a note on counters that were asked for and have no value."""
    known = [name for row in program["raw_names"].values() for name in row["names"]]
    named = []
    for name in absent[:_MAX_ABSENT]:
        near = [] if name in known else get_close_matches(name, known, 1)
        named.append(f"{name} (did you mean {near[0]}?)" if near else name)
    more = f" and {len(absent) - _MAX_ABSENT} more" if len(absent) > _MAX_ABSENT else ""
    return f"counters without a value, so not measured: {', '.join(named)}{more}"


def iter_plausible_metrics(
    program: CompiledRules, launch: ProfiledLaunch, notes: list[str]
) -> Iterator[tuple[str, float]]:
    """Yield the values inside their metric's range, and add a note for each other one."""
    for name, value in launch.metrics.items():
        row = program["metrics"][name]
        low, high = row["low"], row["high"]
        if value < low or (high is not None and value > high):
            span = f"{low:g} to {high:g}" if high is not None else f"at least {low:g}"
            notes.append(f"{name} is {value:g} in the report, outside its range ({span})")
        else:
            yield name, value


def _rule_to_dict(rule: NcuRule) -> NcuRuleEstimate:
    whole = rule.removes is not None and rule.scope == "kernel"
    return {
        "rule": rule.rule,
        "says": rule.says,
        "scope": rule.scope,
        "removes": rule.removes,
        "speedup": round(1 / (1 - rule.removes), 3) if whole and rule.removes else None,
    }
