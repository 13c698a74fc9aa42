"""Reads a binary report (.ncu-rep), with the ncu-report package or ncu: launches and code."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from math import isfinite
from mmap import ACCESS_READ, mmap
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kernelkb.decide.kernel_phases import ACTIVE, BLOCKS, Samples
from kernelkb.errors import KbError, format_install_command
from kernelkb.profiles.launch import (
    GPU_ATTRIBUTE,
    NcuRule,
    ProfiledLaunch,
    RawName,
    parse_gpu_attributes,
    parse_rule_estimate,
    split_instance,
)
from kernelkb.profiles.machine_code import (
    disassemble,
    explain_missing_disassembler,
    find_disassembler,
    iter_cubins,
    read_frame_sizes,
)
from kernelkb.profiles.ncu_csv import read_details_page, read_raw_page
from kernelkb.profiles.reader_process import ReaderProcess, has_reader, read_in_process
from kernelkb.sass.function import (
    Instruction,
    Place,
    SassFunction,
    fill_calling_places,
    parse_instruction,
)

_DEBUG_SECTION = b".nv_debug_info_reg_sass"
"""Only ``nvcc -G`` writes it; compilers that keep lines, as Triton does, write others."""
_FRAME_SECTION = b".nv.info"
_WORKERS = 4
_SMALL_BYTES = 64 * 2**10
"""Of an image; disassembling one whole takes as long as starting nvdisasm (0.6 s, two cores)."""
_MAX_FORESEEN = 4
"""Images; of a report with more, not all are needed."""

_MAX_CODE_BYTES = 4 * 2**20
"""Of one function; chosen, as large as what ``static_analysis`` reads of one image."""
_UNREADABLE = "???"
"""What the report's reader says of an instruction that it cannot disassemble."""
_CHECKED_COUNT = 16
"""Instructions whose lines, or else texts, have to be the same in the report and in an image."""
_MAX_PADDING = 15
"""Instructions behind the last one that can run: a branch to itself, and NOPs up to 128 bytes."""
_SAME_LINES_SHARE = 0.75
"""Chosen: the report's reader names for code without a line the line before, and of code from
headers one of the lines."""
MAGIC = b"NVR\0"
"""First bytes of a ``.ncu-rep`` file."""
COMPRESSED_MAGIC = b"\x28\xb5\x2f\xfd"
"""Of a ``.ncu-repz`` file, which is compressed with Zstandard; the reader unpacks it."""
_TIMEOUT_S = 120.0
"""Maximum duration of one export by ncu."""
_CSV_CURE = (
    "or write a CSV page where ncu is installed: "
    "ncu --import REPORT --csv --page raw --print-units base"
)


_SAMPLED = re.compile(r"(?:pmsampling:|\w+\.Triage\w+\.)(?P<counter>[\w.]+)")
"""Names of sampled counters: until 2025.3, and since then with the group that samples them."""
_MOST_FILLED = 2
"""Samples with those that were dropped ÷ those that are there, above which there is no timeline."""
_PEAK = ".avg.pct_of_peak_sustained_elapsed"
_SERIES = {
    "sm__cycles_active.avg": ACTIVE,
    "gr__ctas_launched_realtime.sum": BLOCKS,
    "gr__ctas_launched_queue_sync.sum": BLOCKS,
    f"dramc__read_throughput{_PEAK}": "device memory reads",
    f"dram__read_throughput{_PEAK}": "device memory reads",
    f"dramc__write_throughput{_PEAK}": "device memory writes",
    f"dram__write_throughput{_PEAK}": "device memory writes",
    f"lts__throughput{_PEAK}": "L2",
    f"l1tex__throughput{_PEAK}": "L1",
    f"sm__inst_executed_realtime{_PEAK}": "issue slots",
    f"sm__pipe_tensor_cycles_active_realtime{_PEAK}": "tensor cores",
    f"sm__pipe_fp64_cycles_active_realtime{_PEAK}": "FP64 pipe",
    f"sm__inst_executed_pipe_xu_realtime{_PEAK}": "XU pipe",
}
"""What each sampled counter is of."""
_LEAST_TIMES = 8


class LoadedReport(NamedTuple):
    """A report that was loaded."""

    launches: Launches
    images: ReportImages


class Launches:
    """The launches of a report, as the ncu-report package has them; each is loaded when asked for.

    Loading one takes up to a tenth of a second, and the package does not keep it.
    """

    def __init__(self, context: Any) -> None:
        """List the launches of a report that was loaded."""
        self._context = context  # what it returns does not keep it alive
        ranges = [context.range_by_idx(number) for number in range(context.num_ranges())]
        self._places = [(part, at) for part in ranges for at in range(part.num_actions())]
        self._loaded: dict[int, Any] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)

    def load(self, index: int) -> Any:
        """Return one of them."""
        if index not in self._loaded:
            part, at = self._places[index]
            self._loaded[index] = part.action_by_idx(at)
        return self._loaded[index]


