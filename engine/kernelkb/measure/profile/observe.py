"""Runs a user's program with an observer in each of its Python processes."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kernelkb
from kernelkb.errors import BadValueError, did_you_mean
from kernelkb.measure.machine.host import find_cxx
from kernelkb.measure.process.subprocesses import ProcessResult, run_supervised
from kernelkb.measure.worker.shared.messages.observed import (
    ObservedFunction,
    ObservedProcess,
    ObserveJob,
    StackJob,
    TraceJob,
)
from kernelkb.scaffold.cpp.observed_launches import LaunchArgument, SeenLaunch

TIMEOUT_S = 600.0
MAX_VALUE_BYTES = 16 * 2**20
"""Of a call whose values are kept; of larger ones only the distribution is."""
_MAX_SIGNATURES = 32
_SHOWN_NAMES = 12
_SHELL_SIGNS = frozenset("<>|&;")
_FAILED_TEST = re.compile(r"(FAILED|ERROR) \S+::")
"""How a line of pytest's summary starts."""
_JOB_VARIABLE = "KB_OBSERVE"
_START_SCRIPT = Path(next(iter(kernelkb.__path__))) / "measure" / "worker" / "observe" / "start.py"
_CUSTOMIZATION = """\
import runpy

runpy.run_path({script!r}, run_name="kernelkb_observe")
"""
_ENV = {
    # Compiled graphs run what no Python function and no operation is called for.
    "TORCH_COMPILE_DISABLE": "1",
    "TORCHDYNAMO_DISABLE": "1",
}


class Observation(NamedTuple):
    """What was observed in one run of a program."""

    function: ObservedFunction
    """With calls."""
    folder: Path
    """Holds the files with values."""
    program: str
    """Its main script; empty where it has none."""
    warnings: tuple[str, ...]
    start_folder: str = ""
    """Where it started."""


def observe_program(
    command: str, operation: str, folder: Path, timeout_s: float = TIMEOUT_S
) -> Observation:
    """Run a program and record the calls of one operation, from its own processes.

    A program that does not end is ended after the timeout; what it called until then counts.

    Args:
        command: As typed into a shell, which runs it where it has operators or variables of one.
        operation: ``my_op``, ``module:function``, ``torch.softmax``, ``ns::op``.
        folder: A scratch folder, empty.
        timeout_s: Wall-clock limit.

    Raises:
        BadValueError: The program cannot be started, fails, or never calls the operation.
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    argv = _split_command(command)
    if not operation.strip():
        raise BadValueError("--op is empty; name what to observe, such as --op my_op")
    job: ObserveJob = {
        "operation": operation,
        "max_signatures": _MAX_SIGNATURES,
        "max_bytes": MAX_VALUE_BYTES,
    }
    env = _ENV | write_observer(folder, job)
    run = run_supervised(argv, log=folder / "program.log", timeout_s=timeout_s, env=env)
    processes = _read_processes(folder)
    functions = _merge_functions(processes)
    _require_success(run, functions, command, timeout_s)
    _require_observer(processes, folder, command)
    function = _choose_function(functions, processes, operation, command)
    warnings = _list_warnings(run, function, timeout_s)
    program = next((p["program"] for p in processes if p["has_torch"]), "")
    start_folder = next((p["folder"] for p in processes if p["has_torch"]), "")
    return Observation(function, folder, program, warnings, start_folder)


def write_observer(folder: Path, job: ObserveJob | TraceJob | StackJob) -> dict[str, str]:
    """Write what the program's processes import and do; return the variables that say so."""
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    text = _CUSTOMIZATION.format(script=str(_START_SCRIPT))
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), _JOB_VARIABLE: str(folder / "job.json")}


def _split_command(command: str) -> list[str]:
    try:
        argv = shlex.split(command)
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    except ValueError as error:
        raise BadValueError(f"--from {command!r} is no command: {error}") from error
    if not argv:
        raise BadValueError('--from is empty; give a command, such as --from "python train.py"')
    if any(_SHELL_SIGNS.issuperset(word) for word in words) or re.match(r"[A-Za-z_]\w*=", argv[0]):
        return ["/bin/sh", "-c", command]
    if shutil.which(argv[0]) is None:
        raise BadValueError(
            f"--from: there is no program {argv[0]!r}; give a command as you type it, such as "
            f'--from "python {argv[0]}"'
        )
    return argv


def _read_processes(folder: Path) -> list[ObservedProcess]:
    """Return what each process wrote, that of the program's first one first."""
    files = sorted(folder.glob("calls-*.json"), key=lambda path: path.stat().st_mtime)
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def _merge_functions(processes: Sequence[ObservedProcess]) -> list[ObservedFunction]:
    """Return each function once, as the process saw it that called it most often."""
    best: dict[str, ObservedFunction] = {}
    for process in processes:
        for function in process["functions"]:
            known = best.get(function["name"])
            if known is None or count_calls(function) > count_calls(known):
                best[function["name"]] = function
    return sorted(best.values(), key=count_calls, reverse=True)


