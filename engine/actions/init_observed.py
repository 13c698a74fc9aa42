"""Writes a kernel folder from the calls that a user's own program makes (``kb init --from``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.init_project import InitResult
from kernelkb.actions.project_files import write_project
from kernelkb.errors import BadValueError
from kernelkb.measure.observe import (
    MAX_VALUE_BYTES,
    TIMEOUT_S,
    Observation,
    as_plain,
    observe_program,
)
from kernelkb.measure.process.scratch_folders import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.safety.paths import project_root, shipped_folder
from kernelkb.safety.replace_file import replace_file
from kernelkb.scaffold.launchers import to_field_name
from kernelkb.scaffold.observed_code import (
    ENTRY,
    CallSource,
    UnwritableCall,
    draft_call,
)
from kernelkb.scaffold.observed_inputs import draft_input_function, needs_input_function
from kernelkb.scaffold.observed_shapes import Call, ObservedPlan, plan_calls
from kernelkb.scaffold.observed_yaml import (
    RECORDED_FILE,
    VARIANT_FILE,
    ObservedKernel,
    draft_observed_yaml,
)
from kernelkb.scaffold.recorded_values import join_recorded_values

_REPLAY_TIMEOUT_S = 120.0
_DIFFERS = "its outputs differ"
"""How the worker's fault starts where code runs, and computes something else."""


class _Draft(NamedTuple):
    """A kernel folder that is not written yet."""

    files: dict[str, str]
    recorded: bytes | None
    warnings: list[str]


class _Replayed(NamedTuple):
    """What is called again, before anything is written."""

    folder: Path
    """With the recorded values."""
    kernel_folder: Path
    source: CallSource


def init_observed(
    command: str, operation: str, name: str | None = None, timeout_s: float = TIMEOUT_S
) -> InitResult:
    """Run a program, record the calls of one operation, and write a kernel folder from them.

    Workloads are the shapes that were seen, the most frequent first; inputs are distributed as
    those that were seen. The reference is the operation's own torch code where a copy of it gives
    the recorded outputs, and else these outputs.

    Args:
        command: The program, as typed into a shell.
        operation: ``my_op``, ``module:function``, ``torch.softmax``, ``ns::op``, a Triton kernel.
        name: The kernel's name; by default the operation's.
        timeout_s: For the program.

    Raises:
        BadValueError: The program fails, never calls the operation, or what it calls cannot be
            repeated; or the kernel's folder exists.
    """
    root = Path(project_root())
    kernel_name = _choose_name(root, operation, name)
    with scratch_folder() as folder:
        observation = observe_program(command, operation, folder, timeout_s)
        draft = _draft_kernel(observation, root / "kernels" / kernel_name, command)
    return _write_draft(root, kernel_name, draft, observation.warnings)


def _write_draft(
    root: Path, kernel_name: str, draft: _Draft, warnings: tuple[str, ...]
) -> InitResult:
    place = f"kernels/{kernel_name}"
    done = write_project(root, {f"{place}/{file}": text for file, text in draft.files.items()})
    written = list(done.new)
    next_call = f"kb bench {kernel_name}"
    if draft.recorded is not None:
        replace_file(root / place / RECORDED_FILE, draft.recorded)
        written.insert(1, f"{place}/{RECORDED_FILE}")
        # Nothing could be timed beside it.
        next_call = f"kb variant add {kernel_name} mine --from observed"
    return InitResult(
        kernel=kernel_name,
        root=str(root),
        written=tuple(written),
        kept=tuple(done.existing),
        warnings=(*warnings, *draft.warnings, *done.warnings),
        to_fill=(),
        next=next_call,
    )


def _choose_name(root: Path, operation: str, name: str | None) -> str:
    if name and to_field_name(name) != name:
        raise BadValueError(
            f"--name {name!r} is not a valid kernel name; try --name {to_field_name(name)}"
        )
    last = operation.replace("::", ":").rpartition(":")[2].rpartition(".")[2].strip("_")
    chosen = name or to_field_name(last)
    folder = root / "kernels" / chosen
    if folder.exists():
        raise BadValueError(
            f"kernels/{chosen} exists; give another name, such as --name {chosen}_observed, or "
            "delete that folder"
        )
    if name is None and (Path(shipped_folder("kernels")) / chosen / "kernel.yaml").is_file():
        return f"{chosen}_observed"  # not to hide the kernel that ships with KernelKB
    return chosen


