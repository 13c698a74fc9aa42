"""Profiles a program of any kind: where its time goes, and what limits the kernels that take it.

``clock_variant`` does so inside a variant's kernels: the time between their waits.
"""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kernelkb.actions.advice.recommend import complete_answer
from kernelkb.actions.advice.recommend_report import answer_launch, answer_report
from kernelkb.actions.kernels.measure_variant import build_prepared
from kernelkb.actions.project.bench_target import prepare, resolve_workload
from kernelkb.actions.project.profile_reports import (
    compile_pattern,
    list_first_counters,
    match_names,
)
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recommend import build_recommendation, find_library
from kernelkb.errors import BadValueError, KbError
from kernelkb.measure.machine.environment import TargetChoice, lock_device
from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.profile.clocks import profile_clocks
from kernelkb.measure.profile.program import (
    FirstRun,
    HotKernel,
    ProgramCommand,
    ProgramOutput,
    choose_windows,
    count_launches,
    is_collective,
    rank_kernels,
    trace_program,
)
from kernelkb.model.answers.recommendation import (
    FirstThing,
    KernelAnswer,
    ProgramAnswer,
    ProgramFirst,
    ProgramKernel,
)
from kernelkb.model.records.measurement import Profile
from kernelkb.profiles.launch import name_function
from kernelkb.profiles.timeline import ProgramRun
from kernelkb.progress import report_progress

_MIN_SHARE = 0.02
"""Of the time, from which a kernel is worth a look: without it a program is 1.02x as fast."""
_MAX_ROWS = 8
_IN_RANGE = 8
"""Launches inside an NVTX range that are counted."""
_WAITS_SHARE = 0.5
"""Of the idle time, from which one reason explains it."""
_SHORT_GAP_US = 100.0
"""Chosen: a launch takes the host 3 to 10 us, with the work of torch 20, and a call of what JAX
compiled 50 to 80 (seen, traced, with 0.11.2)."""
_NO_NCU = (
    "ncu was not found, so no kernel was looked into: install Nsight Compute (it comes with CUDA)"
)


class ProgramOptions(NamedTuple):
    """How a program is profiled."""

    pattern: str | None = None
    """A regular expression: kernels that ncu may look at."""
    nvtx_range: str | None = None
    """It looks at launches inside this range only."""
    skip: int = 1
    """Launches of each kernel that are its warm-up."""
    top: int = 3
    """Kernels that it looks at."""
    minutes: float = 10.0
    """Each run is ended after so long."""
    prints_to: ProgramOutput = "terminal"


class _CountedKernel(NamedTuple):
    """The answer for a launch that ncu counted."""

    answer: KernelAnswer
    called_by: str | None
    """The line of Python that made it; None where none is known."""


