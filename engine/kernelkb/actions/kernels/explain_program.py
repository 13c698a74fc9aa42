"""Explains why a program hangs or crashes, and why a candidate failed its check: where, on what.

Of a wrong candidate the smallest wrong sizes are found and kept, for later checks.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.symptoms import Explanation, SymptomMatch, find_symptoms
from kernelkb.errors import BadValueError, EnvironmentGapError, KbError
from kernelkb.measure.check.check import (
    find_wrong_sizes,
    follows_pattern,
    keep_equal_and_divisible,
    may_draw_sizes,
)
from kernelkb.measure.check.sanitize import (
    find_endless_loop,
    find_fault,
    make_repeat_job,
    sanitize_on_cpu,
    sanitize_program,
)
from kernelkb.measure.explain.watch import (
    PYTHON_IS,
    Outcome,
    Watched,
    find_standstill,
    has_own_dumps,
    look_at,
    make_env,
    read_last_stacks,
    watch_program,
)
from kernelkb.measure.job_specs import format_sizes
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.process.subprocesses import run_supervised, scratch_folder
from kernelkb.measure.process.worker_jobs import keep_own_cores, write_job
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.kernels.kernel import Kernel
from kernelkb.model.records.measurement import Build, Check
from kernelkb.progress import report_progress

_MAX_CAUSES = 2
_MAX_TOLD = 1500
_LOOK = "kb bench --sanitize looks where its threads wait, outside of the sandbox"
_LONG_S, _SHRINK_S = 30.0, 20.0
_ROUNDS, _MAX_TRIED, _MAX_KEPT = 2, 12, 8
_TILES = (8, 16, 32, 64, 128)
_AFTER_S, _WATCHED_S = 8.0, 60.0
"""A worker that imports torch calls its candidate after some 5 s."""
_SLOWED, _TOOL_S = 10.0, 20.0
"""Chosen: how much longer a program may take under compute-sanitizer."""
_TOOLS: dict[Outcome, tuple[str, ...]] = {
    "crashed": ("memcheck",),
    "failed": ("memcheck",),
    "ended": ("memcheck", "racecheck", "initcheck"),
}


class ExplainOptions(NamedTuple):
    """How a program is watched."""

    after_s: float = 30.0
    """It is looked at when it ran so long, and again each time."""
    minutes: float = 10.0
    """It is ended after so long."""
    to_stderr: bool = False
    """Whether what it prints goes to standard error."""
    once: bool = False
    """Run it no second time, under compute-sanitizer or with launches one by one."""


def explain_program(words: Sequence[str], options: ExplainOptions) -> Explanation:
    """Run a program, look at it where it does not go on, and say why.

    Args:
        words: The program and its arguments.
        options: How.

    Raises:
        BadValueError: There is no such program.
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    if not words or shutil.which(words[0]) is None:
        named = repr(words[0]) if words else "nothing"
        raise BadValueError(
            f"-- {named}: there is no such program; write kb explain -- python x.py"
        )
    with scratch_folder() as folder:
        seen = watch_program(
            words,
            folder,
            after_s=options.after_s,
            limit_s=60 * options.minutes,
            to_stderr=options.to_stderr,
        )
        lines, notes = list(seen.lines), list(seen.notes)
        if has_own_dumps():
            notes.append("CUDA_COREDUMP variables are set: no dump was read")
        if query_driver() is not None and not options.once:
            if seen.outcome == "crashed" and any(folder.glob("stack-*.txt")):
                lines += _find_call(words, folder, seen.seconds)
            _run_tools(words, folder, seen, lines, notes)
        elif query_driver() is None and seen.outcome != "hangs":
            notes.append("there is no GPU here, or no driver: only what Python told was seen")
    return _answer(words, seen, lines, notes)


def _run_tools(
    words: Sequence[str], folder: Path, seen: Watched, lines: list[str], notes: list[str]
) -> None:
    """Run the program under the tools for what it came to, until one finds something."""
    limit_s = _SLOWED * seen.seconds + _TOOL_S
    for tool in _TOOLS.get(seen.outcome, ()):
        report_progress(f"once more under compute-sanitizer's {tool}", "notice")
        try:
            found, in_time = sanitize_program(words, tool, folder, limit_s)
        except EnvironmentGapError as error:
            notes.append(str(error))
            return
        if found:
            lines.append(f"{tool}: {found}")
            return
        done = "found nothing" if in_time else f"did not end within {limit_s:.0f} s"
        notes.append(f"compute-sanitizer's {tool} {done}")


