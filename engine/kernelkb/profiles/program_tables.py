"""Reads the tables in which profilers sum up a program: ``nsys stats`` and torch.profiler.

They say how the time of the GPU is shared by kernels, and that of the host by calls; not when what
ran, so gaps are known only where both times are. What a timeline says in such
rows is told here, too.
"""

from __future__ import annotations

import bisect
import csv
import re
import sqlite3
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from kernelkb.decide.kernel_phases import CallGaps, word_gaps
from kernelkb.profiles.launch import ProfiledLaunch, Span, base_scale, parse_cell_number
from kernelkb.profiles.ncu_csv import iterate_lines
from kernelkb.units import format_duration

PROGRAM = "program"
"""Name of what is answered: not a kernel."""
_SHOWN = 4
"""Rows of a table that the answer names."""
_MAX_LINE_CHARS = 4000
_NOTABLE_SHARE = 0.1
"""Of the time in calls, from which launches say something about the program."""
_NOTABLE_LEAD = 0.05
"""Of a rank that computes, over the mean of all."""
_MAX_RANKS = 16
_MANY_LAUNCHES = 100
_NOTABLE_GAIN_SHARE = 0.05
"""Of the time, from which a kernel's share says something about the program."""
_LEFT_OUT_SHARE = 0.02
"""Of the time of the kernels that are looked at, from which what is not is told."""
_LAUNCH_ERRORS = {
    1: "an invalid value", 9: "an invalid grid or block", 98: "no such function in the file",
    209: "no code for this GPU", 700: "an illegal address before", 701: "too many resources",
}  # fmt: skip
"""Of cudaError_t, as driver_types.h of CUDA 13.0 has them."""
_SETTLED_SHARE, _WARM_UP_SHARE = 0.9, 0.3
"""A program has settled when kernels of so much of its time ran once, within so much of it."""
_OWN_CODE_US = 200.0
"""Chosen: ten times what a launch takes with the work of a framework, Python's included."""
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
"""``copyKind`` of nsys: CUpti_ActivityMemcpyKind."""
_START, _END = itemgetter(0), itemgetter(1)
_SAMPLES = 1000
_NOTABLE_GAP_US = 5.0
"""Shorter gaps are between kernels that follow one another."""
_STEP = re.compile(r"ProfilerStep#\d+")
_LINE = re.compile(r"(?P<file>[^()]{1,300}\.py)\((?P<line>\d{1,7})\): (?P<function>.{1,200})")
_LIBRARIES = re.compile(
    r"(?:.*/)?(?:site-packages|dist-packages|lib/python\d[\d.]*|torch|triton|lightning|pytorch_lightning"
    r"|accelerate|deepspeed)/.*"
    r"|(?:asyncio|collections|concurrent|email|html|http|importlib|json|logging|multiprocessing|re|urllib"
    r"|xml|zipfile)/.*"
)
"""The last are of Python itself; their names begin there."""
_RESUME = "torch_dynamo_resume_in_"
"""How the rest of a function is named, of which torch.compile made a graph of its own."""
_REGION = "Torch-Compiled Region"
_COUNTS = ("# of Calls", "Number of Calls", "Num Calls", "Instances", "Count", "Operations")
"""Columns with how often something ran."""
_COLUMNS = re.compile(r"\s{2,}")
_TIME = re.compile(r"(?P<number>[\d.,]+) ?(?P<unit>ns|us|ms|s)")
_TOTAL = re.compile(r"\W*Self (?P<side>CPU|CUDA|XPU) time total: +(?P<time>\S{1,30})")
_NSYS_TIME = re.compile(r"Total Time(?: \((?P<unit>\w+)\))?")
XLA_CALLS = re.compile(r"PjitFunction\(.*\)")
"""Of what JAX compiled."""
LAUNCHES = re.compile(rf"(?:cu(?:da)?|hip)(?:Graph|Module|Ext)*Launch\w*|{XLA_CALLS.pattern}")
"""Calls of CUDA and HIP, too."""
_WAITS = re.compile(r"(?:cu(?:da)?|hip)(?:\w*Synchronize\w*|Memcpy(?!\w*Async)\w*)(?:_\w+)?")


