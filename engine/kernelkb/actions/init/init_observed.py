"""Writes a kernel folder from the calls that a user's own program makes (kb init --from)."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kernelkb.actions.init.init_project import InitResult, init_launches, write_project
from kernelkb.actions.init.init_source import choose_function, find_definition, find_source
from kernelkb.errors import BadValueError
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.profile.observe import (
    MAX_VALUE_BYTES,
    TIMEOUT_S,
    Observation,
    as_plain,
    observe_program,
)
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import project_root, shipped_folder
from kernelkb.scaffold.draft import to_field_name
from kernelkb.scaffold.observed.callee import CallSource, Places, UnwritableCall, draft_call
from kernelkb.scaffold.observed.calls import (
    ENTRY,
    RECORDED_FILE,
    VARIANT_FILE,
    Call,
    ObservedKernel,
    ObservedPlan,
    draft_input_function,
    draft_observed_yaml,
    list_constant_inputs,
    list_lost_values,
    needs_input_function,
    plan_calls,
)
from kernelkb.scaffold.python.source import PYTHON_LANGUAGES

_MAX_MIB = MAX_VALUE_BYTES // 2**20
_DIFFERS = "its outputs differ"
"""How the worker's fault starts where code runs, and computes something else."""
_RAISES = "it raises"
"""How it starts where code does not run to its end."""
_UNWRITTEN = "part of its output is never written"
"""How it starts where code leaves elements of an output as torch.empty gave them."""


class _Draft(NamedTuple):
    """A kernel folder that is not written yet."""

    files: dict[str, str]
    recorded: bytes | None
    warnings: list[str]
    cure: str = ""
    """What is to be done before it can be used; empty where its code repeats the calls."""


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


