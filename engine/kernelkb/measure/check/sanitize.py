"""Runs a candidate once more, without a judge: under sanitizers, or to see where it does not end.

compute-sanitizer and those of g++ find out-of-bounds accesses, races and uninitialized reads. On a
CPU the program counters of a candidate that does not end are sampled, which needs no debugger.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import EnvironmentGapError
from kernelkb.measure.build.build import build
from kernelkb.measure.explain.watch import (
    MappedPart,
    ThreadState,
    find_part,
    list_family,
    read_maps,
    take_sample,
)
from kernelkb.measure.job_specs import (
    count_input_elements,
    format_sizes,
    make_candidate_spec,
    make_case_spec,
    make_code_spec,
    make_reference_spec,
)
from kernelkb.measure.machine.host import find_cuda_tool, find_cxx
from kernelkb.measure.process.subprocesses import (
    SupervisedProgram,
    run_supervised,
    scratch_folder,
    start_supervised,
)
from kernelkb.measure.process.system_call_filter import name_system_call
from kernelkb.measure.process.worker_jobs import keep_own_cores, run_job, write_job
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import RepeatJob
from kernelkb.model.records.measurement import Build
from kernelkb.progress import report_progress, sleep_cancellable
from kernelkb.safety.untrusted_text import to_one_line

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TIMEOUT_S = 120.0
_TOOL_S = 20.0
"""For each tool that was not asked for."""
_FINDING_LINE = re.compile(r"^=+ (?P<text>(?:Invalid|Error|Race|Warning|Uninitialized|Barrier).+)$")
_SUMMARY_COUNT = re.compile(r"(?<!\d)(?P<count>\d+) (?:error|hazard)s?\b")
_MAX_INPUT_ELEMENTS = 2**18
"""Of a workload that is small enough: a kernel runs some hundred times slower under a tool."""
_CONTEXT_LINES = 3
_LOG_LINE = re.compile(r"^=========(?: (?P<indent> +)?(?P<text>\S.*?))?\s*$")
_ANY_SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (?P<count>[\d,]+) ", re.MULTILINE)
_MAX_LOG_BYTES = 2**20
_NO_FINDING = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Target ",
    "Error: Target",
)
_LEFT_OUT = ("Saved host backtrace",)
_SANITIZER_FLAGS = ("-fsanitize=address,undefined", "-g", "-O1", "-fno-omit-frame-pointer")
_SANITIZER_ENV = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=0"}
_UNDEFINED = re.compile(r"^(?P<place>\S+:\d+):\d+: runtime error: (?P<text>.+)$", re.MULTILINE)
_ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)")
_ACCESS = re.compile(r"\b(?:READ|WRITE) of size \d+")
_FRAME = re.compile(
    r"#\d+ 0x[0-9a-f]+ in (?P<function>\S+?)(?:\([^\n]*\))? (?P<place>/\S+\.\w+:\d+)"
)
_BLOCK = re.compile(
    r"is located (?P<text>\d+ bytes (?:to the (?:right|left) of|inside of|after|before) \d+-byte "
    r"region)"
)
_OWN_ALLOCATIONS = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
"""Each tensor is an allocation of its own: an access behind it is found, and its size told."""

_COMPILING_S, _LOADING_S, _SETTLING_S = 6.0, 12.0, 3.0
"""Importing torch takes some 4 s; then the inputs are made."""
_SAMPLE_COUNT, _BETWEEN_S = 20, 0.1
_MIN_SHARE = 0.25
"""Of the samples: a thread that is in the candidate's lines less often does not stay there."""
_TRANSLATION_S = 4.0
_POLL_S = 0.1
_MAX_ADDRESSES = 2000
_MAX_PLACES = 3
_MAX_NAME = 80
_SEGMENT = struct.Struct("<II4Q")
"""Of ELF's program headers: type, flags, offset in the file, address, another one, bytes there."""
_ASKED_ADDRESS = re.compile(r"0x[0-9a-f]+")
_PLACE = re.compile(r"(?P<file>\S.*):(?P<line>\d+)(?: \(discriminator \d+\))?")
_CLONE = re.compile(r"(?:\.(?:_omp_fn|constprop|isra|part|cold|lto_priv)\b| \[clone ).*")
"""What g++ adds to the name of a function that it made of another one."""
_LIBRARY_NAMES = ("std::", "void std::", "__gnu_cxx::", "??")
"""Of functions that a lambda of the candidate's was inlined into, or that are not known."""
_WAIT_LIBRARIES = ("libgomp", "libomp", "libiomp5", "libpthread")
"""Their threads wait in them, some without a system call; of kernels they compute nothing."""