_WHOLE = "CPU total"
_OWN_SHARE = 0.5
"""Of an operator's time on the host, below which it only calls others (chosen)."""

Intervals = list[tuple[float, float]]
"""Disjoint, in their order; microseconds."""


class TableRow(NamedTuple):
    """One row: a kernel, a call or an operator."""

    name: str
    us: float
    """Of all of them together."""
    times: int
    """How often it ran."""
    share: float
    """Of the table's time, rows that are not shown included."""


class ProgramTables(NamedTuple):
    """What the tables hold."""

    kernels: list[TableRow]
    """With the operators of torch, by the time that they take on the GPU themselves."""
    calls: list[TableRow]
    """Of the CUDA runtime and driver."""
    copies: list[TableRow]
    cpu_us: float | None
    """All of the host's time that torch.profiler saw, waiting included."""
    gpu_us: float | None
    """All of the GPU's time that torch.profiler saw."""


def find_program_tables(text: str) -> ProgramTables | None:
    """Return what tables a text holds, printed or as CSV; None without any.

    Args:
        text: Of ``nsys stats`` or ``key_averages().table()``, of any release, with what is around.
    """
    found = ProgramTables([], [], [], None, None)
    columns: list[str] = []
    is_nested = False
    for line in iterate_lines(text):
        cells = _split(line[:_MAX_LINE_CHARS].lstrip(" #|>").rstrip(" |"))
        if total := _TOTAL.match(line[:_MAX_LINE_CHARS]):
            us = _parse_us(total["time"])
            is_host = total["side"] == "CPU"
            found = found._replace(cpu_us=us) if is_host else found._replace(gpu_us=us)
        elif _is_header(cells):
            columns = cells
            is_nested = _WHOLE in cells and "CUDA total" in cells and "Self CUDA" not in cells
        elif columns and len(cells) >= len(columns):
            if not (is_nested and _only_calls(dict(zip(columns, cells, strict=False)))):
                _add_row(found, columns, cells)
        elif cells and not set("".join(cells)) <= set("- "):
            columns = []
    if is_nested:
        whole_us = sum(row.us for row in found.kernels) or 1.0
        found.kernels[:] = [row._replace(share=row.us / whole_us) for row in found.kernels]
    has_rows = found.kernels or found.calls or found.copies
    return found if has_rows or (found.cpu_us and found.gpu_us) else None


def describe_program(tables: ProgramTables) -> ProfiledLaunch:
    """Return a program as a launch of no kernel: metrics of the whole, and where its time goes."""
    return ProfiledLaunch(PROGRAM, dict(_iter_metrics(tables)), says=tuple(_iter_shares(tables)))


def _split(line: str) -> list[str]:
    if line.startswith('"') or line.count(",") > line.count("  ") + 3:
        return next(csv.reader([line]), [])
    return [cell for cell in _COLUMNS.split(line) if cell]


def _is_header(cells: Sequence[str]) -> bool:
    is_nsys = bool(cells) and cells[0].replace(" ", "").startswith("Time(%)")
    return is_nsys or (bool(cells) and cells[0] == "Name" and any("CPU" in one for one in cells))


def _add_row(tables: ProgramTables, columns: Sequence[str], cells: Sequence[str]) -> None:
    """Append a row to the table that its columns are those of; one without numbers is left out."""
    is_torch = columns[0] == "Name"
    last = len(columns) - 1
    row = dict(zip(columns, [*cells[:last], " ".join(cells[last:])], strict=True))
    name = cells[0] if is_torch else row[columns[-1]]
    us = _read_torch_us(row) if is_torch else _read_nsys_us(row)
    times = parse_cell_number(next((row[one] for one in _COUNTS if one in row), ""))
    shares = (one for one in ("Self CUDA %", "CUDA total %", columns[0]) if one in row)
    share = parse_cell_number(row[next(shares)].strip(" %")) or 0.0
    target = tables.kernels if is_torch else _choose_table(tables, columns, name)
    if target is not None and us and times is not None:
        target.append(TableRow(name, us, int(times), share / 100))


def _only_calls(row: Mapping[str, str]) -> bool:
    """Return whether an operator leaves its work to others, whose rows hold the same GPU time."""
    own, whole = (
        _parse_us(row.get("Self CPU total", row.get("Self CPU", ""))),
        _parse_us(row[_WHOLE]),
    )
    return own is not None and whole is not None and own < _OWN_SHARE * whole