def init_run(
    file: str,
    command: str,
    kernel: str | None = None,
    name: str | None = None,
    answers: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> InitResult:
    """Draft a kernel of a file from a run: of Python by its calls, of C++ by its launches.

    Args:
        file: The kernel's source.
        command: The program, as typed into a shell.
        kernel: The function of the file, where it holds several.
        name: The kernel's name.
        answers: What neither the source nor the run says; calls of Python leave nothing to say.
        timeout_s: For the program.

    Raises:
        BadValueError: As ``init_observed`` and ``init_launches``; or answers for Python.
    """
    source = find_source(file, None, kernel) if file.endswith(".py") else None
    if source is None or source.analysis.kind not in PYTHON_LANGUAGES:
        return init_launches(file, command, kernel, name, answers, timeout_s)
    chosen = kernel or choose_function(source, None).name
    operation = find_definition(source, chosen)
    if not operation:
        raise BadValueError(
            f"{file} does not define {chosen}; name what it calls: "
            f"{shlex.join(['kb', 'init', '--from', command, '--op'])} NAME"
        )
    if answers:
        raise BadValueError(
            "a run of Python leaves nothing to say with --set: "
            f"{shlex.join(['kb', 'init', '--from', command, '--op', operation])}"
        )
    return init_observed(command, operation, name, timeout_s)


def _write_draft(
    root: Path, kernel_name: str, draft: _Draft, warnings: tuple[str, ...]
) -> InitResult:
    place = f"kernels/{kernel_name}"
    done = write_project(root, {f"{place}/{file}": text for file, text in draft.files.items()})
    written = list(done.new)
    next_call = draft.cure or f"kb bench {kernel_name}"  # else nothing could be timed beside it
    if not draft.cure and "reference.py" not in draft.files:
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
        is_usable=not draft.cure,
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
    text = read_source(function)
    places = find_places(function, kernel_folder, observation.program, observation.start_folder)
    replayed = Replayed(observation.folder, kernel_folder)
    plan, source, faults = _draft_source(
        calls, replayed, lambda p: draft_call(function, p, text, places)
    )
    _refuse_random(function, source, faults)
    _refuse_objects(function, plan, faults)
    reason = source.reason or next(filter(None, faults), "")
    warnings = list(plan.warnings)
    files = {VARIANT_FILE: source.text}
    kind: Literal["code", "recorded", "variant"] = "code"
    recorded = None
    if not reason:
        files["reference.py"] = source.text
    elif plan.calls[0]["file"] or any(faults):
        kind = "recorded"
        warnings += _list_large_calls(plan)
        plan = _keep_recorded(plan)
        recorded = join_values(observation.folder, plan)
        warnings = [*dict.fromkeys((*warnings, *plan.warnings))]
        warnings += [_explain_recording(function, source, reason), *list_constant_inputs(plan)]
    else:  # the size that counts has no recorded values: a smaller one does not stand for it
        kind = "variant"
        warnings += [_explain_variant(function, plan), *list_lost_values(plan)]
    warnings += _list_variant_faults(source, faults)
    if kind == "code" and needs_input_function(plan):
        files["reference.py"] += "\n\n" + draft_input_function(plan)
    name, kernels = function["name"], tuple(function["kernels"])
    kernel = ObservedKernel(kernel_folder.name, name, command, kernels, plan, kind)
    cure = _name_cure(kernel, next(filter(None, faults), ""))
    return _Draft({"kernel.yaml": draft_observed_yaml(kernel), **files}, recorded, warnings, cure)


def _draft_source(
    calls: Sequence[Call],
    replayed: Replayed,
    draft: Callable[[ObservedPlan], CallSource],
) -> tuple[ObservedPlan, CallSource, Sequence[str]]:
    """Return the plan and source of a call, and why they do not repeat each recorded one.

    A tensor that is changed is taken for one that is only written, if the call gives the recorded
    outputs with another one in its place.

    Raises:
        BadValueError: No file can repeat the call.
    """
    if any(call["changed"] and call["file"] for call in calls):
        plan = plan_calls(calls, makes_changed=True)
        if plan.inputs:
            source = _write_source(draft, plan)
            faults = replay_calls(replayed, source.text, plan)
            if not any(faults):
                return plan, source, faults
    plan = plan_calls(calls)
    source = _write_source(draft, plan)
    return plan, source, replay_calls(replayed, source.text, plan)


def _write_source(draft: Callable[[ObservedPlan], CallSource], plan: ObservedPlan) -> CallSource:
    try:
        return draft(plan)
    except UnwritableCall as error:
        raise BadValueError(str(error)) from error


def _keep_recorded(plan: ObservedPlan) -> ObservedPlan:
    """Return the plan of those calls of a plan whose values were recorded."""
    kept = [call for call in plan.calls if call["file"]]
    return plan_calls(kept, makes_changed=bool(plan.made))


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


def _list_large_calls(plan: ObservedPlan) -> list[str]:
    """Return which shapes have no recorded values and are no workloads, with their calls."""
    large = [call for call in plan.calls if not call["file"]]
    if not large:
        return []
    count, every = (sum(call["count"] for call in calls) for calls in (large, plan.calls))
    shapes = ", ".join(str(t["shape"]) for t in large[0]["tensors"])
    return [
        f"{count} of {every} calls are left out: they are larger than {_MAX_MIB} MiB, so that "
        f"their values were not recorded; the most frequent ones have tensors of {shapes}"
    ]


def _explain_variant(function: dict[str, Any], plan: ObservedPlan) -> str:
    large, every = (
        sum(call["count"] for call in plan.calls if is_any or not call["file"])
        for is_any in (False, True)
    )
    return (
        f"{function['name']} is compiled code, and {large} of {every} calls, the most frequent "
        f"ones among them, are larger than {_MAX_MIB} MiB, so that their inputs and outputs were "
        f"not recorded: values are drawn like theirs, what {VARIANT_FILE} computes is taken as "
        "right, and nothing checks it"
    )


def _list_variant_faults(source: CallSource, faults: Sequence[str]) -> list[str]:
    fault = next(filter(None, faults), "")
    if not fault or source.is_reference:
        return []
    return [f"{VARIANT_FILE} does not repeat the call: {fault}"]


def _name_cure(kernel: ObservedKernel, fault: str) -> str:
    """Return what makes a draft usable whose code does not repeat the calls; empty for no fault.

    What a kernel leaves of an output as it was is an input where the kernel itself is recorded.
    """
    if not fault.startswith(_UNWRITTEN):
        cure = f"correct kernels/{kernel.name}/{VARIANT_FILE} until it returns what was recorded"
        return f"{cure}, then kb bench {kernel.name}" if fault else ""
    own = re.split(r"[.:]", kernel.operation)[-1]
    launched = [name for name in kernel.kernels if own not in kernel.kernels]
    words = ["kb", "init", "--from", kernel.command, "--op", *(launched or [kernel.operation])[:1]]
    if launched:
        return f"record the kernel itself, with what it leaves of its output: {shlex.join(words)}"
    return (
        "have the program write all of its output, as with torch.zeros for torch.empty; delete "
        f"kernels/{kernel.name}, then {shlex.join(words)}"
    )


_TIMEOUT_S = 120.0


class Replayed(NamedTuple):
    """Where calls are made again, before anything is written."""

    folder: Path
    """With the recorded values."""
    kernel_folder: Path


def read_source(function: dict[str, Any]) -> str:
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


def find_places(
    function: dict[str, Any], kernel_folder: Path, program: str, start_folder: str = ""
) -> Places:
    """Return the paths from the kernel's folder of what can be loaded without running the program.

    Those are the program's extension libraries, the function's own file if it is no script, the
    modules beside it, and the program's other ones.
    """
    files = list(function["libraries"])
    own = function["source_file"]
    if own and Path(own).is_file() and Path(own).resolve() != Path(program).resolve():
        files.append(own)
    found = {file: _make_relative(Path(file), kernel_folder) for file in files}
    if not own or not Path(own).is_file() or function["is_library"]:
        return Places(found)
    root = Path(own).resolve().parents[function["module"].count(".")]
    beside = [p for p in root.iterdir() if p.suffix in (".py", ".so") or p.is_dir()]
    folders = {path.name.partition(".")[0]: root for path in beside}
    folders |= {name: Path(folder) for name, folder in function["modules"].items()}
    return Places(
        found,
        _make_relative(root, kernel_folder),
        {name: _make_relative(folder, kernel_folder) for name, folder in folders.items()},
        frozenset(path.name.partition(".")[0] for path in beside if path.suffix == ".so"),
        _make_relative(Path(own), kernel_folder),
        _make_relative(Path(start_folder), kernel_folder) if start_folder else "",
    )


def _make_relative(path: Path, kernel_folder: Path) -> str:
    return Path(os.path.relpath(path, kernel_folder)).as_posix()


def replay_calls(replayed: Replayed, text: str, plan: ObservedPlan) -> Sequence[str]:
    """Return for each recorded call why a source does not give its outputs; empty: it does.

    Args:
        replayed: Where the values are.
        text: A Python file with the function ``observed_call``.
        plan: The calls; those without recorded values are left out.
    """
    recorded = [call for call in plan.calls if call["file"]]
    if not recorded:
        return []
    file = replayed.folder / "replayed.py"
    file.write_text(_resolve_paths(text, replayed.kernel_folder), encoding="utf-8")
    numbers = [at for at, number in enumerate(plan.numbers) if not number.is_baked]
    with scratch_folder() as scratch:
        run = run_job(
            {
                "mode": "replay",
                "file": str(file),
                "entry": ENTRY,
                "target": "cuda" if plan.target == "cuda" else "cpu",
                "values": [str(replayed.folder / call["file"]) for call in recorded],
                "inputs": list(plan.input_places),
                "numbers": [[call["numbers"][at]["value"] for at in numbers] for call in recorded],
            },
            scratch,
            timeout_s=_TIMEOUT_S,
        )
    if run.result is None:
        last = (run.process.output.strip().splitlines() or ["no output"])[-1]
        return [f"it does not run by itself: {last}"] * len(recorded)
    return run.result["faults"]


def _resolve_paths(text: str, kernel_folder: Path) -> str:
    """Write out the paths from a kernel's folder, which does not exist yet."""

    def resolve(match: re.Match[str]) -> str:
        return f"Path({os.path.normpath(kernel_folder / json.loads(match[1]))!r})"

    return re.sub(r'Path\(__file__\)\.parent / ("[^"\n]*")', resolve, text)


def join_values(folder: Path, plan: ObservedPlan) -> bytes:
    """Return the safetensors file with the inputs and outputs of each workload.

    Args:
        folder: With a file for each call.
        plan: Of calls that were all recorded.
    """
    files = {
        workload: (folder / call["file"]).read_bytes()
        for workload, call in zip(plan.workloads, plan.calls, strict=True)
    }
    inputs = {at: plan.tensors[at].name for at in plan.input_places}
    return join_recorded_values(files, inputs, [array.name for array in plan.outputs])


_LENGTH_BYTES = 8
_ALIGNMENT = 8


def join_recorded_values(
    files: Mapping[str, bytes], input_names: Mapping[int, str], output_names: Sequence[str]
) -> bytes:
    """Return one file with ``workload/name`` for each array.

    Args:
        files: By workload, the content of an observer's file, with ``input.0`` and ``output.0``.
        input_names: By their place among the recorded tensors; others are left out.
        output_names: In the order of the outputs.
    """
    names = {f"input.{at}": name for at, name in input_names.items()}
    names |= {f"output.{at}": name for at, name in enumerate(output_names)}
    header: dict[str, Any] = {}
    bodies = []
    start = 0
    for workload, content in files.items():
        length = int.from_bytes(content[:_LENGTH_BYTES], "little")
        own = json.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + length])
        body = content[_LENGTH_BYTES + length :]
        for key, entry in own.items():
            if key not in names:
                continue
            first, end = entry["data_offsets"]
            offsets = [start, start + end - first]
            header[f"{workload}/{names[key]}"] = {**entry, "data_offsets": offsets}
            bodies.append(body[first:end])
            start += end - first
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *bodies])
