"""Reads timelines of programs: what torch.profiler and JAX trace for a browser, and nsys exports.

They say what the tables of a program cannot: when its GPU had nothing to do, what the host did
then, and what ran alone.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from io import StringIO
from itertools import chain, pairwise
from pathlib import PurePath
from types import MappingProxyType
from typing import IO, Any, NamedTuple
from urllib.parse import quote

from pydantic_core import from_json

from kernelkb.decide.kernel_phases import measure_gaps
from kernelkb.errors import KbError
from kernelkb.profiles.launch import (
    ProfiledLaunch,
    Span,
    find_program,
    leave_out_trials,
    name_function,
    parse_gpu_header,
    parse_gpu_row,
)
from kernelkb.profiles.program_tables import (
    LAUNCHES,
    XLA_CALLS,
    GpuTime,
    Intervals,
    ProgramTables,
    TableRow,
    compare_ranks,
    count_spans,
    describe_failures,
    describe_gaps,
    describe_gpu,
    describe_left_out,
    describe_most,
    describe_own_code,
    describe_program,
    describe_steps,
    find_awaited,
    find_graph_breaks,
    find_own_code,
    find_steps,
    find_warm_up,
    intersect,
    measure,
    merge,
    name_line,
    nest,
    read_rows,
    subtract,
)

SQLITE_MAGIC = b"SQLite format 3\0"
GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_CHARS = 2**16
_MAX_EVENT_CHARS = 2**24
"""Of one event, or of what comes before the first: what is longer is no trace."""
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[|\A\s*\[(?=\s*\{)')
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_SEAM = re.compile(r"\}[ \t\r\n]*,[ \t\r\n]*\{")
"""Between two events: a trace writes all alike."""
_TRACE = re.compile(r'"traceEvents"\s*:\s*\[|"ph"\s*:\s*"[A-Z]"')
_KINDS = {
    "kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy", "memcpy": "copy",
    "memset": "copy", "cuda_runtime": "call", "cuda_driver": "call", "runtime": "call",
    "cpu_op": "work", "operator": "work", "user_annotation": "frame", "python_function": "frame",
}  # fmt: skip
"""Categories of torch.profiler, of all releases, in small letters."""
_XLA_GPU = re.compile(r"/device:GPU:\d+")
_BLOCKING = re.compile(
    r"(?:cu(?:da)?|hip)(?:\w*Synchronize\w*|Mem(?:cpy|set)(?!\w*Async)\w*|(?:Malloc|Free)(?!Async)\w*"
    r"|Mem(?:Alloc|Free)(?!Async)\w*|Host(?:Alloc|Register|Unregister)\w*)"
    r"|np\.asarray\(jax\.Array\)"
)
"""Calls of CUDA and HIP, and of JAX, that wait for the GPU."""
_HOST_WAITS = re.compile(
    r"enumerate\(DataLoader\)#_Multi\S*|(?:sem_|pthread_cond_)(?:timed)?wait|poll|ppoll|select|epoll_wait"
    r"|(?:u|nano|clock_nano)?sleep"
)
"""Operators and calls of the operating system in which a thread waits and does not compute."""
_FETCHES = re.compile(r"enumerate\(DataLoader\)\S*")
"""What torch's loader records in the thread that asks it for a batch."""
_COMMUNICATION = re.compile(
    r"nccl|rccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter", re.IGNORECASE
)
_COMPILES = "backend_compile"
"""Of JAX, as its traces show it."""
_HOST_COPY = re.compile(r"HtoD|DtoH|H2D|D2H|Host.*Device|Device.*Host")
_SHOWN = 4
_MIN_LAUNCHES = 2
_LAUNCHING_SHARE = 0.1
"""Of the launches of the thread that launches most."""
_NSYS_THREAD_BITS = 24
_KEPT_NAMES = 2**16
_NUMBERS = (int, float)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _remember(match: Callable[[str], object]) -> Callable[[str], bool]:
    """Return whether a name matches, found once for each: a trace has a million and few names."""
    return lru_cache(_KEPT_NAMES)(lambda name: match(name) is not None)