class SanitizerFinding(NamedTuple):
    """Errors that one tool reported."""

    tool: str
    error_count: int
    message: str
    """The first of them, with the lines that locate it."""


class SanitizerReport(NamedTuple):
    """Findings of all tools, or why none finished."""

    findings: tuple[SanitizerFinding, ...]
    finished_tools: tuple[str, ...]
    reason: str | None = None
    cure: str | None = None


def sanitize(
    subject: MeasurementSubject, build: Build, tools: Sequence[str] = TOOLS
) -> SanitizerReport:
    """Run a candidate once on each small workload under each tool.

    Args:
        subject: What to run.
        build: Its build, which must not have failed.
        tools: Some of ``TOOLS``.
    """
    program = find_cuda_tool("compute-sanitizer")
    if program is None:
        cure = "install the CUDA toolkit's compute-sanitizer, or put it on PATH"
        return SanitizerReport((), (), "compute-sanitizer was not found", cure)
    findings: list[SanitizerFinding] = []
    finished: list[str] = []
    for tool in tools:
        log = _run_tool(program, tool, subject, build)
        if log is None:
            continue
        finished.append(tool)
        finding = parse_finding(tool, log)
        if finding is not None:
            findings.append(finding)
    if not finished:
        detail = f"no tool of compute-sanitizer ended within {TIMEOUT_S:g} s"
        return SanitizerReport((), (), detail, "add a small workload to check_workloads")
    return SanitizerReport(tuple(findings), tuple(finished))


def find_fault(subject: MeasurementSubject, build: Build, tools: Sequence[str]) -> str | None:
    """Return the first finding of compute-sanitizer's tools: one call on each small workload.

    None: they found nothing, did not end in time, or there is no compute-sanitizer.

    Args:
        subject: What runs, on a GPU, in its sandbox.
        build: Its build.
        tools: Some of ``TOOLS``.
    """
    program = find_cuda_tool("compute-sanitizer")
    for tool in tools if program else ():
        log = _run_tool(str(program), tool, subject, build, _TOOL_S)
        if log and (found := quote_finding(log)):
            return f"{tool}: {found}"
    return None


def make_repeat_job(subject: MeasurementSubject, build: Build) -> RepeatJob:
    """Return a job that runs a candidate once on each small workload, without a judge."""
    code, kernel_folder = make_code_spec(subject, build), subject.kernel_folder
    kernel = kernel_folder.kernel
    runs_without_torch = code["kind"] == "c" and subject.variant.target == "cuda"
    workloads = [*kernel.check_workloads, *kernel.workloads.values()]
    small = [w for w in workloads if count_input_elements(kernel_folder, w) <= _MAX_INPUT_ELEMENTS]
    return {
        "mode": "repeat-without-torch" if runs_without_torch else "repeat",
        "target": subject.variant.target,
        "reference": make_reference_spec(kernel_folder),
        "code": code,
        "cases": [
            make_case_spec(kernel_folder, format_sizes(sizes), sizes)
            for sizes in small or workloads[:1]
        ],
        "call_count": 1,
    }


def make_sandbox_words(subject: MeasurementSubject, build: Build, folder: Path) -> list[str]:
    """Return the words before those of a program that runs a candidate without a judge.

    Args:
        subject: What runs.
        build: Its build.
        folder: Its own, which it may write; files beside it are hidden from it.
    """
    command = make_candidate_spec(subject, build)["sandbox_command"]
    return [part.replace("{folder}", str(folder)) for part in command]