def _draft_kernel(observation: Observation, kernel_folder: Path, command: str) -> _Draft:
    """Return the files of a kernel folder.

    Raises:
        BadValueError: No file can repeat the call, and none of its outputs are recorded.
    """
    function = as_plain(observation.function)
    calls: list[Call] = [call for call in function["calls"] if call["outputs"]]
    plan = plan_calls(calls)
    try:
        source = draft_call(
            function,
            plan,
            _read_source(function),
            _find_paths(function, kernel_folder, observation.program),
        )
    except UnwritableCall as error:
        raise BadValueError(str(error)) from error
    replayed = _Replayed(observation.folder, kernel_folder, source)
    faults = _replay(replayed, plan)
    _refuse_random(function, source, faults)
    reason = source.reason or next(filter(None, faults), "")
    warnings = list(plan.warnings)
    if reason:
        plan = plan_calls([call for call in calls if call["file"]] or _refuse_large(function))
        warnings = [*plan.warnings, _explain_recording(function, source, reason)]
        warnings += _list_variant_faults(source, _replay(replayed, plan))
    language = "triton" if function["kind"] == "triton" else "python"
    kernel = ObservedKernel(
        kernel_folder.name, function["name"], command, language, plan, bool(reason)
    )
    files = {"kernel.yaml": draft_observed_yaml(kernel), VARIANT_FILE: source.text}
    if reason:
        return _Draft(files, _join_values(observation.folder, plan), warnings)
    files["reference.py"] = source.text
    if needs_input_function(plan):
        files["reference.py"] += "\n\n" + draft_input_function(plan)
    return _Draft(files, None, warnings)


def _read_source(function: dict[str, Any]) -> str:
    """Return the text of the file that defines a function; empty where there is none to read."""
    file = str(function["source_file"] or "")
    if function["kind"] == "torch-operation":
        file = file.rpartition(":")[0]
    if function["kind"] == "extension" or function["is_library"] or not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _find_paths(function: dict[str, Any], kernel_folder: Path, program: str) -> dict[str, str]:
    """Return the paths from the kernel's folder of what can be loaded without running the program.

    Those are the program's extension libraries, and the function's own file if it is no script.
    """
    files = list(function["libraries"])
    own = function["source_file"]
    if own and Path(own).is_file() and Path(own).resolve() != Path(program).resolve():
        files.append(own)
    return {file: Path(os.path.relpath(file, kernel_folder)).as_posix() for file in files}


def _replay(replayed: _Replayed, plan: ObservedPlan) -> Sequence[str]:
    """Return for each recorded call why the source does not give its outputs; empty: it does."""
    recorded = [call for call in plan.calls if call["file"]]
    if not recorded:
        return []
    folder, kernel_folder, source = replayed
    file = folder / VARIANT_FILE
    place = f"Path({str(kernel_folder)!r})"  # from where its paths lead
    file.write_text(source.text.replace("Path(__file__).parent", place), encoding="utf-8")
    numbers = [at for at, number in enumerate(plan.numbers) if not number.is_baked]
    with scratch_folder() as scratch:
        run = run_job(
            {
                "mode": "replay",
                "file": str(file),
                "entry": ENTRY,
                "target": "cuda" if plan.target == "cuda" else "cpu",
                "values": [str(folder / call["file"]) for call in recorded],
                "numbers": [[call["numbers"][at]["value"] for at in numbers] for call in recorded],
            },
            scratch,
            timeout_s=_REPLAY_TIMEOUT_S,
        )
    if run.result is None:
        last = (run.process.output.strip().splitlines() or ["no output"])[-1]
        return [f"it does not run by itself: {last}"] * len(recorded)
    return run.result["faults"]


def _refuse_random(function: dict[str, Any], source: CallSource, faults: Sequence[str]) -> None:
    """Raise BadValueError for code that gives other outputs for the same inputs."""
    if source.is_reference and any(fault.startswith(_DIFFERS) for fault in faults):
        raise BadValueError(
            f"{function['name']} gives other outputs when it is called again on the recorded "
            "inputs: it draws at random, or depends on something beside its arguments; name a "
            "function that it calls, or pass it what it depends on"
        )


def _refuse_large(function: dict[str, Any]) -> list[Call]:
    raise BadValueError(
        f"{function['name']} has no torch code that could be its reference, and its inputs or "
        f"outputs are larger than {MAX_VALUE_BYTES // 2**20} MiB, so that they were not recorded; "
        "run the program on smaller sizes"
    )


def _explain_recording(function: dict[str, Any], source: CallSource, reason: str) -> str:
    if source.reason:
        return f"{function['name']}: {reason}; only the recorded inputs can be checked"
    return (
        f"a copy of {function['name']} is no reference ({reason}), so its recorded outputs are; "
        "only the recorded inputs can be checked"
    )


def _list_variant_faults(source: CallSource, faults: Sequence[str]) -> list[str]:
    fault = next(filter(None, faults), "")
    if not fault or not source.reason:
        return []
    return [f"{VARIANT_FILE} does not repeat the call: {fault}; correct it before kb bench"]


def _join_values(folder: Path, plan: ObservedPlan) -> bytes:
    files = {
        workload: (folder / call["file"]).read_bytes()
        for workload, call in zip(plan.workloads, plan.calls, strict=True)
    }
    inputs = [array.name for array in plan.inputs]
    return join_recorded_values(files, inputs, [array.name for array in plan.outputs])