def _read_torch_us(row: Mapping[str, str]) -> float | None:
    return _parse_us(row.get("Self CUDA", row.get("CUDA total", "")))


def _read_nsys_us(row: Mapping[str, str]) -> float | None:
    for column, cell in row.items():
        if match := _NSYS_TIME.match(column):
            return _scale_to_us(cell, match["unit"] or "ns")
    return None


def _choose_table(
    tables: ProgramTables, columns: Sequence[str], name: str
) -> list[TableRow] | None:
    if "[CUDA mem" in name or columns[-1] == "Operation":
        return tables.copies
    if "Instances" in columns and columns[-1] == "Name":
        return tables.kernels
    return tables.calls if re.match(r"cu(?:da)?[A-Z]", name) else None


def _parse_us(text: str) -> float | None:
    found = _TIME.fullmatch(text.strip())
    return _scale_to_us(found["number"], found["unit"]) if found else None


def _scale_to_us(number: str, unit: str) -> float | None:
    value = parse_cell_number(number)
    return None if value is None else value * base_scale(unit) / 1e3


def _iter_metrics(tables: ProgramTables) -> Iterator[tuple[str, float]]:
    if tables.cpu_us and tables.gpu_us:
        yield "op_us", tables.cpu_us
        yield "op_kernels_us", tables.gpu_us
        yield "gpu_idle_share", max(0.0, 1 - tables.gpu_us / tables.cpu_us)
    launches, waits = (
        [row for row in tables.calls if which.fullmatch(row.name)] for which in (LAUNCHES, _WAITS)
    )
    is_one_of_many = sum(row.share for row in launches) >= _NOTABLE_SHARE
    if is_one_of_many and sum(row.times for row in launches) >= _MANY_LAUNCHES:
        launching_us, waiting_us = (sum(row.us for row in rows) for rows in (launches, waits))
        yield "launch_call_share", launching_us / (launching_us + waiting_us)


def _iter_shares(tables: ProgramTables) -> Iterator[str]:
    """Yield sentences on where the time goes."""
    if tables.cpu_us and tables.gpu_us:
        host, gpu = format_duration(tables.cpu_us), format_duration(tables.gpu_us)
        yield f"host {host}, with the profiler's own time; GPU {gpu}"
    for title, rows in (
        ("GPU time", tables.kernels),
        ("copies", tables.copies),
        ("CUDA calls", tables.calls),
    ):
        if rows:
            yield f"{title}: {', '.join(_describe_rows(rows))}"


def _describe_rows(rows: Iterable[TableRow]) -> Iterator[str]:
    for row in sorted(rows, key=lambda row: -row.us)[:_SHOWN]:
        each = format_duration(row.us / max(1, row.times))
        yield f"{row.name[:60]} {row.share:.0%} ({row.times:,} of {each})"


def read_rows(
    database: sqlite3.Connection, table: str, side: Mapping[Any, list[Span]], place: str, name: str
) -> None:
    """Add the rows of a table of an nsys export, in nanoseconds, to one side of a timeline."""
    joined = f"SELECT t.start, t.end, t.{place}, {name} FROM {table} t"  # noqa: S608 our own words
    if name in ("shortName", "nameId"):
        joined = (
            f"SELECT t.start, t.end, t.{place}, s.value FROM {table} t "  # noqa: S608 the same
            f"LEFT JOIN StringIds s ON s.id = t.{name}"
        )
    for start, end, where, label in database.execute(joined):
        if isinstance(start, int) and isinstance(end, int) and end >= start:
            text = _COPY_KINDS.get(label, str(label)) if name == "copyKind" else str(label)
            side[where].append(Span(start / 1e3, end / 1e3, text))


def describe_failures(database: sqlite3.Connection) -> Iterator[str]:
    """Yield what is to be said of launches that returned an error, in an export of nsys."""
    rows = database.execute(
        "SELECT s.value, t.returnValue, COUNT(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME t "
        "JOIN StringIds s ON s.id = t.nameId WHERE t.returnValue != 0 GROUP BY 1, 2"
    )
    for name, code, count in rows:
        if LAUNCHES.fullmatch(str(name)) and "HostFunc" not in name:
            error = _LAUNCH_ERRORS.get(code, "cudaGetErrorName tells it")
            yield f"{count} of {name} FAILED with error {code} ({error}): these kernels did not run"