def load_report(path: Path) -> LoadedReport:
    """Return a report, loaded again only if it was written since.

    Raises:
        ImportError: The ncu-report package is not installed.
    """
    status = path.stat()
    return _load(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)  # threads of benchmarks/zoo read several at once
def _load(path: Path, _written_ns: int, _size: int) -> LoadedReport:
    context = importlib.import_module("ncu_report").load_report(str(path))
    return LoadedReport(Launches(context), ReportImages(path))


def start_disassembly(path: Path) -> None:
    """Start to disassemble the code of a report in this process, if it is little."""
    load_report(path).images.start_small()


def read_binary(
    path: Path, wanted: Sequence[RawName], ncu: str | None, reader: ReaderProcess | None = None
) -> list[ProfiledLaunch]:
    """Return every launch in a ``.ncu-rep`` file; one that is damaged has no name.

    Args:
        path: The file.
        wanted: Metrics to read, with their raw names.
        ncu: Path of the ncu command, used if the ``ncu-report`` package is not installed; or None.
        reader: A process for this and later calls; by default one for this call.

    Raises:
        KbError: No reader is installed, or it fails on the file, or ncu finds no launch there.
    """
    if has_reader():
        if reader is not None:
            reader.call(start_disassembly, path)
        return read_in_process(_read_launches, path, wanted, reader=reader)
    if ncu is None:
        gap = "reading a .ncu-rep file takes the ncu-report package or ncu itself"
        raise KbError(f"{gap}: {format_install_command('reports')}, {_CSV_CURE}")
    return _read_with_ncu(path, wanted, ncu)