def _find_call(words: Sequence[str], folder: Path, alone_s: float) -> list[str]:
    """Return the line of Python that launched what crashed: each launch waits for its end."""
    report_progress("once more, with CUDA_LAUNCH_BLOCKING=1", "notice")
    for file in folder.glob("stack-*.txt"):
        file.unlink()
    limit_s = _SLOWED * alone_s + _TOOL_S
    env = {**make_env(folder), "CUDA_LAUNCH_BLOCKING": "1"}
    run_supervised(words, log=folder / "blocking.log", timeout_s=limit_s, env=env)
    return [f"{line}, with launches one by one" for line in read_last_stacks(folder)]


def explain_process(process: int) -> Explanation:
    """Look at a process that runs now; it is stopped for seconds and goes on.

    Args:
        process: Its id.

    Raises:
        BadValueError: There is no such process.
    """
    if not Path(f"/proc/{process}").exists():
        raise BadValueError(f"--pid {process}: there is no such process")
    with scratch_folder() as folder:
        still = find_standstill(process, folder)
        look = still or look_at(process, folder)
    if not look.lines and not look.notes:
        notes = (f"process {process} uses no GPU, nor does one that it started",)
        look = look._replace(notes=notes)
    seen = Watched("hangs" if still else "out-of-time", None, 0.0, look.lines, look.notes)
    return _answer([], seen, list(look.lines), list(look.notes))


def _answer(words: Sequence[str], seen: Watched, lines: list[str], notes: list[str]) -> Explanation:
    return {
        "command": list(words),
        "outcome": seen.outcome,
        "status": seen.status,
        "seconds": seen.seconds,
        "lines": lines,
        "causes": find_causes(lines) if seen.outcome != "out-of-time" else [],
        "notes": notes,
    }


def explain_failed_check(
    subject: MeasurementSubject, build: Build, checked: Check, *, may_leave_sandbox: bool = False
) -> Check:
    """Return a check with what a second run of its candidate shows, where it says more.

    On a GPU one that crashed runs under compute-sanitizer's memcheck, one that differs from call to
    call under racecheck and initcheck. In C++ on a CPU one that crashed, wrote NaN or differs from
    call to call is built with g++'s sanitizers, and of one that does not end the lines are sampled.
    All of it in the sandbox, and without a judge. One that does not end on a GPU is looked at by
    cuda-gdb, for which it has to leave the sandbox.

    Args:
        subject: What was checked.
        build: Its build.
        checked: What came of it.
        may_leave_sandbox: Whether the user has asked for that.
    """
    if not checked.failure:
        return checked
    is_left_in = checked.status == "timed-out" and not may_leave_sandbox
    if is_left_in and subject.machine.target == "cuda":
        return checked.model_copy(update={"cure": f"{_LOOK}; {checked.cure}"})
    lines = _examine(subject, build, checked)
    if not lines:
        return checked
    causes = find_causes(lines)
    told = "; ".join(line.strip() for line in lines)[:_MAX_TOLD]
    update: dict[str, Any] = {"detail": f"{checked.detail}; {told}"}
    if causes:
        symptom = causes[0]["symptom"]
        update |= {"symptom": symptom, "cure": f"{symptom}: {causes[0]['cure']}"}
    return checked.model_copy(update=update)


def _examine(subject: MeasurementSubject, build: Build, checked: Check) -> Sequence[str]:
    """Return what a second run of a failed candidate shows; empty where it shows nothing."""
    is_steady = all(case.steady for case in checked.cases)
    has_crashed = checked.status in ("crashed", "kernel-error")
    found: str | None = None
    if subject.machine.target == "cpu":
        has_nan = any(case.nan_count for case in checked.cases)
        if checked.status == "timed-out":
            found = find_endless_loop(subject, build)
        elif has_crashed or has_nan or not is_steady:
            found = sanitize_on_cpu(subject, build)
    elif checked.status == "timed-out":
        return _watch_candidate(subject, build)
    elif has_crashed or not is_steady:
        tools = ("memcheck",) if has_crashed else ("racecheck", "initcheck")
        found = find_fault(subject, build, tools)
    return [found] if found else []


def _watch_candidate(subject: MeasurementSubject, build: Build) -> Sequence[str]:
    """Return where the threads of a candidate stand still; it runs outside of its sandbox.

    cuda-gdb has the driver start a process in what it looks at, and that one finds no GPU there.
    """
    report_progress("once more, outside of the sandbox: cuda-gdb looks where it waits", "notice")
    with scratch_folder() as folder:
        words, env, log = write_job(make_repeat_job(subject, build), folder)
        both = {**make_env(folder), **env}
        with keep_own_cores():
            seen = watch_program(
                words, folder, after_s=_AFTER_S, limit_s=_WATCHED_S, log=log, env=both
            )
    told = [line for line in seen.lines if not line.startswith(PYTHON_IS)]  # that is our worker
    return told if seen.outcome == "hangs" else ()