def _run_tool(
    program: str, tool: str, subject: MeasurementSubject, build: Build, limit_s: float = TIMEOUT_S
) -> str | None:
    """Return what a tool wrote on a candidate in its sandbox; None when it did not end in time."""
    with scratch_folder() as folder:
        own, log = folder / "own", folder / f"{tool}.log"  # the candidate prints what it likes
        own.mkdir()
        options = ("--tool", tool, "--target-processes", "all", "--log-file", str(log))
        wrapper = (program, *options, *make_sandbox_words(subject, build, own))
        run = run_job(make_repeat_job(subject, build), own, timeout_s=limit_s, wrapper=wrapper)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return None if run.process.timed_out else text


def sanitize_on_cpu(subject: MeasurementSubject, checked: Build) -> str | None:
    """Return what AddressSanitizer and UndefinedBehaviorSanitizer find in a C++ variant.

    It is built once more with them, beside its other builds, and called once on each small
    workload, without a judge. None: they found nothing, it is not a C function in C++, or the
    compiler has none of them.

    Args:
        subject: What to run, on a CPU.
        checked: The build that failed.
    """
    library = _find_sanitizer_library()
    variant = subject.variant
    if library is None or not variant.is_compiled or variant.binding != "c":
        return None
    instrumented, built = _build_again(subject, checked, _SANITIZER_FLAGS)
    if built.error:
        return None
    with scratch_folder() as folder:
        own = folder / "own"
        own.mkdir()
        words, env, log = write_job(make_repeat_job(instrumented, built), own)
        words = [*make_sandbox_words(instrumented, built, own), *words]
        both = {**env, **_SANITIZER_ENV, "LD_PRELOAD": library}
        with keep_own_cores():
            run_supervised(words, log=log, timeout_s=TIMEOUT_S, env=both)
        return quote_cpu_finding(log.read_text(encoding="utf-8", errors="replace"))


def _build_again(
    subject: MeasurementSubject,
    checked: Build,
    flags: Sequence[str],
    timeout_s: float = TIMEOUT_S,
) -> tuple[MeasurementSubject, Build]:
    """Return a variant with more flags, and its build: in the project, where a server may write."""
    variant = subject.variant.model_copy(update={"flags": (*subject.variant.flags, *flags)})
    flagged = subject._replace(variant=variant)
    root = Path(checked.directory).parents[1]
    return flagged, build(flagged, root, checked.defines, timeout_s)


@cache
def _find_sanitizer_library() -> str | None:
    """Return the library that has to be loaded first; None where the compiler is not g++."""
    compiler = find_cxx()
    if compiler is None:
        return None
    done = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    path = Path(done.stdout.strip())
    return str(path) if path.is_absolute() and path.exists() else None


def quote_cpu_finding(log: str) -> str | None:
    """Return the first finding of the sanitizers of g++ in one sentence; None without one.

    Its line is the first frame with one; a heap block's size and distance are told.
    """
    if found := _UNDEFINED.search(log):
        return f"{_base(found['place'])}: {found['text']}"
    found = _ADDRESS.search(log)
    if found is None:
        return None
    rest = log[found.end() :]
    words = [f"AddressSanitizer: {found['kind']}"]
    access, frame, block = _ACCESS.search(rest), _FRAME.search(rest), _BLOCK.search(rest)
    words += [access[0]] if access else []
    words += [f"in {frame['function']} at {_base(frame['place'])}"] if frame else []
    words += [block["text"]] if block else []
    return ", ".join(words)


def _base(place: str) -> str:
    return place.rpartition("/")[2]


class OwnLine(NamedTuple):
    """A line of a candidate's source, and the function that it is in."""

    function: str
    file: str
    line: int


_Chain = tuple[OwnLine, ...]
"""A function and those inlined into it, of the candidate's own files, the innermost last."""
_Sample = Mapping[int, ThreadState]
"""By the thread's id."""