_is_launch = _remember(LAUNCHES.fullmatch)
_is_xla_call = _remember(XLA_CALLS.fullmatch)
_is_blocking = _remember(_BLOCKING.fullmatch)
_is_host_wait = _remember(_HOST_WAITS.fullmatch)
_is_fetch = _remember(_FETCHES.fullmatch)
_is_communication = _remember(_COMMUNICATION.search)


class Timeline(NamedTuple):
    """What ran when; each by the number or name of its GPU, or of its thread."""

    kernels: defaultdict[Any, list[Span]]
    copies: defaultdict[Any, list[Span]]
    """Of a GPU; memory that is set, too."""
    calls: defaultdict[Any, list[Span]]
    """Of CUDA's runtime and driver."""
    work: defaultdict[Any, list[Span]]
    """Operators, functions and ranges of the host, and calls of its operating system."""
    frames: set[str]
    """Names among them that say where the host is: functions of Python, and ranges."""
    device: str = ""
    """Name of the GPU; empty where it is not known."""
    cc: str = ""
    gpu: Mapping[str, float] = MappingProxyType({})
    """As of ``ProfiledLaunch``."""
    callers: Mapping[int, tuple[str, float]] = MappingProxyType({})
    """By correlation, the thread that launched, and when."""
    firsts: Mapping[str, int] = MappingProxyType({})
    """By kernel, the correlation of its first launch."""
    notes: Sequence[str] = ()
    """What is to be said of it first: launches that failed, and what was left out."""
    earlier: Sequence[Span] = ()
    """Launches of the program before those that it holds."""


def is_trace(start: bytes | str) -> bool:
    """Return whether a file is a trace for a browser, by what it begins with."""
    text = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
    return text.lstrip()[:1] in ("{", "[") and bool(_TRACE.search(text))


def load_program(paths: Sequence[str]) -> ProfiledLaunch:
    """Return the program of a timeline, or of those of several ranks.

    Args:
        paths: Each an export of nsys (SQLite), or a trace for a browser, compressed or not.

    Raises:
        KbError: One cannot be read, or nothing of a GPU is in it.
    """
    first, *others = ranks = [
        (PurePath(path).name, *describe_timeline(_load_timeline(path), path)) for path in paths
    ]
    return compare_ranks(ranks) if others else first[2]


class ProgramRun(NamedTuple):
    """A program from its beginning on: its whole, and each launch of a kernel."""

    program: ProfiledLaunch
    """Without the warm-up."""
    launches: list[tuple[str, float]]
    """Kernel and microseconds, in their order; of the rank that others wait for, or the busiest."""
    warm_up: int
    """How many of them come before the program has settled, and are not in ``program``."""
    us: float
    """From the first work of its GPUs to the last, without the warm-up."""


def load_run(paths: Sequence[str]) -> ProgramRun | None:
    """Return the run whose processes a profiler traced from the beginning; None without a GPU.

    Raises as ``load_program``.
    """
    ranks, runs = [], list[ProgramRun]()
    for path in paths:
        timeline = _load_timeline(path)
        launches = sorted(_chain(timeline.kernels))
        if launches:
            warm_up = find_warm_up(launches)
            name, rest = PurePath(path).name, _cut(timeline, launches[warm_up].start)
            gpus, program = describe_timeline(rest, name)
            ranks.append((name, gpus, program))
            every = [*timeline.earlier, *launches]
            named = [(span.name, span.end - span.start) for span in every]
            warm_up += len(timeline.earlier)
            runs.append(ProgramRun(program, named, warm_up, sum(gpu.us for gpu in gpus)))
    if not runs:
        return None
    awaited = find_awaited(ranks)
    longest = max(runs, key=lambda run: sum(us for _, us in run.launches))
    chosen = longest if awaited is None else runs[[name for name, *_ in ranks].index(awaited)]
    return chosen._replace(program=compare_ranks(ranks)) if len(ranks) > 1 else chosen


def _cut(timeline: Timeline, start: float, end: float = math.inf) -> Timeline:
    """Return what began in a stretch of a timeline."""
    sides = (timeline.kernels, timeline.copies, timeline.calls, timeline.work)
    cut = _make_timeline()
    for found, side in zip(cut[:4], sides, strict=True):
        for place, spans in side.items():
            if kept := [span for span in spans if start <= span.start < end]:
                found[place] = kept
    return timeline._replace(kernels=cut.kernels, copies=cut.copies, calls=cut.calls, work=cut.work)