def count_spans(spans: Iterable[Span]) -> list[TableRow]:
    """Return how often and how long each name ran."""
    times, counts = defaultdict[str, float](float), Counter[str]()
    for span in spans:
        times[span.name] += span.end - span.start
        counts[span.name] += 1
    total = sum(times.values()) or 1.0
    return [TableRow(name, us, counts[name], us / total) for name, us in times.items()]


def find_warm_up(launches: Sequence[Span]) -> int:
    """Return how many launches come before each kernel that takes much time has run once.

    0 where they take much of the time: a program with parts, and without a warm-up.
    """
    total, known = sum(span.end - span.start for span in launches), 0.0
    settled = 0
    for row in sorted(count_spans(launches), key=lambda row: -row.us):
        first = next(at for at, span in enumerate(launches) if span.name == row.name)
        settled, known = max(settled, first + 1), known + row.us
        if known >= _SETTLED_SHARE * total:
            break
    before = sum(span.end - span.start for span in launches[:settled])
    return settled if before <= _WARM_UP_SHARE * total and settled < len(launches) / 2 else 0


def describe_left_out(own: Iterable[Span], others: Sequence[Span]) -> Iterator[str]:
    """Yield what launches beside those of a program's longest part are not looked at."""
    own_us, us = (sum(span.end - span.start for span in part) for part in (own, others))
    if us > _LEFT_OUT_SHARE * own_us:
        told = f"{len(others):,} launches, {format_duration(us)} of kernels"
        yield f"left out, as compilations lie between: {told}"


def describe_most(rows: Iterable[TableRow], total_us: float) -> Iterator[str]:
    """Yield what the program gains, at most, from the kernels that take most of its time."""
    gains = [
        f"{row.name[:60]} {1 / max(1e-3, 1 - row.us / total_us):.2f}x"
        for row in sorted(rows, key=lambda row: -row.us)[:_SHOWN]
        if _NOTABLE_GAIN_SHARE * total_us <= row.us < total_us
    ]
    if gains:
        yield f"the program gains at most, if they took no time: {', '.join(gains)}"


def find_steps(spans: Iterable[Span]) -> list[Span]:
    """Return the steps that a profiler's schedule marked, in their order."""
    return sorted(span for span in spans if _STEP.fullmatch(span.name))


def describe_steps(steps: Sequence[Span]) -> Iterator[str]:
    """Yield how long the steps of a program take."""
    if steps:
        lengths = [step.end - step.start for step in steps]
        low, middle, high = (
            format_duration(us) for us in (min(lengths), statistics.median(lengths), max(lengths))
        )
        yield f"{len(steps)} steps of {middle}, the shortest {low}, the longest {high}"


def find_graph_breaks(spans: Iterable[Span]) -> float | None:
    """Return at how many places torch.compile split a program; None where a trace cannot say.

    Python's functions show each: the rest of a function runs as one of its own. Regions alone do
    not: several functions may have been compiled.
    """
    names = {span.name for span in spans}
    breaks = [name for name in names if _RESUME in name]
    is_shown = any(map(_LINE.fullmatch, names)) and any(_REGION in name for name in names)
    return float(len(breaks)) if breaks or is_shown else None


def find_own_code(
    calls: Intervals, operators: Intervals, others: Iterable[tuple[Any, ...]]
) -> Intervals:
    """Return the long times between calls of CUDA in which a host is in nothing that leads to one.

    Args:
        calls: All that it makes.
        operators: Those without a call compute on the host, as Python and its libraries do.
        others: What it does that is no code of its own: it waits, or fetches data.
    """
    starts = [start for start, _ in calls]
    launching = (
        (start, end)
        for start, end in operators
        if bisect.bisect_left(starts, start) < bisect.bisect_left(starts, end)
    )
    between = subtract([(calls[0][0], calls[-1][1])], merge([*calls, *launching, *others]))
    return [(start, end) for start, end in between if end - start >= _OWN_CODE_US]