def count_calls(function: ObservedFunction) -> int:
    """Return how often a function was called."""
    return sum(call["count"] for call in function["calls"]) + function["uncounted"]


def _require_success(
    run: ProcessResult, functions: Sequence[ObservedFunction], command: str, timeout_s: float
) -> None:
    """Raise BadValueError for a program that failed, or that called nothing until the timeout."""
    if run.timed_out:
        if any(function["calls"] for function in functions):
            return
        raise BadValueError(
            f"{command} did not end within {timeout_s:g} s, and did not call the operation until "
            "then; give it fewer steps, or allow more with --timeout"
        )
    if run.returncode != 0:
        lines = _find_error(run.output).splitlines() or ["it printed nothing"]
        told = next((line for line in lines if _FAILED_TEST.match(line)), lines[-1])
        how = f"signal {-run.returncode}" if run.returncode < 0 else f"status {run.returncode}"
        raise BadValueError(
            f"{command} failed ({how}): {told}; run it by itself until it ends without an "
            "error, then record it"
        )


def _find_error(output: str) -> str:
    """Return what a program printed, without errors of its last clean-up behind its own."""
    before, _, _ = output.partition("\nException ignored ")
    return (before if before.strip() else output).strip()


def _require_observer(processes: Sequence[ObservedProcess], folder: Path, command: str) -> None:
    """Raise BadValueError where no process could be observed."""
    errors = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("error-*.txt"))]
    if not processes:
        told = f": {errors[0].strip().splitlines()[-1]}" if errors else ""
        raise BadValueError(
            f"no Python process of {command!r} could be observed{told}; it must start Python "
            "without -I, -E or -S, on this machine and with PYTHONPATH as it is given"
        )
    if not any(process["has_torch"] for process in processes):
        raise BadValueError(
            f"{command} never imports torch, whose tensors are recorded; name a program that does"
        )


_NO_OUTPUT = (
    "it returns no tensor, and changes none that it is passed; where another call had filled its "
    "output before, clear it or make the call alone"
)


def _choose_function(
    functions: Sequence[ObservedFunction],
    processes: Sequence[ObservedProcess],
    operation: str,
    command: str,
) -> ObservedFunction:
    """Return the function that was meant.

    Raises:
        BadValueError: None was called, several were, or no call could be recorded.
    """
    called = [one for one in functions if any(call["outputs"] for call in one["calls"])]
    if not called:
        for function in functions:
            if function["errors"] or function["calls"]:
                why = function["errors"][0] if function["errors"] else _NO_OUTPUT
                raise BadValueError(f"no call of {function['name']} can be recorded: {why}")
        raise BadValueError(_describe_unseen(processes, operation, command))
    own = [one for one in called if not one["is_library"]]
    if len(called) > 1 and len(own) == 1:
        return own[0]
    if len(called) > 1:
        names = ", ".join(f"{one['name']} ({count_calls(one)} calls)" for one in called[:8])
        raise BadValueError(f"--op {operation} fits several: {names}; name one of them")
    return called[0]


def _describe_unseen(processes: Sequence[ObservedProcess], operation: str, command: str) -> str:
    seen: dict[str, int] = {}
    for process in processes:
        for name, count in process["seen"].items():
            seen[name] = seen.get(name, 0) + count
    guess = did_you_mean(operation, _list_spellings(seen))
    offered = [name for name, count in seen.items() if not count]
    own = [name for name in seen if not name.startswith("aten::") and seen[name]]
    others = sorted((n for n in seen if n.startswith("aten::")), key=lambda n: -seen[n])
    shown = [*own[:_SHOWN_NAMES], *(f"{n} ({seen[n]} calls)" for n in others)][: 2 * _SHOWN_NAMES]
    listed = f"; it called {', '.join(shown)}" if shown else ""
    listed += f"; its extensions have {', '.join(offered[:_SHOWN_NAMES])}" if offered else ""
    return f"{command} ended and never called {operation}{guess}{listed}"


def _list_spellings(seen: Mapping[str, int]) -> list[str]:
    """Return the names that were seen, and their last parts."""
    last = [name.replace("::", ":").rpartition(":")[2].rpartition(".")[2] for name in seen]
    return sorted({*seen, *last})


def _list_warnings(
    run: ProcessResult, function: ObservedFunction, timeout_s: float
) -> tuple[str, ...]:
    warnings: list[str] = []
    if run.timed_out:
        warnings.append(
            f"the program was ended after {timeout_s:g} s; {count_calls(function)} calls were "
            "observed until then"
        )
    if function["uncounted"]:
        warnings.append(
            f"{function['uncounted']} calls came with further shapes after the first "
            f"{_MAX_SIGNATURES}, and are left out"
        )
    return (
        *warnings,
        *(f"some calls were not recorded: {text}" for text in function["errors"][:2]),
    )


def as_plain(function: ObservedFunction) -> dict[str, Any]:
    """Return a function's record without its type, for modules that know nothing of workers."""
    return dict(function)


_LAUNCH_SOURCE = Path(next(iter(kernelkb.__path__))) / "measure" / "profile" / "launches.cpp"
_COMPILE_S = 120.0