def _leave_out_tuning(timeline: Timeline) -> Timeline:
    """Return a timeline without what a compiler ran to choose its code, and its time."""
    launches = sorted(_chain(timeline.kernels))
    compiles = merge(one for one in _chain(timeline.work) if one.name.startswith(_COMPILES))
    own = find_program(launches, compiles)
    if own == slice(0, len(launches)):
        return timeline
    cut = _cut(timeline, launches[own.start].start, launches[own.stop - 1].end)
    around = launches[: own.start], launches[own.stop :]
    earlier, later = map(leave_out_trials, around)
    notes = [*cut.notes, *describe_left_out(launches[own], [*earlier, *later])]
    return cut._replace(earlier=earlier, notes=notes)


def _load_timeline(path: str) -> Timeline:
    return _leave_out_tuning(_read_timeline(path))


def _read_timeline(path: str) -> Timeline:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 the path is real and inside, or the user's
            start = file.read(len(SQLITE_MAGIC))
        if start == SQLITE_MAGIC:
            return _read_nsys(path)
        open_file = gzip.open if start.startswith(GZIP_MAGIC) else open
        with open_file(path, "rt", encoding="utf-8-sig", errors="replace") as text:
            return _read_trace(text, path)
    except (OSError, EOFError, sqlite3.Error) as error:
        raise KbError(f"cannot read {path}: {error}") from error


def parse_program(text: str, name: str) -> ProfiledLaunch:
    """Return the program of the text of a trace; raises as ``load_program``."""
    timeline = _leave_out_tuning(_read_trace(StringIO(text), name))
    _, program = describe_timeline(timeline, name)
    return program


def _make_timeline() -> Timeline:
    kernels, copies, calls, work = (defaultdict[Any, list[Span]](list) for _ in range(4))
    return Timeline(kernels, copies, calls, work, set())


def _read_trace(file: IO[str], name: str) -> Timeline:
    found, names = _make_timeline(), dict[str, str]()
    sides = {
        "kernel": found.kernels, "copy": found.copies, "call": found.calls, "work": found.work,
        "frame": found.work,
    }  # fmt: skip
    xla = _XlaTracks()
    header, callers, firsts = list[str](), dict[int, tuple[str, float]](), dict[str, int]()
    for event in _iter_events(file.read, header):
        if (phase := event.get("ph")) != "X":
            if phase == "M":
                xla.note(event)
            continue
        category = str(event.get("cat"))
        kind = _KINDS.get(category) or _KINDS.get(category.lower()) or xla.find_kind(event)
        start, length = event.get("ts"), event.get("dur")
        if not kind or not isinstance(start, _NUMBERS) or not isinstance(length, _NUMBERS):
            continue
        label = names.setdefault(text := str(event.get("name")), text)  # each once in memory
        arguments = event.get("args")
        if not isinstance(arguments, dict):
            arguments = _NOTHING
        place = _find_place(event, arguments, kind)
        sides[kind][place].append(Span(start, start + length, label))
        if kind == "frame":
            found.frames.add(label)
        elif isinstance(match := arguments.get("correlation"), int):
            if kind == "call":
                callers[match] = (place, start)
            elif kind == "kernel":
                firsts.setdefault(label, match)
    if not header:
        raise KbError(f"{name} holds no trace; what is compressed has to be unpacked")
    device, cc, gpu = parse_gpu_header(header[0])
    return found._replace(device=device, cc=cc, gpu=gpu, callers=callers, firsts=firsts)


def _find_place(event: Mapping[str, Any], arguments: Mapping[str, Any], kind: str) -> str:
    """Return a thread, or a GPU; as text, since a trace may hold anything there."""
    if kind in ("kernel", "copy"):
        device = arguments.get("device")
        return str(event.get("pid") if device is None else device)
    return _name_track(event)


def _name_track(event: Mapping[str, Any]) -> str:
    return f"{event.get('pid')}/{event.get('tid')}"


