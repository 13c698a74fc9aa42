"""Writes a kernel folder from the calls that a user's own program makes (``kb init --from``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kernelkb.actions.init.init_project import InitResult
from kernelkb.actions.init.replayed_calls import (
    Replayed,
    find_places,
    join_values,
    read_source,
    replay_calls,
)
from kernelkb.actions.project.project_files import write_project
from kernelkb.errors import BadValueError
from kernelkb.measure.process.scratch_folders import scratch_folder
from kernelkb.measure.profile.observe import (
    MAX_VALUE_BYTES,
    TIMEOUT_S,
    Observation,
    as_plain,
    observe_program,
)
from kernelkb.safety.paths import project_root, shipped_folder
from kernelkb.safety.replace_file import replace_file
from kernelkb.scaffold.draft.launchers import to_field_name
from kernelkb.scaffold.observed.observed_callee import UnwritableCall
from kernelkb.scaffold.observed.observed_code import CallSource, draft_call
from kernelkb.scaffold.observed.observed_inputs import draft_input_function, needs_input_function
from kernelkb.scaffold.observed.observed_reference import draft_known_operation
from kernelkb.scaffold.observed.observed_shapes import Call, ObservedPlan, plan_calls
from kernelkb.scaffold.observed.observed_yaml import (
    RECORDED_FILE,
    VARIANT_FILE,
    ObservedKernel,
    draft_observed_yaml,
)

_DIFFERS = "its outputs differ"
"""How the worker's fault starts where code runs, and computes something else."""
_RAISES = "it raises"
"""How it starts where code does not run to its end."""


class _Draft(NamedTuple):
    """A kernel folder that is not written yet."""

    files: dict[str, str]
    recorded: bytes | None
    warnings: list[str]


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
    next_call = f"kb bench {kernel_name}"  # else nothing could be timed beside it
    if "reference.py" not in draft.files:
        next_call = f"kb variant add {kernel_name} mine --from observed"
    if draft.recorded is not None:
        replace_file(root / place / RECORDED_FILE, draft.recorded)
        written.insert(1, f"{place}/{RECORDED_FILE}")
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
    path = operation.replace("::", ":").rpartition(":")[2].removesuffix(".forward")
    last = path.rpartition(".")[2].strip("_")
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
        BadValueError: No file can repeat the call.
    """
    function = as_plain(observation.function)
    calls: list[Call] = [call for call in function["calls"] if call["outputs"]]
    text, places = read_source(function), find_places(function, kernel_folder, observation.program)
    replayed = Replayed(observation.folder, kernel_folder)
    try:
        found = _draft_source(calls, replayed, lambda p: draft_call(function, p, text, places))
    except UnwritableCall as error:
        raise BadValueError(str(error)) from error
    plan, source, faults = found
    _refuse_random(function, source, faults)
    _refuse_objects(function, plan, faults)
    reason = source.reason or next(filter(None, faults), "")
    warnings = list(plan.warnings)
    files = {VARIANT_FILE: source.text}
    kind: Literal["code", "recorded", "variant"] = "code"
    recorded = None
    if not reason:
        files["reference.py"] = source.text
    elif known := _find_known_operation(function, plan, replayed):
        files["reference.py"] = known
    elif any(call["file"] for call in plan.calls):
        kind = "recorded"
        plan = plan_calls([call for call in calls if call["file"]], makes_changed=bool(plan.made))
        recorded = join_values(observation.folder, plan)
        warnings = [*plan.warnings, _explain_recording(function, source, reason)]
    else:
        kind = "variant"
        warnings.append(_explain_variant(function))
    warnings += _list_variant_faults(source, faults)
    if kind == "code" and needs_input_function(plan):
        files["reference.py"] += "\n\n" + draft_input_function(plan)
    kernels = tuple(function["kernels"])
    kernel = ObservedKernel(kernel_folder.name, function["name"], command, kernels, plan, kind)
    return _Draft({"kernel.yaml": draft_observed_yaml(kernel), **files}, recorded, warnings)


def _draft_source(
    calls: Sequence[Call],
    replayed: Replayed,
    draft: Callable[[ObservedPlan], CallSource],
) -> tuple[ObservedPlan, CallSource, Sequence[str]]:
    """Return the plan and source of a call, and why they do not repeat each recorded one.

    A tensor that is changed is taken for one that is only written, if the call gives the recorded
    outputs with another one in its place.
    """
    if any(call["changed"] and call["file"] for call in calls):
        plan = plan_calls(calls, makes_changed=True)
        if plan.inputs:
            source = draft(plan)
            faults = replay_calls(replayed, source.text, plan)
            if not any(faults):
                return plan, source, faults
    plan = plan_calls(calls)
    source = draft(plan)
    return plan, source, replay_calls(replayed, source.text, plan)


def _find_known_operation(
    function: dict[str, Any], plan: ObservedPlan, replayed: Replayed
) -> str | None:
    """Return torch code that gives the recorded outputs; None where no operation is known to."""
    code = draft_known_operation(function, plan)
    faults = replay_calls(replayed, code, plan) if code else ()
    return code if faults and not any(faults) else None


def _refuse_random(function: dict[str, Any], source: CallSource, faults: Sequence[str]) -> None:
    """Raise BadValueError for code that gives other outputs for the same inputs."""
    if source.is_reference and any(fault.startswith(_DIFFERS) for fault in faults):
        raise BadValueError(
            f"{function['name']} gives other outputs when it is called again on the recorded "
            "inputs: it draws at random, or depends on something beside its arguments; name a "
            "function that it calls, or pass it what it depends on"
        )


def _refuse_objects(function: dict[str, Any], plan: ObservedPlan, faults: Sequence[str]) -> None:
    """Raise BadValueError for code that needs more of an object than its attributes."""
    text = repr(plan.calls[0]["arguments"])
    fault = next((fault for fault in faults if fault.startswith(_RAISES)), "")
    if fault and ("'namespace'" in text or "'module'" in text):
        raise BadValueError(
            f"{function['name']} is called with objects, of which only the attributes are "
            f"recorded; with these {fault}; name a function that it calls with tensors"
        )


def _explain_recording(function: dict[str, Any], source: CallSource, reason: str) -> str:
    if source.reason:
        return f"{function['name']}: {reason}; only the recorded inputs can be checked"
    return (
        f"a copy of {function['name']} is no reference ({reason}), so its recorded outputs are; "
        "only the recorded inputs can be checked"
    )


def _explain_variant(function: dict[str, Any]) -> str:
    return (
        f"{function['name']} is compiled code, and its inputs or outputs are larger than "
        f"{MAX_VALUE_BYTES // 2**20} MiB, so that they were not recorded: what {VARIANT_FILE} "
        "computes is taken as right, and nothing checks it"
    )


def _list_variant_faults(source: CallSource, faults: Sequence[str]) -> list[str]:
    fault = next(filter(None, faults), "")
    if not fault or source.is_reference:
        return []
    return [f"{VARIANT_FILE} does not repeat the call: {fault}; correct it before kb bench"]
