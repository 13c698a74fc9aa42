"""A task of another project: its files, and what its model takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import to_slug, to_snake_case
from kernelkb.measure.job_specs import draw_module_seed
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.worker.shared.messages.jobs import (
    ArrayDescription,
    CaseDescription,
    DescribeJob,
    ScalarDescription,
    TaskDescription,
)
from kernelkb.model.base import Target

_TIMEOUT_S = 300.0
_LOAD_SIBLING = """\
import importlib.util
import sys
from pathlib import Path


def _load(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"kb_{path.parent.name}_{name}", path)
    if spec.name not in sys.modules:
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return sys.modules[spec.name]


"""


def read_task_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        BadValueError: It cannot be read, or is no UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadValueError(f"{path} is no text: {error}") from error


def make_adapter(summary: str, body: str) -> str:
    """Return a module whose body loads files beside it by ``_load("name")``.

    Args:
        summary: Its docstring, one line.
        body: Its statements.
    """
    return f'"""{summary} Written by kb."""\n\n{_LOAD_SIBLING}{body}'


def make_case_file(cases: str, index: int) -> str:
    """Return a module whose ``get_inputs`` are one item of ``get_all_inputs`` of another file.

    Args:
        cases: That file's name, without ``.py``.
        index: Which item, from 0.
    """
    body = (
        'Model = _load("task").Model\n'
        'get_init_inputs = _load("task").get_init_inputs\n\n\n'
        f'def get_inputs():\n    return _load("{cases}").get_case_inputs({index})\n'
    )
    return make_adapter("One further case of a task.", body)


def describe_task(
    task: Path, file: Path, target: Target, others: Path | None = None
) -> TaskDescription:
    """Run a task's model on its inputs and describe both.

    Args:
        task: The task as the user named it, for messages.
        file: Has ``Model``, ``get_inputs`` and ``get_init_inputs``.
        target: Where to run it.
        others: Has ``get_all_inputs``, which yields the inputs of further cases.

    Raises:
        BadValueError: It does not run, or no candidate can be compared with it.
    """
    job: DescribeJob = {
        "mode": "describe",
        "file": str(file.resolve()),
        "entry": "Model",
        "target": target,
        "seed": draw_module_seed(),
        "others": str(others) if others else None,
    }
    with scratch_folder() as folder:
        run = run_job(job, folder, timeout_s=_TIMEOUT_S)
    if run.result is None:
        last_line = (run.process.output.strip().splitlines() or ["no output"])[-1]
        raise BadValueError(f"{task} does not run: {last_line}")
    if "unusable_reason" in run.result:
        raise BadValueError(f"{task} cannot be judged: {run.result['unusable_reason']}")
    return run.result["description"]


def make_task_kernel(
    name: str,
    description: TaskDescription,
    cases: Sequence[dict[str, Any]],
    variant: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the kernel.yaml of a task whose reference is ``Model`` of task.py.

    Args:
        name: The task's, as its file or folder is called.
        description: Its inputs and outputs.
        cases: Its extra cases.
        variant: The candidate, with its ``entry`` and ``target``.
    """
    return {
        "id": to_snake_case(name),
        "title": name.replace("_", " "),
        "workloads": {"task": {}},
        "default_workload": {variant["target"]: "task"},
        **({"extra_cases": list(cases)} if cases else {}),
        "inputs": _make_input_rows(description),
        "outputs": _make_output_rows(description),
        "reference": {"file": "task.py", "module": "Model"},
        "entry": variant["entry"],
        "variants": [dict(variant)],
    }


def _make_input_rows(case: CaseDescription) -> list[dict[str, Any]]:
    """Return the inputs of a kernel.yaml for a case."""
    return [_make_array_entry(f"x{at}", value) for at, value in enumerate(case["inputs"])]


def _make_output_rows(case: CaseDescription) -> list[dict[str, Any]]:
    """Return the outputs of a kernel.yaml for a case."""
    return [_make_array_entry(f"y{at}", value) for at, value in enumerate(case["outputs"])]


def make_extra_case_rows(
    description: TaskDescription, kind: str, files: Sequence[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the extra cases of a kernel.yaml, and a warning for each that is left out.

    Args:
        description: The task's.
        kind: What the cases are, in two words at most; their names start with it.
        files: The file of each case.
    """
    rows: list[dict[str, Any]] = []
    warnings: list[str] = []
    for number, (case, file) in enumerate(zip(description["others"], files, strict=True), 1):
        reason = case if isinstance(case, str) else _find_mismatch(description, case)
        if isinstance(case, str) or reason:
            warnings.append(f"{kind} {number} is left out: {reason}")
            continue
        arrays = {"inputs": _make_input_rows(case), "outputs": _make_output_rows(case)}
        rows.append({"name": to_slug(f"{kind} {number}"), "file": file, **arrays})
    return rows, warnings


def _find_mismatch(description: TaskDescription, case: CaseDescription) -> str | None:
    """Return why a case is none of the same task: other numbers of arrays, or other dtypes."""
    for kind in ("inputs", "outputs"):
        expected, found = (
            [value.get("dtype", "a number") for value in row[kind]] for row in (description, case)
        )
        if expected != found:
            return f"its {kind} are {', '.join(map(str, found))}; the task's are {expected}"
    return None


def _make_array_entry(name: str, value: ArrayDescription | ScalarDescription) -> dict[str, Any]:
    """Return an input or output of kernel.yaml."""
    if "value" in value:
        number = value["value"]
        dtype = {bool: "bool", int: "int64", float: "float64"}[type(number)]
        return {"name": name, "dtype": dtype, "value": number + 0}
    return {"name": name, "shape": value["shape"], "dtype": value["dtype"]}