class _Sampled(NamedTuple):
    process: int
    library: str
    samples: Sequence[_Sample]
    parts: list[MappedPart]


def find_endless_loop(subject: MeasurementSubject, checked: Build) -> str | None:
    """Return in which of its own lines a compiled variant stays on a CPU; takes up to 30 s.

    It is built once more with all of its debugging information, which changes no instruction: a
    loop may be endless only as it was optimized. It is called once on each small workload, in its
    sandbox and without a judge. None: it ended, no line is known, or Linux does not tell where a
    process is.

    Args:
        subject: What to run, on a CPU.
        checked: The build that did not end.
    """
    program = shutil.which("addr2line")
    if checked.library is None or program is None:
        return None
    report_progress("it has not ended: looking where it is", "notice")
    _, built = _build_again(subject, checked, ("-g",), _COMPILING_S)
    used = checked if built.library is None else built  # the first one has some lines, too
    with scratch_folder() as folder:
        own = folder / "own"
        own.mkdir()
        sampled = _sample_candidate(subject, used, own)
        if sampled is None:
            return None
        words = [*make_sandbox_words(subject, used, own), program, "-a", "-f", "-C", "-i", "-e"]
        asked = _list_addresses(sampled)
        words += [sampled.library, *map(hex, set(asked.values()))]
        log = folder / "places.log"
        run_supervised(words, log=log, timeout_s=_TRANSLATION_S)
        places = parse_places(log.read_text("utf-8", "replace"), subject.kernel_folder.folder)
    chains = {address: places[one] for address, one in asked.items() if places.get(one)}
    return describe_threads(sampled.samples, sampled.process, sampled.parts, chains)


def _sample_candidate(subject: MeasurementSubject, used: Build, folder: Path) -> _Sampled | None:
    """Return where a candidate's threads are; None: it ended, or Linux does not tell."""
    words, env, log = write_job(make_repeat_job(subject, used), folder)
    words = [*make_sandbox_words(subject, used, folder), *words]
    library = os.path.realpath(str(used.library))
    samples: list[_Sample] = []
    with keep_own_cores(), start_supervised(words, log=log, env=env) as program, suppress(OSError):
        process = _await_loading(program, library)
        if process is None:
            return None
        sleep_cancellable(_SETTLING_S)
        for _ in range(_SAMPLE_COUNT):
            sleep_cancellable(_BETWEEN_S)
            samples.append(take_sample(process))
        return _Sampled(process, library, samples, read_maps(process))
    return None


def _await_loading(program: SupervisedProgram, library: str) -> int | None:
    """Return the process of a program that has loaded a library; None: it did not, in time."""
    deadline = time.monotonic() + _LOADING_S
    while not program.has_ended() and time.monotonic() < deadline:
        sleep_cancellable(_POLL_S)
        for process in list_family(program.process):
            with suppress(OSError):  # it has ended, or Linux does not tell
                if any(part.file == library for part in read_maps(process)):
                    return process
    return None


def _list_addresses(sampled: _Sampled) -> dict[int, int]:
    """Return addresses at which threads compute in the library, and each as it is in its file."""
    image = Path(sampled.library).read_bytes()
    found: dict[int, int] = {}
    for state in (state for sample in sampled.samples for state in sample.values()):
        part = find_part(sampled.parts, state.address)
        if state.call is not None or part is None or part.file != sampled.library:
            continue
        own = find_virtual_address(image, state.address - part.begin + part.offset)
        if own is not None and len(found) < _MAX_ADDRESSES:
            found[state.address] = own
    return found