def describe_gaps(idle: Sequence[Intervals], spans: Sequence[Span]) -> Iterator[str]:
    """Yield what the host did while a GPU was idle, the longest first.

    Args:
        idle: When each GPU was.
        spans: As of ``find_around``.
    """
    times, counts = defaultdict[str, float](float), Counter[str]()
    for gaps in idle:
        notable = [one for one in gaps if one[1] - one[0] >= _NOTABLE_GAP_US]
        middles = [(start + end) / 2 for start, end in notable]
        for (start, end), around in zip(notable, find_around(middles, spans), strict=True):
            name = around[-1].name if around else "nothing that was traced"
            times[name] += end - start
            counts[name] += 1
    total = sum(map(measure, idle))
    longest = sorted(times.items(), key=lambda item: -item[1])[:_SHOWN]
    shown = [f"{name[:60]} {us / total:.0%} ({counts[name]:,})" for name, us in longest]
    if shown:
        yield f"while it was idle, the host was in: {', '.join(shown)}"


def describe_own_code(share: float, stretches: Intervals, spans: Sequence[Span]) -> Iterator[str]:
    """Yield how long a GPU waits for the host's own code, and at which lines of Python.

    Args:
        share: Of the time.
        stretches: When.
        spans: As of ``find_around``; where no line is among them, what comes next is named.
    """
    if share < _NOTABLE_GAIN_SHARE:
        return
    moments = list(_sample(stretches))
    found = Counter(filter(None, map(name_line, find_around(moments, spans))))
    how, tip = "at", ""
    if not found:
        how, tip = "before", "; py-spy record, or a trace with_stack=True, names the lines"
        starts = [span.start for span in spans]
        nexts = (bisect.bisect_left(starts, moment) for moment in moments)
        found = Counter(spans[at].name[:60] for at in nexts if at < len(spans))
    shown = ", ".join(f"{name} {n / len(moments):.0%}" for name, n in found.most_common(_SHOWN))
    yield (
        f"it waits for the host's own code for {share:.0%} of the time, {len(stretches):,} times, "
        f"{how}: {shown}{tip}"
    )


def _sample(stretches: Intervals) -> Iterator[float]:
    """Yield moments at equal distances in some intervals."""
    step = measure(stretches) / _SAMPLES
    ahead = step / 2
    for start, end in stretches:
        while ahead < end - start:
            yield start + ahead
            ahead += step
        ahead -= end - start


def nest(spans: Iterable[Span]) -> list[Span]:
    """Return spans by their start, the outer ones first."""
    return sorted(sorted(spans, key=_END, reverse=True), key=_START)