def profile_program(words: Sequence[str], options: ProgramOptions) -> ProgramAnswer:
    """Run a program for its timeline, then under ncu for its longest kernels; answer for both.

    Args:
        words: The program and its arguments.
        options: How.

    Raises:
        BadValueError: There is no such program, or the pattern is no regular expression.
        KbError: What was traced cannot be read.
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    if not words or shutil.which(words[0]) is None:
        named = repr(words[0]) if words else "nothing"
        raise BadValueError(
            f"-- {named}: there is no such program; write kb profile -- python x.py"
        )
    compile_pattern(options.pattern)
    report_progress(_describe_plan(options), "notice")
    with scratch_folder() as folder:
        command = ProgramCommand(tuple(words), folder, 60 * options.minutes, options.prints_to)
        run = trace_program(command)
        notes = [*run.notes, *_describe_gaps(run, words)]
        command = command._replace(alone_s=run.process.seconds)
        kernels = _answer_kernels(command, run, options, notes)
    return _complete(words, run, kernels, notes)


def _describe_plan(options: ProgramOptions) -> str:
    if not options.top or find_cuda_tool("ncu") is None:
        return f"the program runs once, for its timeline; at most {options.minutes:g} min"
    return (
        f"the program runs twice or more: for its timeline, then under ncu for {options.top} "
        f"kernels; each run takes its own time and 5 to 30 s, at most {options.minutes:g} min"
    )


def _describe_gaps(run: FirstRun, words: Sequence[str]) -> Iterator[str]:
    """Yield what could not be learned here, and what to do for it."""
    if run.process.timed_out:
        yield (
            "the program was ended after its time; --minutes allows more, or give it fewer steps; "
            f"where it should have ended, kb explain -- {shlex.join(words)} says where it is"
        )
    command, has_gpu = shlex.join(words), query_driver() is not None
    has_failed = bool(run.process.returncode) and not run.process.timed_out
    if has_failed and has_gpu:
        yield (
            "it has to end well to be counted; where CUDA is what failed, "
            f"kb explain -- {command} names the line"
        )
    if not has_gpu and run.found is None:
        yield "there is no GPU here, or no driver"
    if run.found is None and not (has_failed and has_gpu):
        yield (
            f"to learn more, on a machine with the GPU: kb profile -- {command}; or there "
            f"nsys profile -o timeline {command}, nsys export --type sqlite timeline.nsys-rep, and "
            "here kb recommend --profile timeline.sqlite"
        )


def _answer_kernels(
    command: ProgramCommand, run: FirstRun, options: ProgramOptions, notes: list[str]
) -> list[ProgramKernel]:
    """Return the longest kernels of a program, with an answer for those that ncu looked at."""
    if run.found is None:
        return []
    ranked = [one for one in rank_kernels(run.found) if one.share >= _MIN_SHARE]
    names = {one.name for one in ranked}
    wanted = match_names(compile_pattern(options.pattern), names)
    if names and not wanted:
        known = ", ".join(one.function for one in ranked[:_MAX_ROWS])
        notes.append(f"no kernel that takes time matches {options.pattern!r}; there are {known}")
    chosen = [one for one in ranked if one.name in wanted and not is_collective(one.name)]
    answers: dict[str, _CountedKernel] = {}
    if find_cuda_tool("ncu") is None:
        notes.append(_NO_NCU)
    elif run.process.returncode or run.process.timed_out:
        notes.append("ncu was left out, as the program did not end well")
    elif chosen[: options.top]:
        answers = _count(command, run.found, chosen[: options.top], options, notes)
    shown = [one for one in ranked[:_MAX_ROWS] if one.name not in answers]
    kept = [one for one in ranked if one.name in answers or one in shown]
    return [_describe_kernel(one, answers.get(one.name)) for one in kept]


def _count(
    command: ProgramCommand,
    found: ProgramRun,
    hot: Sequence[HotKernel],
    options: ProgramOptions,
    notes: list[str],
) -> dict[str, _CountedKernel]:
    """Return the answer for each kernel of which ncu counted a launch, by its name."""
    windows = choose_windows(found, hot, options.skip)
    choices = [window.as_options() for window in windows]
    if options.nvtx_range:
        inside = windows[0]._replace(skip=options.skip, length=_IN_RANGE)
        functions = tuple(dict.fromkeys(kernel.function for kernel in hot))
        nvtx = ("--nvtx", "--nvtx-include", f"{options.nvtx_range}/")
        choices = [[*nvtx, *inside._replace(functions=functions).as_options()]]
    runs = f" in {len(choices)} runs" if len(choices) > 1 else ""
    looked_at = ", ".join(dict.fromkeys(kernel.function for kernel in hot))
    report_progress(f"ncu looks at {looked_at}{runs}", "notice")
    counters = list_first_counters()
    answers: list[_CountedKernel] = []
    for report, callers in count_launches(command, choices, counters, notes):
        try:
            answered = answer_report(str(report), max_kernels=None)
        except KbError as error:
            notes.append(str(error))
            continue
        lines = dict(enumerate(callers))
        answers += [
            _CountedKernel(answer, lines.get(at) or None)
            for answer, at in zip(answered.recommendation["kernels"], answered.chosen, strict=True)
        ]
    return dict(_match_answers(hot, answers))


def _match_answers(
    hot: Sequence[HotKernel], answers: Sequence[_CountedKernel]
) -> Iterator[tuple[str, _CountedKernel]]:
    """Yield for each kernel the answer of its name whose launch took most nearly its time."""
    left = list(answers)
    for kernel in hot:
        same = [one for one in left if name_function(one.answer["kernel"]) == kernel.function]
        if same:
            median_us = kernel.median_us
            nearest = min(
                same,
                key=lambda one: abs(math.log((one.answer["duration_us"] or 1e-3) / median_us)),
            )
            left.remove(nearest)
            yield kernel.name, nearest


def _describe_kernel(kernel: HotKernel, counted: _CountedKernel | None) -> ProgramKernel:
    answer, called_by = counted or (None, None)
    gain = _find_gain(answer) if answer else None
    library = find_library(load_compiled_rules(), kernel.name)
    waits = is_collective(kernel.name)
    return {
        "kernel": kernel.name,
        "share": round(kernel.share, 4),
        "launches": kernel.launches,
        "duration_us": kernel.median_us,
        "at_most": _speed_up(kernel.share),
        "speedup": _speed_up(kernel.share * (1 - 1 / gain)) if gain else None,
        "library": f"{library['title']}: {library['advice']}" if library else None,
        "called_by": called_by,
        "answer": {**answer, "share": round(kernel.share, 4)} if answer else None,
        "reason": "it waits for other processes, and cannot be repeated alone" if waits else None,
    }


def _find_gain(answer: KernelAnswer) -> float | None:
    """Return the gain that the first cause predicts."""
    predicted = (
        one["predicted_speedup"] for one in answer["diagnoses"] if one["verdict"] == "matches"
    )
    first = next(predicted, None)
    return first["point"] if first and first["point"] > 1 else None


def _speed_up(saved: float) -> float:
    """Return the speedup of a program that saves a share of its time."""
    return round(1 / max(1e-3, 1 - saved), 3)


def _complete(
    words: Sequence[str], run: FirstRun, kernels: list[ProgramKernel], notes: list[str]
) -> ProgramAnswer:
    rules, found = load_compiled_rules(), run.found
    program = None
    if found is not None:
        program = complete_answer(
            answer_launch(rules, found.program, 0, {}, None), known_kernels=()
        )
    return {
        "command": list(words),
        "status": None if run.process.timed_out else run.process.returncode,
        "seconds": round(run.process.seconds, 3),
        "output": run.process.output,
        "tool": run.tool,
        "warm_up_launches": found.warm_up if found else 0,
        "program": program,
        "first": find_first(found, kernels) if found else None,
        "kernels": kernels,
        "notes": notes,
        "knowledge": build_recommendation(rules, [])["knowledge"],
    }


def find_first(found: ProgramRun, kernels: Sequence[ProgramKernel]) -> ProgramFirst | None:
    """Return where the program gains most; None where nothing takes time worth a change."""
    if stopped := _find_stopped(kernels):
        return stopped
    metrics = found.program.metrics
    saved: dict[FirstThing, float] = {
        "copies": metrics.get("copy_exposed_share", 0.0),
        "communication": metrics.get("communication_exposed_share", 0.0),
        _name_idle(metrics, found): metrics.get("gpu_idle_share", 0.0),
    }
    what = max(saved, key=lambda one: saved[one])
    best = max(kernels, key=lambda one: (one["speedup"] or 1.0, one["share"]), default=None)
    told = best["speedup"] if best else None
    if best and (1 - 1 / told if told else best["share"] / 2) >= saved[what]:
        gain = f"with its first change all is {told:.2f}x as fast" if told else "no gain told"
        because = f"it takes {best['share']:.0%} of the time; {gain}"
        at_most = told or best["at_most"]
        return {"what": "kernel", "kernel": best["kernel"], "at_most": at_most, "because": because}
    if saved[what] < _MIN_SHARE:
        return None
    because = f"{saved[what]:.0%} of the time goes there, and {_describe_best(best)}"
    return {"what": what, "kernel": None, "at_most": _speed_up(saved[what]), "because": because}


def _find_stopped(kernels: Sequence[ProgramKernel]) -> ProgramFirst | None:
    """Return a kernel that has to be built another way before its times say anything."""
    for kernel in kernels:
        gate = kernel["answer"]["gate"] if kernel["answer"] else None
        if gate and gate["verdict"] == "stop":
            return {
                "what": "kernel",
                "kernel": kernel["kernel"],
                "at_most": kernel["at_most"],
                "because": gate["because"],
            }
    return None


def _describe_best(best: ProgramKernel | None) -> str:
    if best is None:
        return "no kernel takes much"
    if best["speedup"]:
        return f"the best kernel gives {best['speedup']:.2f}x"
    return f"the longest kernel takes {best['share']:.0%}"


def _name_idle(metrics: Mapping[str, float], found: ProgramRun) -> FirstThing:
    """Return what an idle GPU waits for."""
    idle = metrics.get("gpu_idle_share", 0.0)
    if metrics.get("data_idle_share", 0.0) >= _WAITS_SHARE * idle:
        return "data"
    if metrics.get("sync_idle_share", 0.0) >= _WAITS_SHARE:
        return "synchronisation"
    own_code = metrics.get("host_code_idle_share")
    if own_code is not None:
        return "host" if own_code >= _WAITS_SHARE else "launches"
    launches = max(1, len(found.launches) - found.warm_up)
    return "launches" if idle * found.us / launches < _SHORT_GAP_US else "host"


def has_failed(answer: ProgramAnswer) -> bool:
    """Return whether the program failed, nothing was learned, or a gate says stop."""
    program = answer["program"]
    is_stopped = program is not None and program["gate"]["verdict"] == "stop"
    return bool(answer["status"]) or program is None or is_stopped


def clock_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
) -> Profile:
    """Build a variant with clocks, call it on a workload, and return the time between its waits.

    Raises:
        KbError: A name is unknown, the variant is no CUDA C++ for a GPU, or it does not build.
    """
    bench_target = prepare(kernel, variant, target)
    subject = bench_target.subject
    if subject.machine.target != "cuda" or not subject.variant.is_compiled:
        raise BadValueError(
            f"clocks are for variants in CUDA C++ on a GPU, not {subject.variant.language}"
            f" for {subject.variant.target}"
        )
    size = resolve_workload(subject.kernel, subject.variant.target, workload)
    built = build_prepared(bench_target)
    if built.error:
        raise BadValueError(f"{subject.variant.id} does not build: {built.error}")
    with lock_device(subject.machine) as queue_warning:
        profiled = profile_clocks(subject, built, size)
    evidence = (*profiled.evidence, *filter(None, [queue_warning]))
    return profiled.model_copy(update={"evidence": evidence})