def find_virtual_address(image: bytes, offset: int) -> int | None:
    """Return the address that a byte of an ELF file is linked for; None where it has none.

    Args:
        image: The file.
        offset: Of the byte.
    """
    if not image.startswith(b"\x7fELF\x02\x01"):  # of 64 bits, little-endian
        return None
    begin, size, count = *struct.unpack_from("<Q", image, 32), *struct.unpack_from("<2H", image, 54)
    for index in range(count):
        header: Sequence[int] = _SEGMENT.unpack_from(image, begin + index * size)
        if header[0] == 1 and header[2] <= offset < header[2] + header[5]:  # PT_LOAD
            return offset - header[2] + header[3]
    return None


def parse_places(text: str, folder: Path) -> dict[int, _Chain]:
    """Return the lines of a candidate's own files, by address, of what addr2line prints.

    Args:
        text: With the options ``-a -f -C -i``.
        folder: Holds the candidate's files.
    """
    found: dict[int, list[OwnLine]] = {}
    lines = text.splitlines()
    current: list[OwnLine] = []
    for name, line in pairwise([*lines, ""]):
        if _ASKED_ADDRESS.fullmatch(name):
            current = found.setdefault(int(name, 16), [])
        elif (place := _PLACE.fullmatch(line)) and not _PLACE.fullmatch(name):
            file = Path(os.path.realpath(place["file"]))
            if int(place["line"]) and file.is_relative_to(os.path.realpath(folder)):
                is_library = name.startswith(_LIBRARY_NAMES)
                function = "" if is_library else to_one_line(_CLONE.sub("", name), _MAX_NAME)
                current.append(OwnLine(function, file.name, int(place["line"])))
    return {address: tuple(reversed(own)) for address, own in found.items()}


def describe_threads(
    samples: Sequence[_Sample],
    main: int,
    parts: Sequence[MappedPart],
    chains: Mapping[int, _Chain],
) -> str | None:
    """Return where the threads of a candidate stay, in one sentence; None where they do not.

    Args:
        samples: Of all its threads.
        main: The thread that called the candidate.
        parts: Of its memory.
        chains: Its own lines at the addresses at which its threads compute.
    """
    inside = defaultdict(list)
    for thread, state in (pair for sample in samples for pair in sample.items()):
        if state.call is None and state.address in chains:
            inside[thread].append(chains[state.address])
    busy = {one: own for one, own in inside.items() if len(own) >= _MIN_SHARE * len(samples)}
    wait = _describe_wait([sample.get(main) for sample in samples], parts)
    if busy:
        stay = "the thread stays" if len(busy) == 1 else f"{len(busy)} threads stay"
        also = f"; the thread that called it {wait}" if wait and main not in busy else ""
        return f"endless loop: {stay} in {_describe_loops(busy, len(samples))}{also}"
    computes = Counter(
        thread for sample in samples for thread, state in sample.items() if state.call is None
    )
    is_idle = max(computes.values(), default=0) < _MIN_SHARE * len(samples)
    return f"the thread that called it {wait}, and no thread computes" if wait and is_idle else None


def _describe_loops(busy: Mapping[int, list[_Chain]], sample_count: int) -> str:
    """Return the functions that threads are in, the most frequent first."""
    groups: dict[str, list[tuple[int, _Chain]]] = defaultdict(list)
    for thread, chains in busy.items():
        for chain in chains:
            groups[chain[0].function].append((thread, chain))
    told = []
    for own in sorted(groups.values(), key=len, reverse=True)[:_MAX_PLACES]:
        total = sample_count * len({thread for thread, _ in own})
        place = _describe_lines([chain for _, chain in own])
        told.append(f"{place} ({len(own)} of {total} samples)")
    return " and in ".join(told)


def _describe_lines(chains: Sequence[_Chain]) -> str:
    """Return the lines of one function; where all are of one line that it is inlined at, these."""
    level = 0
    while all(len(chain) > level + 1 for chain in chains) and len({c[level] for c in chains}) == 1:
        level += 1
    places = Counter(chain[level] for chain in chains)
    first = places.most_common(1)[0][0]
    lines = [own.line for own in places if own[:2] == first[:2]]
    several = f" to {max(lines)}" if max(lines) > min(lines) else ""
    outer = chains[0][level - 1] if level else None
    called = f", called at {outer.file}:{outer.line}" if outer else ""
    is_named = first.function and not (outer and outer.function == first.function)
    name = f"{first.function} at " if is_named else ""  # addr2line has not each inlined one's name
    return f"{name}{first.file}:{min(lines)}{several}{called}"