def find_around(moments: Iterable[float], spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield what runs at each moment, the innermost last; the list changes with the next.

    Args:
        moments: In their order.
        spans: Nested.
    """
    around: list[Span] = []
    at = 0
    for moment in moments:
        while at < len(spans) and spans[at].start <= moment:
            while around and around[-1].end < spans[at].start:
                around.pop()
            around.append(spans[at])
            at += 1
        while around and around[-1].end < moment:
            around.pop()
        yield around


def name_line(around: Iterable[Span]) -> str:
    """Return the innermost line of the program itself among what encloses a moment; or nothing.

    Args:
        around: Operators and functions of Python, whose names hold a file and a line.
    """
    return pick_own_line(span.name for span in nest(around))


def pick_own_line(frames: Iterable[str]) -> str:
    """Return the last of some frames of Python that is no library's; nothing without one.

    Args:
        frames: The outermost first, such as ``train.py(12): step``.
    """
    own = ""
    for frame in frames:
        found = _LINE.fullmatch(frame)
        if found is None or _LIBRARIES.fullmatch(found["file"]):
            continue
        if PurePosixPath(found["file"]).stem not in sys.stdlib_module_names:
            own = f"{found['file']}:{found['line']} ({found['function']})"
    return own


class GpuTime(NamedTuple):
    """How the time of one GPU is shared, from its first work to its last."""

    name: str
    us: float
    idle: Intervals
    shares: dict[str, float]
    work_us: float
    """In which it computes."""
    gaps: CallGaps | None = None
    """What lies between its kernels; None where they are few."""


Rank = tuple[str, list[GpuTime], ProfiledLaunch]
"""The name of one, its GPUs, and its program."""


def describe_gpu(gpu: GpuTime) -> Iterator[str]:
    """Yield where the time of a GPU goes, then what lies between its kernels."""
    shares = gpu.shares
    words = {
        "idle": shares["gpu_idle_share"],
        "only copies": shares["copy_exposed_share"],
        "only communication": shares["communication_exposed_share"],
    }
    parts = ", ".join(f"{share:.0%} {word}" for word, share in words.items())
    yield f"GPU {gpu.name}: {format_duration(gpu.us)} from its first work to its last, {parts}"
    if gpu.gaps:
        yield word_gaps(gpu.gaps)


def _share_waits(ranks: Sequence[Rank]) -> dict[str, float]:
    """Return the share of its time that each rank is only in collectives."""
    return {
        name: statistics.fmean(gpu.shares["communication_exposed_share"] for gpu in gpus)
        for name, gpus, _ in ranks
    }


def find_awaited(ranks: Sequence[Rank]) -> str | None:
    """Return the rank that others wait for in collectives: that which waits much less than they.

    None where all wait alike, as for the collectives themselves.
    """
    waits = _share_waits(ranks)
    awaited = min(waits, key=lambda name: waits[name])
    return awaited if max(waits.values()) - waits[awaited] >= _NOTABLE_SHARE else None


def compare_ranks(ranks: Sequence[Rank]) -> ProfiledLaunch:
    """Return the program of several ranks: of that which others wait for; else means of metrics.

    Args:
        ranks: Clocks need not agree.
    """
    awaited = find_awaited(ranks)
    work_us = {name: sum(gpu.work_us for gpu in gpus) for name, gpus, _ in ranks}
    longest = max(work_us, key=lambda name: work_us[name])
    programs = {name: program for name, _, program in ranks}
    chosen = programs[awaited or longest]
    metrics = {
        key: statistics.fmean(one.metrics[key] for one in programs.values() if key in one.metrics)
        for key in chosen.metrics
    }
    says = [f"{name}: {gpu}" for name, gpus, _ in ranks for gpu in chain(*map(describe_gpu, gpus))]
    more = [f"and {len(says) - _MAX_RANKS} more"] if len(says) > _MAX_RANKS else []
    ratio = work_us[longest] / statistics.fmean(work_us.values())
    if awaited is not None:
        waits = _share_waits(ranks)
        more.append(
            f"others wait for {awaited} in collectives, up to {max(waits.values()):.0%} of their "
            f"time, and it only {waits[awaited]:.0%}"
        )
    if ratio > 1 + _NOTABLE_LEAD:
        more.append(f"{longest} computes {ratio:.2f}x as long as the mean")
    own = (f"of {awaited or longest}: {text}" for text in chosen.says[1:])
    return chosen._replace(
        metrics=chosen.metrics if awaited else metrics, says=(*says[:_MAX_RANKS], *more, *own)
    )


def merge(spans: Iterable[tuple[Any, ...]]) -> Intervals:
    """Return the time in which any of some spans runs."""
    merged: Intervals = []
    low = high = -float("inf")
    for span in sorted(spans, key=_START):
        if span[0] > high:
            merged.append((low, high))
            low, high = span[0], span[1]
        elif span[1] > high:
            high = span[1]
    merged.append((low, high))
    return merged[1:]


def intersect(left: Sequence[tuple[float, float]], right: Intervals) -> Intervals:
    """Return the time that is in both."""
    common: Intervals = []
    ends = [end for _, end in right]
    for start, end in left:
        at = bisect.bisect_right(ends, start)
        while at < len(right) and right[at][0] < end:
            common.append((max(start, right[at][0]), min(end, right[at][1])))
            at += 1
    return common


def subtract(left: Intervals, right: Intervals) -> Intervals:
    """Return the time that is in the first and not in the second."""
    edges = [-float("inf"), *chain.from_iterable(right), float("inf")]
    return intersect(left, list(zip(edges[::2], edges[1::2], strict=True)))


def measure(intervals: Intervals) -> float:
    """Return the length of some intervals, microseconds."""
    return sum(end - start for start, end in intervals)