class _XlaTracks:
    """Which tracks of a trace of JAX are streams of a GPU: its events have no category."""

    def __init__(self) -> None:
        self._gpus, self._streams = set[str](), set[str]()

    def note(self, event: Mapping[str, Any]) -> None:
        arguments = event.get("args")
        name = str(arguments.get("name")) if isinstance(arguments, dict) else ""
        if event.get("name") == "process_name" and _XLA_GPU.search(name):
            self._gpus.add(str(event.get("pid")))
        elif event.get("name") == "thread_name" and name.startswith("Stream #"):
            self._streams.add(_name_track(event))

    def find_kind(self, event: Mapping[str, Any]) -> str | None:
        if not self._gpus or "cat" in event:
            return None
        if str(event.get("pid")) not in self._gpus:
            name = str(event.get("name"))
            return "call" if _is_launch(name) or _is_blocking(name) else "work"
        is_stream = _name_track(event) in self._streams
        is_copy = str(event.get("name")).lower().startswith(("memcpy", "memset"))
        return ("copy" if is_copy else "kernel") if is_stream else None


def _iter_events(read: Callable[[int], str], header: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of a trace, of which no more than a chunk is in memory, cut off or not.

    Args:
        read: Returns the next characters.
        header: What comes before the first event is added.
    """
    text, found = "", None
    while found is None:
        more = read(_CHUNK_CHARS)
        text += more
        found = _EVENTS.search(text)
        if not more or (found is None and len(text) > _MAX_EVENT_CHARS):
            break
    if found is None:
        return
    header.append(text[: found.start()])
    decoder, at = json.JSONDecoder(), found.end()
    while True:
        seam = None
        try:
            while True:
                start = _BETWEEN.match(text, at)
                event, at = decoder.raw_decode(text, start.end() if start else at)
                if isinstance(event, dict):
                    yield event
                if seam is None and (seam := _SEAM.match(text, at - 1)):
                    events, at = _decode_many(text, seam.end() - 1, seam[0])
                    yield from events
        except (ValueError, RecursionError):
            more = read(_CHUNK_CHARS)
            text, at = text[at:] + more, 0
            if not more or text[0] == "]" or len(text) > _MAX_EVENT_CHARS:
                return


def _decode_many(text: str, at: int, seam: str) -> tuple[list[dict[str, Any]], int]:
    """Return the events before the last seam at once, and where the next one begins.

    None where that is no list of events: the seam was inside one, or one is damaged.
    """
    last = text.rfind(seam, at)
    if last < 0:
        return [], at
    try:
        events = from_json(f"[{text[at : last + 1]}]", cache_strings="keys")
    except ValueError:
        return [], at
    return [one for one in events if isinstance(one, dict)], last + len(seam) - 1


def _read_nsys(path: str) -> Timeline:
    found = _make_timeline()
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        for table, side, place, name in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", found.kernels, "deviceId", "shortName"),
            ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", found.kernels, "deviceId", "'a CUDA graph'"),
            ("CUPTI_ACTIVITY_KIND_MEMCPY", found.copies, "deviceId", "copyKind"),
            ("CUPTI_ACTIVITY_KIND_MEMSET", found.copies, "deviceId", "'memset'"),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", found.calls, "globalTid", "nameId"),
            ("OSRT_API", found.work, "globalTid", "nameId"),
        ):
            if table in tables:
                read_rows(database, table, side, place, name)
        if "TARGET_INFO_GPU" in tables:
            rows = database.execute("SELECT * FROM TARGET_INFO_GPU LIMIT 1")
            columns = [column[0] for column in rows.description]
            row = dict(zip(columns, rows.fetchone() or (), strict=False))
            device, cc, gpu = parse_gpu_row(row)
            found = found._replace(device=device, cc=cc, gpu=gpu)
        with suppress(sqlite3.OperationalError):  # without the table, or a column
            found = found._replace(notes=list(describe_failures(database)))
    return found


def describe_timeline(timeline: Timeline, name: str) -> tuple[list[GpuTime], ProfiledLaunch]:
    """Return a program as a launch of no kernel: metrics of the whole, and where its time goes.

    Before it the time of each of its GPUs.

    Args:
        timeline: What ran when.
        name: Of the file, for messages.

    Raises:
        KbError: Nothing of a GPU is in it.
    """
    steps = find_steps(_chain(timeline.work))
    if steps and any(one.start < steps[0].start for one in _chain(timeline.kernels)):
        timeline = _cut(timeline, steps[0].start)
    names = sorted({*timeline.kernels, *timeline.copies}, key=str)
    gpus = [_measure_gpu(timeline, gpu) for gpu in names]
    if not gpus:
        raise KbError(f"{name} holds no work of a GPU; record its activities as well")
    tables = _make_tables(timeline)
    # Which calls take longer says nothing here: the gaps say whether launches leave the GPU idle.
    program = describe_program(tables)._replace(metrics={})
    host = _find_host(timeline)
    says = (
        *chain(timeline.notes, *map(describe_gpu, gpus)),
        *(_describe_idle(host, gpus) if host else ()),
        *program.says,
        *describe_steps(steps),
        *describe_most(tables.kernels, sum(gpu.us for gpu in gpus)),
        *_describe_lines(timeline, tables.kernels),
    )
    hottest = max(tables.kernels, key=lambda row: row.us, default=None)
    return gpus, program._replace(
        metrics=_measure_program(timeline, host, gpus),
        device=timeline.device,
        cc=timeline.cc,
        gpu=timeline.gpu,
        says=says,
        hottest=name_function(hottest.name) if hottest else "",
    )


def _measure_program(
    timeline: Timeline, host: _HostThreads | None, gpus: list[GpuTime]
) -> dict[str, float]:
    metrics = {key: sum(g.shares[key] for g in gpus) / len(gpus) for key in gpus[0].shares}
    if not any(_is_communication(span.name) for span in _chain(timeline.kernels)):
        del metrics["communication_exposed_share"]
    metrics |= _measure_host(host, gpus)
    if (breaks := find_graph_breaks(_chain(timeline.work))) is not None:
        metrics["graph_break_count"] = breaks
    is_xla = any(_is_xla_call(span.name) for span in _chain(timeline.calls))
    if is_xla or any(span.name.startswith("aten::") for span in _chain(timeline.work)):
        metrics |= {"xla_program": float(is_xla), "torch_program": float(not is_xla)}
    return metrics


def _measure_gpu(timeline: Timeline, gpu: object) -> GpuTime:
    kernels, copies = timeline.kernels[gpu], timeline.copies[gpu]
    busy = merge([*kernels, *copies])
    us = max(busy[-1][1] - busy[0][0], 1e-3)
    idle = [(left[1], right[0]) for left, right in pairwise(busy)]
    talking = [one for one in kernels if _is_communication(one.name)]
    computing = [one for one in kernels if not _is_communication(one.name)]
    exchanged = [one for one in copies if _HOST_COPY.search(one.name)]
    others = [one for one in copies if not _HOST_COPY.search(one.name)]
    blocking = merge(one for one in _chain(timeline.calls) if _is_blocking(one.name))
    alone = subtract(merge(talking), merge([*computing, *others]))
    shares = {
        "gpu_idle_share": measure(idle) / us,
        "copy_exposed_share": measure(subtract(merge(exchanged), merge([*kernels, *others]))) / us,
        "communication_exposed_share": measure(alone) / us,
        "sync_idle_share": measure(intersect(idle, blocking)) / max(measure(idle), 1e-3),
    }
    gaps = measure_gaps([one[:2] for one in (*kernels, *copies)], idle, blocking)
    return GpuTime(str(gpu), us, idle, shares, measure(merge(computing)), gaps)


def _chain(side: Mapping[Any, list[Span]]) -> Iterator[Span]:
    return chain.from_iterable(side.values())


class _HostThreads(NamedTuple):
    """The threads that launch much, as one: torch launches a backward pass from its own."""

    calls: list[Span]
    work: list[Span]
    waits: Intervals
    """When one waits and no other works."""
    own_code: Intervals
    """When for long none calls CUDA, is in an operator that does, waits or fetches data."""


def _find_host(timeline: Timeline) -> _HostThreads | None:
    """Return the threads that launch much; None without calls."""
    counts = {
        thread: sum(1 for one in spans if _is_launch(one.name))
        for thread, spans in timeline.calls.items()
    }
    most = max(counts, key=lambda one: counts[one], default=None)
    if most is None or counts[most] < _MIN_LAUNCHES:
        return None
    threads = [
        thread
        for thread, count in counts.items()
        if count >= _LAUNCHING_SHARE * counts[most] and _find_process(thread) == _find_process(most)
    ]
    waits, busy = dict[object, Intervals](), dict[object, Intervals]()
    for thread in threads:
        own = [*timeline.calls[thread], *timeline.work[thread]]
        waits[thread] = merge(s for s in own if _is_blocking(s.name) or _is_host_wait(s.name))
        busy[thread] = subtract(merge(own), waits[thread])
    idle = (
        subtract(waits[one], merge(chain.from_iterable(busy[x] for x in threads if x != one)))
        for one in threads
    )
    calls, work = (
        [span for thread in threads for span in side[thread]]
        for side in (timeline.calls, timeline.work)
    )
    waited = merge(chain.from_iterable(idle))
    others = [*waited, *(one for one in work if _is_fetch(one.name))]
    operators = (one for one in work if one.name not in timeline.frames and "#" not in one.name)
    own_code = find_own_code(merge(calls), merge(operators), others)
    return _HostThreads(calls, work, waited, own_code)


def _find_process(thread: object) -> object:
    """Return the process of a thread; nsys writes both in one number."""
    if isinstance(thread, int):
        return thread >> _NSYS_THREAD_BITS
    return str(thread).partition("/")[0]


def _measure_host(host: _HostThreads | None, gpus: Sequence[GpuTime]) -> dict[str, float]:
    """Return how busy the host is from its first launch to its last, and what waits for its data.

    As far as the timeline shows where it waits: in calls of CUDA, for data, and in its system.
    """
    if host is None:
        return {}
    launches = [one for one in host.calls if _is_launch(one.name)]
    start, end = min(launches).start, max(one.end for one in launches)
    waited = measure(intersect([(start, end)], host.waits)) / max(end - start, 1e-3)
    fetches = merge(one for one in host.work if _is_fetch(one.name))
    own = (
        measure(intersect(gpu.idle, host.own_code)) / max(measure(gpu.idle), 1e-3) for gpu in gpus
    )
    shares = {"host_busy_share": 1 - waited, "host_code_idle_share": statistics.fmean(own)}
    if not fetches and not any(one.name.startswith("aten::") for one in host.work):
        return shares  # it may fetch data in a way that was not traced
    without_data = statistics.fmean(measure(intersect(gpu.idle, fetches)) / gpu.us for gpu in gpus)
    return {**shares, "data_idle_share": without_data}


def _make_tables(timeline: Timeline) -> ProgramTables:
    sides = timeline.kernels, timeline.calls, timeline.copies
    kernels, calls, copies = (count_spans(_chain(side)) for side in sides)
    return ProgramTables(kernels, calls, copies, cpu_us=None, gpu_us=None)


def _describe_idle(host: _HostThreads, gpus: Sequence[GpuTime]) -> Iterator[str]:
    """Yield what the host did while GPUs were idle, then its own code among it."""
    spans = nest([*host.calls, *host.work])
    yield from describe_gaps([gpu.idle for gpu in gpus], spans)
    own = [intersect(gpu.idle, host.own_code) for gpu in gpus]
    share = sum(map(measure, own)) / sum(gpu.us for gpu in gpus)
    yield from describe_own_code(share, merge(chain.from_iterable(own)), spans)


def _describe_lines(timeline: Timeline, rows: Iterable[TableRow]) -> Iterator[str]:
    """Yield the lines of Python that call the kernels that take most of the time."""
    lines = []
    for row in sorted(rows, key=lambda row: -row.us)[:_SHOWN]:
        thread, moment = timeline.callers.get(timeline.firsts.get(row.name, -1), ("", 0.0))
        around = [s for s in timeline.work[thread] if s.start <= moment <= s.end] if thread else []
        if line := name_line(around):
            lines.append(f"{name_function(row.name)[:60]} by {line}")
    if lines:
        yield f"called: {', '.join(lines)}"