def _describe_wait(states: Sequence[ThreadState | None], parts: Sequence[MappedPart]) -> str | None:
    """Return what a thread waits in, where it does in each sample."""
    calls = {state.call for state in states if state}
    if None in states or len(calls) != 1:
        return None
    call = calls.pop()
    if call is not None:
        return f"waits in {name_system_call(call)}"
    found = {find_part(parts, state.address) for state in states if state}
    names = {Path(part.file).name for part in found if part}
    name = names.pop() if len(names) == 1 else ""
    return f"waits in {name}" if name.startswith(_WAIT_LIBRARIES) and None not in found else None


def quote_finding(log: str) -> str | None:
    """Return the first finding of a log in one sentence, with its line, thread and allocation.

    None where the log has none. Frames of the host are told where they are not of a library.
    """
    if not any(int(one["count"].replace(",", "")) for one in _ANY_SUMMARY.finditer(log)):
        return None
    words: list[str] = []
    for line in log.splitlines():
        mark = _LOG_LINE.match(line)
        text = (mark["text"] or "") if mark else ""
        if not words:
            if text and mark and not mark["indent"] and not text.startswith(_NO_FINDING):
                words.append(text)
        elif not text or (mark and not mark["indent"]):
            break
        elif text.startswith("Host Frame:"):
            if ".so" not in text:
                words.append(f"called by {text.removeprefix('Host Frame:').split('[')[0].strip()}")
                break
        elif not text.startswith(_LEFT_OUT) and (
            "Device Frame" not in text or not any(" in " in own for own in words)
        ):
            words.append(text)
    return ", ".join(words) or None


def sanitize_program(
    words: Sequence[str], tool: str, folder: Path, limit_s: float
) -> tuple[str | None, bool]:
    """Run any program under a tool; return its first finding, and whether it ended in time.

    Args:
        words: Program and arguments.
        tool: One of ``TOOLS``.
        folder: A scratch folder.
        limit_s: It is ended after so long.

    Raises:
        EnvironmentGapError: There is no compute-sanitizer.
    """
    program = find_cuda_tool("compute-sanitizer")
    if program is None:
        cure = "install the CUDA toolkit's compute-sanitizer, or put it on PATH"
        raise EnvironmentGapError("compute-sanitizer was not found", cure)
    target = folder / f"{tool}-%p.log"  # the program prints what it likes, elsewhere
    options = ("--target-processes", "all", "--print-limit", "4", "--log-file", str(target))
    run = run_supervised(
        [program, "--tool", tool, *options, *words],
        log=Path(os.devnull),
        timeout_s=limit_s,
        env=_OWN_ALLOCATIONS,
    )
    for log in sorted(folder.glob(f"{tool}-*.log")):
        with log.open("rb") as opened:
            text = opened.read(_MAX_LOG_BYTES).decode("utf-8", "replace")
        if found := quote_finding(text):
            return found, not run.timed_out
    return None, not run.timed_out


def parse_finding(tool: str, log: str) -> SanitizerFinding | None:
    """Return the finding that a tool's log reports; None where it reports no errors."""
    lines = log.splitlines()
    summary = next((s for line in reversed(lines) if (s := _SUMMARY_COUNT.search(line))), None)
    count = int(summary["count"]) if summary else 0
    if not count:
        return None
    for index, line in enumerate(lines):
        match = _FINDING_LINE.match(line.strip())
        if match:
            context = lines[index + 1 : index + 1 + _CONTEXT_LINES]
            details = (text.strip("= ").strip() for text in context)
            message = "; ".join([match["text"], *filter(None, details)])
            return SanitizerFinding(tool, count, message)
    return SanitizerFinding(tool, count, f"{count} findings")
