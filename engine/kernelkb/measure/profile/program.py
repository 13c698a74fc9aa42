"""Runs a program of any kind under profilers: for its timeline, then for counters of some launches.

The first run is the program's own: what it prints is passed on, and its exit status is told. Later
runs are silent. Its standard input is empty in all of them.
"""

from __future__ import annotations

import math
import os
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from kernelkb.measure.machine.host import find_cuda_tool
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.process.subprocesses import ProcessResult, run_supervised
from kernelkb.measure.profile.ncu import explain_failure, format_ncu_command, list_counters
from kernelkb.measure.profile.observe import write_observer
from kernelkb.model.answers.recommendation import ProgramTool
from kernelkb.profiles.launch import RawName, Span, find_program, leave_out_trials, name_function
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.profiles.ncu_page import read_printed_page
from kernelkb.profiles.program_tables import (
    ProgramTables,
    count_spans,
    describe_program,
    find_warm_up,
)
from kernelkb.profiles.reader_process import read_in_process
from kernelkb.profiles.timeline import ProgramRun, load_run
from kernelkb.progress import report_progress
from kernelkb.units import format_duration

ProgramOutput = Literal["terminal", "stderr", "answer"]
"""Where the first run prints: where this process does, all of it to standard error (where the
answer is JSON), or into the answer."""
_TRACE_S = 8.0
"""Chosen: of a program that launches 50,000 kernels a second, a trace of some 500 MB."""
_QUIET = {"KINETO_LOG_LEVEL": "99"}
"""Of torch.profiler: it would log into what the program prints."""
_JAX_CACHE = "JAX_COMPILATION_CACHE_DIR"
_SAVED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Under ncu, which saves what is allocated before it repeats a launch: of the 3/4 of a GPU's memory
that JAX takes, it did not end or crashed (seen with 0.11.2)."""
_CACHE_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
"""JAX keeps what the first run compiled: later ones run the same kernels and try no others."""
READING_S = 600.0
_SLOWED, _COUNTING_S = 5.0, 60.0
"""Chosen: how much longer a program may take under ncu, which does not end for each launch; those
seen to end took 10 to 45 s more."""
_MAX_SAID = 200
_MAX_LISTED = 5000
"""Launches of which ncu takes the time where no tool traces the program."""
_MAX_WINDOW = 8
"""Launches in a row that ncu counts: about a second each, as long as a start of torch for all."""
_TYPICAL_RATIO = 1.2
"""Of a launch's time and the median of its kernel's."""
_DURATION = RawName("profiled_us", ("gpu__time_duration.sum",), 1e-3)
_STACK = ("--call-stack-type", "python")
"""Of ncu 2025.3, and not of every older one: the details page has a stack of each launch."""
_COLLECTIVE = re.compile(r"nccl|nvshmem", re.IGNORECASE)
"""Kernels that wait for other processes: ncu would repeat them alone, and never end."""
_KEEP_APART = 'exec 8>&1 9>&2 >"$0" 2>&1; exec "$@"'
"""For a shell: what the tool prints goes to a file; the program gets what this process has."""
_RESTORE = 'if [ -e /proc/self/fd/8 ]; then exec "$@" >&8 2>&9 8>&- 9>&-; else exec "$@"; fi'


class ProgramCommand(NamedTuple):
    """A program, and how it may be run."""

    words: tuple[str, ...]
    """Program and arguments; no shell is involved."""
    folder: Path
    """A scratch folder."""
    limit_s: float
    """Each run is ended after so long."""
    prints_to: ProgramOutput = "terminal"
    alone_s: float = math.inf
    """What the first run took."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables of all its runs."""
        if os.environ.get(_JAX_CACHE):
            return {}
        return {_JAX_CACHE: str(self.folder / "jax-cache"), **_CACHE_ALL}

    def run(
        self, wrapper: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> ProcessResult:
        """Run it as its user would."""
        log = self.folder / "printed.log" if self.prints_to == "answer" else None
        to_stderr = self.prints_to == "stderr"
        words, both = [*wrapper, *self.words], {**self.env, **(env or {})}
        return run_supervised(words, log=log, timeout_s=self.limit_s, env=both, to_stderr=to_stderr)

    def run_silently(self, wrapper: Sequence[str]) -> ProcessResult:
        """Run it again, under a tool, for some time longer; what both print goes to a file."""
        log, words = self.folder / "program.log", [*wrapper, *self.words]
        limit_s = min(self.limit_s, _SLOWED * self.alone_s + _COUNTING_S)
        env = {**self.env, **_SAVED}
        return run_supervised(words, log=log, timeout_s=limit_s, env=env)


class FirstRun(NamedTuple):
    """The run that is the program's own, and what was traced."""

    process: ProcessResult
    tool: ProgramTool | None
    """nsys, torch.profiler, or ncu, which knows times and no gaps; None: nothing traced it."""
    found: ProgramRun | None
    """None where no work of a GPU was traced."""
    notes: tuple[str, ...] = ()
    """What was missing."""


def trace_program(command: ProgramCommand) -> FirstRun:
    """Run a program with the first tool that traces it: nsys, torch.profiler, or ncu in a run more.

    Raises:
        KbError: A trace cannot be read.
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    notes: list[str] = []
    if nsys := find_cuda_tool("nsys"):
        done = _run_nsys(nsys, command, notes)
        if done is not None:
            return done
    env = write_observer(command.folder, {"trace_s": _TRACE_S}) | _QUIET
    process = command.run(env=env)
    files = sorted(str(path) for path in command.folder.glob("trace-*.json*"))
    is_jax = bool(files) and all(file.endswith(".gz") for file in files)
    tool: ProgramTool = "jax.profiler" if is_jax else "torch.profiler"
    if found := _read(files):
        return FirstRun(process, tool, found, tuple(notes))
    for error in sorted(command.folder.glob("error-*.txt"))[:1]:
        said = error.read_text("utf-8").splitlines()[-1]
        notes.append(f"the profiler inside it failed: {said[:_MAX_SAID]}")
    has_ended_well = not process.returncode and not process.timed_out
    listed = _list_by_ncu(command, notes) if has_ended_well and query_driver() else None
    without: ProgramTool | None = tool if files else None
    return FirstRun(process, "ncu" if listed else without, listed, tuple(notes))


def _run_nsys(nsys: str, command: ProgramCommand, notes: list[str]) -> FirstRun | None:
    """Return a run under nsys; None where it did not start the program."""
    log, report = command.folder / "nsys.log", command.folder / "timeline.nsys-rep"
    options = ("--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--kill=sigterm")
    limits = (f"--duration={max(1, int(command.limit_s))}", f"--output={report.with_suffix('')}")
    tool = (nsys, "profile", *options, "--cuda-graph-trace=node", *limits)
    longer = command._replace(limit_s=command.limit_s + READING_S)
    process = longer.run(("sh", "-c", _KEEP_APART, str(log), *tool, "sh", "-c", _RESTORE, "sh"))
    if not report.exists():
        said = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
        notes.append(f"nsys recorded nothing: {(said or ['it says nothing'])[-1][:_MAX_SAID]}")
        return None
    export = export_timeline(nsys, report, command.folder)
    if export is None:
        notes.append("nsys export wrote nothing")
    was_ended = process.seconds >= int(command.limit_s)
    return FirstRun(
        process._replace(timed_out=process.timed_out or was_ended),
        "nsys",
        _read([str(export)] if export else []),
        tuple(notes),
    )


def export_timeline(nsys: str, report: Path, folder: Path) -> Path | None:
    """Have nsys write a report as SQLite into a folder; return the file, None if it did not."""
    file = folder / "exported.sqlite"
    words = [nsys, "export", "--type=sqlite", f"--output={file}", str(report)]
    run_supervised(words, log=folder / "export.log", timeout_s=READING_S)
    return file if file.exists() else None


def _read(files: Sequence[str]) -> ProgramRun | None:
    if not files:
        return None
    report_progress("reading the timeline")
    return read_in_process(load_run, files, name="the timeline", timeout_s=READING_S)


def _list_by_ncu(command: ProgramCommand, notes: list[str]) -> ProgramRun | None:
    """Return the times of a program's kernels, taken in a run more; None where there are none.

    Their sum stands for the time of the GPU: when each ran is not known.
    """
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return None
    report_progress("it runs again under ncu, for the time of its kernels", "notice")
    page = command.folder / "times.csv"
    selection = ("--target-processes", "all", "--launch-count", str(_MAX_LISTED), "--kill", "yes")
    cheap = (*selection, "--cache-control", "none")
    wrapper = format_ncu_command(ncu, cheap, _DURATION.names, page)
    process = command.run_silently(wrapper)
    text = page.read_text("utf-8", "replace") if page.exists() else ""
    if '"Kernel Name"' not in text:
        is_empty = "No kernels were profiled" in text
        notes.append("ncu saw no kernel" if is_empty else "; ".join(explain_failure(text, process)))
        return None
    read = read_raw_page(text, [_DURATION])
    spans = [Span(0, one.metrics.get("profiled_us", 0.0), one.kernel) for one in read]
    own = find_program(spans)
    earlier, spans = leave_out_trials(spans[: own.start]), spans[own]
    warm_up = len(earlier) + find_warm_up(spans)
    launches = [(span.name, span.end) for span in [*earlier, *spans]]
    rows = count_spans([*earlier, *spans][warm_up:])
    total = sum(row.us for row in rows)
    notes.append(
        f"only the time in kernels is known, {format_duration(total)} in all, and not when they "
        "ran: nsys on PATH would tell the gaps"
    )
    if len(read) == _MAX_LISTED:
        notes.append(f"these are its first {_MAX_LISTED:,} launches")
    program = describe_program(ProgramTables(rows, [], [], cpu_us=None, gpu_us=None))
    return ProgramRun(program._replace(device=read[0].device), launches, warm_up, total)


class HotKernel(NamedTuple):
    """A kernel that takes much of a program's time, without the warm-up."""

    name: str
    """As the timeline has it."""
    us: float
    """Of all its launches."""
    share: float
    """Of the time of the GPU, from its first work to its last."""
    launches: int
    median_us: float

    @property
    def function(self) -> str:
        """The name by which ncu finds it."""
        return name_function(self.name)


def rank_kernels(found: ProgramRun) -> list[HotKernel]:
    """Return the kernels of a program, those that take the most time first."""
    kernels = [
        HotKernel(name, us, us / max(found.us, us), len(times), statistics.median(times))
        for name, times in _group(found.launches[found.warm_up :]).items()
        if (us := sum(times))
    ]
    return sorted(kernels, key=lambda kernel: -kernel.us)


def _group(launches: Sequence[tuple[str, float]]) -> Mapping[str, list[float]]:
    times = defaultdict[str, list[float]](list)
    for name, us in launches:
        times[name].append(us)
    return times


def is_collective(kernel: str) -> bool:
    """Return whether a kernel waits for other processes, so that ncu cannot repeat it."""
    return _COLLECTIVE.search(kernel) is not None


class LaunchWindow(NamedTuple):
    """Launches in a row, among those of some functions."""

    functions: tuple[str, ...]
    skip: int
    """How many come before."""
    length: int

    def as_options(self) -> list[str]:
        """Return the options of ncu that choose it, in any process."""
        names = "|".join(re.escape(name) for name in self.functions)
        pattern = rf"regex:(^|[ :])({names})($|[<(])"
        kernels = ["--target-processes", "all", "--kernel-name", pattern]
        return [*kernels, "--launch-skip", str(self.skip), "--launch-count", str(self.length)]


def choose_windows(found: ProgramRun, hot: Sequence[HotKernel], skip: int) -> list[LaunchWindow]:
    """Return the launches to count: of each kernel one of typical time, where possible in one run.

    Args:
        found: The program.
        hot: The kernels to look at.
        skip: Launches of each that are its warm-up.
    """
    functions = tuple(dict.fromkeys(kernel.function for kernel in hot))
    together = _list_typical(found, hot, functions, skip)
    best = _find_shortest(together)
    if best is not None and best[1] - best[0] < _MAX_WINDOW:
        return [LaunchWindow(functions, best[0], best[1] - best[0] + 1)]
    windows = [
        LaunchWindow((kernel.function,), places[0][0], 1)
        for kernel in hot
        if (places := _list_typical(found, [kernel], (kernel.function,), skip))
    ]
    return list(dict.fromkeys(windows))


def _list_typical(
    found: ProgramRun, hot: Sequence[HotKernel], functions: Sequence[str], skip: int
) -> list[tuple[int, str]]:
    """Return where typical launches are among those of some functions, each with its kernel."""
    medians = {kernel.name: kernel.median_us for kernel in hot}
    names = {name: name_function(name) in functions for name, _ in found.launches}
    odd = {
        name: max(_TYPICAL_RATIO, min(_compare(us, medians[name]) for us in times))
        for name, times in _group(found.launches).items()
        if name in medians
    }
    seen = defaultdict[str, int](int)
    position, early, late = 0, list[tuple[int, str]](), list[tuple[int, str]]()
    for at, (name, us) in enumerate(found.launches):
        if not names[name]:
            continue
        if name in medians and _compare(us, medians[name]) <= odd[name]:
            is_warm = at >= found.warm_up and seen[name] >= skip
            (late if is_warm else early).append((position, name))
        seen[name] += 1
        position += 1
    has_late = {name for _, name in late}
    return sorted([*late, *(one for one in early if one[1] not in has_late)])


def _compare(us: float, median_us: float) -> float:
    """Return how far apart two times are: 1 and more."""
    shorter, longer = sorted((max(us, 1e-3), max(median_us, 1e-3)))
    return longer / shorter


def _find_shortest(places: Sequence[tuple[int, str]]) -> tuple[int, int] | None:
    """Return the first and last place of the shortest stretch with each name; None without any."""
    wanted = {name for _, name in places}
    latest: dict[str, int] = {}
    best: tuple[int, int] | None = None
    for place, name in places:
        latest[name] = place
        first = min(latest.values())
        if len(latest) == len(wanted) and (best is None or place - first < best[1] - best[0]):
            best = first, place
    return best


class CountedReport(NamedTuple):
    """A report of some launches, and where the program made them."""

    file: Path
    callers: list[str]
    """Of each launch the line of Python; empty where none is known."""


def count_launches(
    command: ProgramCommand,
    options: Sequence[Sequence[str]],
    counters: Sequence[RawName],
    notes: list[str],
) -> Iterator[CountedReport]:
    """Yield a report for each choice of launches, of a run that ends with the last of them.

    Args:
        command: The program.
        options: Of ncu, for each run.
        counters: What to count; by instruction, too.
        notes: Gets why a run counted nothing.
    """
    ncu = find_cuda_tool("ncu")
    for number, selection in enumerate(options if ncu else ()):
        report = command.folder / f"counted-{number}.ncu-rep"
        count = partial(_run_ncu, str(ncu), command, counters, report)
        process, text = count([*selection, *_STACK])
        if not report.exists() and _STACK[0] in text:
            process, text = count(selection)
        if report.exists():
            yield CountedReport(report, _list_callers(str(ncu), report))
        elif process.timed_out:
            more = ", --minutes allows more" if process.seconds >= command.limit_s else ""
            notes.append(
                f"ncu had not ended after {process.seconds:.0f} s, as where a launch cannot be "
                f"repeated: --kernel chooses others{more}"
            )
        elif "No kernels were profiled" in text:
            notes.append("ncu met none of these launches: is the program the same in each run?")
        else:
            notes.append("; ".join(explain_failure(text, process)))
            return


def _run_ncu(
    ncu: str,
    command: ProgramCommand,
    counters: Sequence[RawName],
    report: Path,
    selection: Sequence[str],
) -> tuple[ProcessResult, str]:
    """Run a program under ncu; return its end, and what ncu said."""
    log, names = report.with_suffix(".csv"), list_counters(counters)
    chosen = [*selection, "--kill", "yes"]
    process = command.run_silently(format_ncu_command(ncu, chosen, names, log, report))
    said = log.read_text("utf-8", "replace") if log.exists() else ""
    return process, said + process.output


def _list_callers(ncu: str, report: Path) -> list[str]:
    """Return the line of Python that made each launch of a report."""
    page = report.with_suffix(".txt")
    words = [ncu, "--import", str(report), "--page", "details", "--print-details", "all"]
    run_supervised(words, log=page, timeout_s=READING_S)
    text = page.read_text("utf-8", "replace") if page.exists() else ""
    return [launch.called_by for launch in read_printed_page(text, [])]
