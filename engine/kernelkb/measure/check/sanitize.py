"""Runs compute-sanitizer on a candidate: out-of-bounds accesses, races, uninitialized reads."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import EnvironmentGapError
from kernelkb.measure.build.build import build
from kernelkb.measure.job_specs import (
    count_input_elements,
    format_sizes,
    make_candidate_spec,
    make_case_spec,
    make_code_spec,
    make_reference_spec,
)
from kernelkb.measure.machine.host import find_cuda_tool, find_cxx
from kernelkb.measure.process.subprocesses import run_supervised, scratch_folder
from kernelkb.measure.process.worker_jobs import keep_own_cores, run_job, write_job
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import RepeatJob
from kernelkb.model.records.measurement import Build

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TIMEOUT_S = 120.0
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
    job = make_repeat_job(subject, build)
    findings: list[SanitizerFinding] = []
    finished: list[str] = []
    for tool in tools:
        log = _run_tool(program, tool, job)
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


def _run_tool(program: str, tool: str, job: RepeatJob) -> str | None:
    """Return what a tool printed; None when it did not end in time."""
    with scratch_folder() as folder:
        wrapper = (program, "--tool", tool, "--target-processes", "all")
        run = run_job(job, folder, timeout_s=TIMEOUT_S, wrapper=wrapper)
        log = (folder / f"{job['mode']}.log").read_text(encoding="utf-8", errors="replace")
    return None if run.process.timed_out else log


def sanitize_on_cpu(subject: MeasurementSubject) -> str | None:
    """Return what AddressSanitizer and UndefinedBehaviorSanitizer find in a C++ variant.

    It is built once more with them, into a scratch folder, and called once on each small workload,
    without a judge. None: they found nothing, it is not a C function in C++, or the compiler has
    none of them.

    Args:
        subject: What to run, on a CPU.
    """
    library = _find_sanitizer_library()
    variant = subject.variant
    if library is None or not variant.is_compiled or variant.binding != "c":
        return None
    flagged = variant.model_copy(update={"flags": (*variant.flags, *_SANITIZER_FLAGS)})
    with scratch_folder() as folder:
        instrumented = subject._replace(variant=flagged)
        built = build(instrumented, folder / "build")
        if built.error:
            return None
        own = folder / "own"
        own.mkdir()
        words, env, log = write_job(make_repeat_job(instrumented, built), own)
        words = [*make_sandbox_words(instrumented, built, own), *words]
        both = {**env, **_SANITIZER_ENV, "LD_PRELOAD": library}
        with keep_own_cores():
            run_supervised(words, log=log, timeout_s=TIMEOUT_S, env=both)
        return quote_cpu_finding(log.read_text(encoding="utf-8", errors="replace"))


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