def record_launches(
    command: str, kernel: str, folder: Path, timeout_s: float = TIMEOUT_S
) -> tuple[SeenLaunch, ...]:
    """Run a program and return the launches of one kernel, the most frequent first.

    Of those that are as frequent, the largest grid comes first.

    A library that is compiled here is loaded into the program, and asks the driver about each
    argument. It needs no toolkit of CUDA.

    Args:
        command: As typed into a shell, which runs it where it has operators or variables of one.
        kernel: Its name in the source.
        folder: A scratch folder, empty.
        timeout_s: Wall-clock limit.

    Raises:
        BadValueError: There is no C++ compiler, the program fails, or never launches the kernel.
    """
    argv = _split_command(command)
    library = _build_launch_library(folder)
    preloaded = " ".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))
    env = {"LD_PRELOAD": preloaded, "KB_LAUNCHES": str(folder), "KB_LAUNCH_NAME": kernel}
    run = run_supervised(argv, log=folder / "program.log", timeout_s=timeout_s, env=env)
    launches, names = _read_launches(folder)
    found = [each for each in launches if re.search(rf"\b{re.escape(kernel)}\b", each.name)]
    if run.returncode != 0 and not (run.timed_out and found):
        last = (_find_error(run.output).splitlines() or ["it printed nothing"])[-1]
        raise BadValueError(f"{command} failed: {last}; run it by itself until it ends")
    if not found:
        listed = ", ".join(names[:_SHOWN_NAMES])
        called = f"; it launched {listed}" if listed else " or any other kernel"
        raise BadValueError(f"{command} ended and never launched {kernel}{called}")
    return tuple(sorted(found, key=lambda each: (-each.calls, -math.prod(each.grid))))


def _build_launch_library(folder: Path) -> Path:
    compiler = find_cxx()
    if compiler is None:
        raise BadValueError("--from a C++ program needs a C++ compiler; install g++ or set CXX")
    library = folder / "launches.so"
    argv = [compiler, "-std=c++17", "-O2", "-shared", "-fPIC", str(_LAUNCH_SOURCE), "-ldl"]
    run = run_supervised([*argv, "-o", str(library)], log=folder / "g.log", timeout_s=_COMPILE_S)
    if run.returncode != 0:
        last = (run.output.strip().splitlines() or [""])[-1]
        raise BadValueError(f"{compiler} cannot compile {_LAUNCH_SOURCE.name}: {last}")
    return library


def _read_launches(folder: Path) -> tuple[list[SeenLaunch], list[str]]:
    """Return what the program's processes launched, and the names of other kernels."""
    launches: list[SeenLaunch] = []
    names: list[str] = []
    for file in sorted(folder.glob("launches-*.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        ended: dict[str, Any] = next((row for row in rows if "counts" in row), {"counts": []})
        counts: list[int] = ended["counts"]
        names += [row["seen"] for row in rows if "seen" in row]
        own = [row for row in rows if "grid" in row]
        changes = [row["written"] for row in rows if "written" in row]
        written = {tuple(row[:3]): (row[3], *row[4:]) for row in changes}
        for number, (row, count) in enumerate(zip(own, [*counts, *[1] * len(own)], strict=False)):
            arguments = tuple(
                LaunchArgument(
                    bytes.fromhex(each["bytes"]),
                    {at: (left, offset) for at, left, offset in each["memory"]},
                    _read_contents(file, (number, place), [at for at, *_ in each["memory"]]),
                    {at: row for (*key, at), row in written.items() if key == [number, place]},
                )
                for place, each in enumerate(row["arguments"])
            )
            shape = (tuple(row["grid"]), tuple(row["block"]), row["shared"])
            others = 0 if number else ended.get("others", 0)
            launches.append(SeenLaunch(row["name"], *shape, arguments, count, others))
    plain = _demangle([each.name for each in launches] + names, folder)
    launches = [each._replace(name=plain[each.name]) for each in launches]
    return launches, [plain[name] for name in dict.fromkeys(names)]


def _read_contents(
    launches: Path, argument: tuple[int, int], places: Sequence[int]
) -> dict[int, bytes]:
    """Return what was read behind the pointers of an argument of a launch, both by number."""
    head = launches.stem.replace("launches", "values")
    files = {at: launches.with_name("-".join(map(str, (head, *argument, at)))) for at in places}
    return {at: file.read_bytes() for at, file in files.items() if file.exists()}


def _demangle(names: Sequence[str], folder: Path) -> dict[str, str]:
    """Return names with their types by their mangled ones; without c++filt as they are."""
    if shutil.which("c++filt") is None or not names:
        return {name: name for name in names}
    (folder / "names.txt").write_text("\n".join(names), encoding="utf-8")
    argv = ["c++filt", f"@{folder / 'names.txt'}"]
    run = run_supervised(argv, log=folder / "names.log", timeout_s=_COMPILE_S)
    return dict(zip(names, run.output.splitlines(), strict=False)) | {
        name: name for name in names if run.returncode != 0
    }