def _read_launches(path: Path, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    reader = importlib.import_module("ncu_report")
    report = load_report(path)
    return [
        _build_launch(reader, report.launches.load(at), wanted, report.images)
        for at in range(len(report.launches))
    ]


def _build_launch(
    reader: Any, action: Any, wanted: Sequence[RawName], images: ReportImages
) -> ProfiledLaunch:
    built = images.measure_build(action.name(action.NameBase_MANGLED))
    shape = (_read_shape(action, "launch__grid_dim"), _read_shape(action, "launch__block_dim"))
    device = action.metric_by_name(f"{GPU_ATTRIBUTE}display_name")
    cc, gpu = parse_gpu_attributes(lambda name: _read_attribute(action, name))
    return ProfiledLaunch(
        action.name(action.NameBase_DEMANGLED) or "",
        dict(_iter_metrics(action, wanted)) | built,
        str(device.value()) if device is not None else "",
        shape,
        tuple(_iter_rules(reader, action)),
        cc=cc,
        gpu=gpu,
        samples=_read_samples(action),
    )


def _read_samples(action: Any) -> Samples | None:
    """Return the counters that were sampled as a launch ran, of one pass: of equal times.

    The first sample is the mean of all, and has no time.
    """
    found: dict[str, Any] = {}
    for name in action.metric_names():
        sampled = _SAMPLED.fullmatch(name)
        series = _SERIES.get(sampled["counter"]) if sampled else None
        if series is not None and series not in found:
            found[series] = action.metric_by_name(name)
    times = found[ACTIVE].correlation_ids() if ACTIVE in found else None
    if times is None or (count := times.num_instances()) < _LEAST_TIMES:
        return None
    ends = (times.as_uint64(1), times.as_uint64(count - 1))
    if ends[0] >= ends[1]:
        return None
    read = {
        name: tuple(
            metric.as_double(at) * (1.0 if name in (ACTIVE, BLOCKS) else 0.01)
            for at in range(1, count)
        )
        for name, metric in found.items()
        if _has_times(metric, count, ends)
    }
    finite = {name: row for name, row in read.items() if all(map(isfinite, row))}
    repeats = _count_repeats([times.as_uint64(at) for at in range(1, count)])
    if sum(repeats) > _MOST_FILLED * count:
        return None
    filled = {
        name: tuple(value for value, n in zip(row, repeats, strict=True) for _ in range(n))
        for name, row in finite.items()
    }
    step_us = (ends[1] - ends[0]) / (sum(repeats) - 1) / 1e3
    return Samples(step_us, filled, sum(repeats) - len(repeats))


def _count_repeats(times: Sequence[int]) -> list[int]:
    """Return how often each sample stands for itself and those that were dropped after it."""
    steps = [max(1, after - before) for before, after in pairwise(times)]
    usual = median(steps)
    return [*(max(1, round(step / usual)) for step in steps), 1]


def _has_times(metric: Any, count: int, ends: tuple[int, int]) -> bool:
    """Return whether a counter was sampled as often as another, from the same time to the same."""
    times = metric.correlation_ids() if metric.num_instances() == count else None
    return times is not None and (times.as_uint64(1), times.as_uint64(count - 1)) == ends


def _read_attribute(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(f"{GPU_ATTRIBUTE}{name}")
    value = metric.value() if metric is not None and metric.has_value() else None
    return float(value) if isinstance(value, int | float) else None


def _read_shape(action: Any, name: str) -> str:
    found = [action.metric_by_name(f"{name}_{axis}") for axis in "xyz"]
    return "" if None in found else f"({', '.join(f'{one.value():.0f}' for one in found)})"


def _iter_metrics(action: Any, wanted: Sequence[RawName]) -> Iterator[tuple[str, float]]:
    for one in wanted:
        for name in one.names:
            counter, label = split_instance(name)
            metric = action.metric_by_name(counter)
            value = _read_value(metric, label) if metric is not None else None
            finite = isinstance(value, int | float) and value - value == 0
            known = one.to_metric_unit(value if finite else None, metric.unit() if finite else "")
            if known is not None:
                yield one.metric, known
                break


def _read_value(metric: Any, label: str) -> Any:
    """Return the value of a metric, or of its instances with a label: 0 if none has it."""
    if not label:
        return metric.value() if metric.has_value() else None
    labels = metric.correlation_ids() if metric.num_instances() else None
    if labels is None:
        return None
    found = (at for at in range(metric.num_instances()) if labels.as_string(at) == label)
    return sum(metric.as_uint64(at) for at in found)


def _iter_rules(reader: Any, action: Any) -> Iterator[NcuRule]:
    for row in action.rule_results_as_dicts():
        message = row.get("rule_message", {})
        says = ": ".join(part for part in (message.get("title"), message.get("message")) if part)
        if not says:
            continue
        guess = row.get("speedup_estimation", {})
        scope = "global" if guess.get("type") == reader.SpeedupType_GLOBAL else "local"
        yield NcuRule(
            row["rule_identifier"],
            _strip_links(says),
            *parse_rule_estimate(guess.get("speedup"), scope),
        )


def _strip_links(text: str) -> str:
    """Return a message with ncu's links, ``@section:Name:text@``, replaced by their text."""
    return re.sub(r"@(?:section|url|source):[^:@]*:([^@]*)@", r"\1", text)


def _read_with_ncu(path: Path, wanted: Sequence[RawName], ncu: str) -> list[ProfiledLaunch]:
    raw = _export_page(path, ncu, "raw", "--print-units", "base")
    details = read_details_page(_export_page(path, ncu, "details"), wanted)
    launches = read_raw_page(raw, wanted)
    if len(details) != len(launches):
        return launches
    return [one._replace(rules=other.rules) for one, other in zip(launches, details, strict=True)]


def _export_page(path: Path, ncu: str, page: str, *options: str) -> str:
    words = [ncu, "--import", str(path), "--csv", "--page", page, *options]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KbError(f"ncu could not read {path}: {error}") from error
    if '"Kernel Name"' not in done.stdout:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise KbError(f"ncu found no launch in {path}: {said[-1] if said else 'it said nothing'}")
    return done.stdout


class _Run(NamedTuple):
    """A run of nvdisasm on an image."""

    functions: Future[list[SassFunction]]
    names: frozenset[str] | None
    """Mangled, of what it disassembles; None: of all."""


class ReportImages:
    """The images with machine code in a report."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet; ``path`` is the report."""
        self._path = path
        self._pool = ThreadPoolExecutor(_WORKERS)  # each waits for a process
        self._runs: dict[bytes, _Run] = {}
        self._debug_images: list[bytes] | None = None
        self._frames: dict[str, set[int]] = {}

    def start_small(self) -> None:
        """Start to disassemble them all if they are few and small, before it is asked for."""
        images = self._read(b"")
        if len(images) <= _MAX_FORESEEN and all(len(one) <= _SMALL_BYTES for one in images):
            for image in images:
                self._start(image, frozenset())

    def start(self, names: Collection[str]) -> None:
        """Start to disassemble functions, given by their mangled names: one run for each image."""
        held: dict[bytes, set[str]] = {}
        for name in names:
            for image in self._read(name.encode()):
                held.setdefault(image, set()).add(name)
        for image, own in held.items():
            self._start(image, frozenset(own))

    def find(self, name: str) -> Iterable[Future[list[SassFunction]]]:
        """Yield what each image that holds a name disassembles to; others may be among it."""
        for image in self._read(name.encode()):
            yield self._start(image, frozenset((name,)))

    def measure_build(self, name: str) -> dict[str, float]:
        """Return what the images say of a function, by metric id.

        That is its stack frame, and whether it was compiled without optimisation, for a debugger.

        Args:
            name: Mangled.
        """
        if self._debug_images is None:
            self._debug_images = self._read(_DEBUG_SECTION)
            for image in self._read(_FRAME_SECTION):
                for function, size in read_frame_sizes(image).items():
                    self._frames.setdefault(function, set()).add(size)
        frames = self._frames.get(name, set())
        found = {"stack_bytes": float(max(frames))} if len(frames) == 1 else {}
        if any(name.encode() in image for image in self._debug_images):
            found["debug_build"] = 1.0
        return found

    def _read(self, name: bytes) -> list[bytes]:
        """Return the images that hold a name; symbols are not parsed: a library has thousands."""
        with self._path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return list(iter_cubins(data, name))

    def _start(self, image: bytes, names: frozenset[str]) -> Future[list[SassFunction]]:
        key = blake2b(image).digest()
        run = self._runs.get(key)
        if run is None or (run.names is not None and not names <= run.names):
            wanted = None if len(image) <= _SMALL_BYTES else names
            functions = self._pool.submit(disassemble, image, None if wanted is None else [*wanted])
            run = self._runs[key] = _Run(functions, wanted)
        return run.functions


class ReadCode(NamedTuple):
    """The code of a launch."""

    function: SassFunction
    base: int
    """Address of its first instruction."""
    reason: str | None
    """Why it is only what the reader says: without control bits; None if it was disassembled."""


def read_function(
    action: Any, code: ReportImages, counted: Mapping[str, Mapping[int, float]]
) -> ReadCode:
    """Return the code of a launch: disassembled from an image, or else as the reader says it.

    Args:
        action: The launch.
        code: The images of its report.
        counted: Each counter with its values by address.

    Raises:
        KbError: The report is damaged.
    """
    name = action.name(action.NameBase_MANGLED)
    base = min(min(values) for values in counted.values() if values)
    if find_disassembler() is None:
        return ReadCode(
            _read_text(action, name, counted, base), base, explain_missing_disassembler()
        )
    reason = "the report holds no image of its code"
    for run in code.find(name):
        try:
            functions = run.result()
        except KbError as error:
            reason = str(error)
            continue
        for function in functions:
            if function.name == name and _is_same_code(action, function, counted, base):
                return ReadCode(function, base, None)
    return ReadCode(_read_text(action, name, counted, base), base, reason)


def _is_same_code(
    action: Any, function: SassFunction, raw: Mapping[str, Mapping[int, float]], base: int
) -> bool:
    """Return whether a function is the one that was counted.

    The lines of some instructions are compared; without lines, its size: up to the padding, all of
    it has counters. Their text is compared only where most lines differ: the report's reader
    disassembles the function for it, which takes most of a second.
    """
    addresses = sorted({pc for values in raw.values() for pc in values})
    index_of = {base + one.offset: at for at, one in enumerate(function.instructions)}
    known = [(pc, index_of[pc]) for pc in addresses if pc in index_of]  # others: functions it calls
    sampled = known[:: max(1, len(known) // _CHECKED_COUNT)]
    with_lines = [(pc, at) for pc, at in sampled if function.places[at]]
    if not with_lines:
        return bool(known) and known[-1][1] + _MAX_PADDING >= len(function.instructions) - 1
    same = sum(_has_same_line(action, function, pc, at) for pc, at in with_lines)
    if same >= _SAME_LINES_SHARE * len(with_lines):
        return True
    return all(_has_same_operation(action, function, pc, at) for pc, at in sampled)


def _has_same_line(action: Any, function: SassFunction, pc: int, at: int) -> bool:
    info = action.source_info(pc)
    return info is not None and any(info.line() == place.line for place in function.places[at])


def _has_same_operation(action: Any, function: SassFunction, pc: int, at: int) -> bool:
    said = parse_instruction(0, action.sass_by_pc(pc))
    return bool(said.operation == function.instructions[at].operation)


def _read_text(
    action: Any, name: str, raw: Mapping[str, Mapping[int, float]], base: int
) -> SassFunction:
    """Return the code as the report says it: without control bits, inner lines only.

    Of a GPU that the report's reader knows no more (sm_70 in 2026), only the lines are known.

    Raises:
        KbError: The addresses are too far apart for one function.
    """
    last = max(pc for values in raw.values() for pc in values)
    if last - base > _MAX_CODE_BYTES:
        raise KbError("the report's addresses are those of no code; is it damaged?")
    instructions: list[Instruction] = []
    places: list[tuple[Place, ...]] = []
    labels: dict[str, int] = {}
    for pc in range(base, last + 16, 16):
        text = action.sass_by_pc(pc)
        if not text:
            continue
        if text == _UNREADABLE:
            text = ""
        labels[f"{pc:#x}"] = len(instructions)
        instructions.append(parse_instruction(pc - base, text))
        info = action.source_info(pc)
        places.append((Place(info.file_name(), info.line()),) if info is not None else ())
    return SassFunction(name, tuple(instructions), fill_calling_places(places), labels)