def shrink_failure(
    subject: MeasurementSubject, build: Build, checked: Check, project: Path
) -> Check:
    """Return a check of a wrong variant with the smallest sizes found on which it is wrong.

    They are kept in the project, and later checks of the kernel run on them, too. Two more judges
    are started, for some seconds; none where the first took long, such sizes are known, or the
    kernel's author allows no other sizes than those that are named.

    Args:
        subject: What was checked.
        build: Its build.
        checked: What came of it.
        project: Holds what is kept, in ``.kb/wrong-sizes``.
    """
    kernel, kept = subject.kernel, read_kept_sizes(project, subject)
    wrong = {own.workload for own in checked.cases if own.status == "incorrect"}
    odd = {format_sizes(sizes): sizes for sizes in (*kernel.check_workloads, *kept)}
    failing = [sizes for name, sizes in {**kernel.workloads, **odd}.items() if name in wrong]
    is_known = any(format_sizes(sizes) in wrong for sizes in kept)
    is_done = is_known or checked.status != "incorrect" or checked.seconds > _LONG_S
    if is_done or not failing or not may_draw_sizes(kernel, subject.variant.target):
        return checked
    smallest = min(failing, key=_count)
    found: list[Mapping[str, int]] = [smallest]
    for _ in range(_ROUNDS):
        lowest = {axis: min(own[axis] for own in found) for axis in kernel.axes}
        tried = list_smaller_sizes(kernel, min(found, key=_count), lowest)
        more: list[Mapping[str, int]] = []
        with suppress(KbError):  # the reference itself does not run on such sizes
            more = find_wrong_sizes(subject, build, tried, _SHRINK_S) if tried else []
        if not more:
            break
        found += more
    least = min(found, key=_count)
    _keep_sizes(project, kernel, [*kept, least])
    if least == smallest:
        return checked
    detail = f"{checked.detail}; the smallest sizes found to be wrong: {format_sizes(least)}"
    return checked.model_copy(update={"detail": detail})


def _count(sizes: Mapping[str, int]) -> int:
    return math.prod(max(1, size) for size in sizes.values())


def list_smaller_sizes(
    kernel: Kernel, failing: Mapping[str, int], lowest: Mapping[str, int]
) -> list[dict[str, int]]:
    """Return sizes below some, smallest first: of all axes or one, as kernel.yaml's are.

    Args:
        kernel: Its axes, and the sizes that its author names.
        failing: Of every axis.
        lowest: The least size of each axis that failed, whatever the others were.
    """
    named = [dict(sizes) for sizes in (*kernel.workloads.values(), *kernel.check_workloads)]
    choices = {}
    for axis in kernel.axes:
        low, size = min(own[axis] for own in named), failing[axis]
        steps = (low, size // 8, size // 4, size // 2, *(tile + 1 for tile in _TILES), size - 1)
        choices[axis] = sorted({step for step in steps if low <= step < size})
    tried: list[dict[str, int]] = []
    together = [{axis: own[n % len(own)] for axis, own in choices.items() if own} for n in range(4)]
    alone = [{axis: step} for axis, own in choices.items() for step in own]
    for change in (lowest, *together, *alone):
        sizes = {**failing, **change}
        keep_equal_and_divisible(kernel, named, sizes)
        is_smaller = sizes not in tried and _count(sizes) < _count(failing)
        if is_smaller and follows_pattern(kernel, named, sizes):
            tried.append(sizes)
    return sorted(tried, key=_count)[:_MAX_TRIED]


def read_kept_sizes(project: Path, subject: MeasurementSubject) -> list[dict[str, int]]:
    """Return the sizes on which variants of a kernel were wrong before, the newest last.

    None that its kernel.yaml, as it is now, does not allow.
    """
    kernel = subject.kernel
    if not may_draw_sizes(kernel, subject.variant.target):
        return []
    named = [dict(sizes) for sizes in (*kernel.workloads.values(), *kernel.check_workloads)]
    try:
        kept = json.loads(_kept_file(project, kernel).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    axes = set(kernel.axes)
    fits = [own for own in kept if isinstance(own, dict) and set(own) == axes]
    return [own for own in fits if follows_pattern(kernel, named, own)][-_MAX_KEPT:]


def _keep_sizes(project: Path, kernel: Kernel, sizes: Sequence[Mapping[str, int]]) -> None:
    file = _kept_file(project, kernel)
    with suppress(OSError):  # a project that cannot be written
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(list(sizes)[-_MAX_KEPT:]), encoding="utf-8")


def _kept_file(project: Path, kernel: Kernel) -> Path:
    return project / ".kb" / "wrong-sizes" / f"{kernel.id}.json"


def find_causes(lines: Sequence[str]) -> list[SymptomMatch]:
    """Return the causes that the knowledge has for what was seen, the likeliest first.

    Args:
        lines: As ``Watched`` has them.
    """
    return find_symptoms(load_compiled_rules(), "\n".join(lines))[:_MAX_CAUSES]
