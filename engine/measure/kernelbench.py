"""Converts a KernelBench task and a candidate to a kernel folder; their files are copied as is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelkb.errors import BadValueError
from kernelkb.loading.kernel_files import KernelFiles, dump_kernel_yaml, to_snake_case
from kernelkb.measure.case_specs import MODULE_SEED
from kernelkb.measure.process.worker_jobs import run_job, scratch_folder
from kernelkb.measure.worker.shared.messages.other_jobs import (
    ArrayDescription,
    DescribeJob,
    ScalarDescription,
    TaskDescription,
)
from kernelkb.model.base import Target

_TIMEOUT_S = 300.0
_VARIANT_FIELDS = {
    "id": "candidate",
    "language": "python",
    "binding": "module",
    "returns": True,
    "source": "candidate.py",
}


def convert_kernelbench_task(task: Path, candidate: Path, target: Target) -> KernelFiles:
    """Return the files of a kernel folder for one candidate of one task.

    Shapes and dtypes are those of the task's own inputs and outputs: its model is run for them.

    Args:
        task: A file with ``Model``, ``get_inputs`` and ``get_init_inputs``.
        candidate: A file with ``ModelNew``.
        target: Where it will run.

    Raises:
        BadValueError: A file cannot be read, or the task does not run or cannot be compared with.
    """
    texts = {"task.py": _read_text(task), "candidate.py": _read_text(candidate)}
    for word, name in (("class Model", task), ("def get_inputs", task), ("ModelNew", candidate)):
        if word not in texts["task.py" if name is task else "candidate.py"]:
            raise BadValueError(f"{name} has no {word.split()[-1]}, which KernelBench files have")
    description = _describe_task(task, target)
    kernel: dict[str, Any] = {
        "id": to_snake_case(task.stem),
        "title": task.stem.replace("_", " "),
        "workloads": {"task": {}},
        "default_workload": {target: "task"},
        "inputs": [
            _make_array_entry(f"x{index}", value)
            for index, value in enumerate(description["inputs"])
        ],
        "outputs": [
            _make_array_entry(f"y{index}", value)
            for index, value in enumerate(description["outputs"])
        ],
        "reference": {"file": "task.py", "module": "Model"},
        "entry": "ModelNew",
        "variants": [{**_VARIANT_FIELDS, "target": target, "summary": candidate.name}],
    }
    warnings = tuple(f"the task: {warning}" for warning in description["warnings"])
    return KernelFiles(kernel["id"], {**texts, "kernel.yaml": dump_kernel_yaml(kernel)}, warnings)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadValueError(f"{path} is no text: {error}") from error


def _describe_task(task: Path, target: Target) -> TaskDescription:
    job: DescribeJob = {
        "mode": "describe",
        "file": str(task.resolve()),
        "entry": "Model",
        "target": target,
        "seed": MODULE_SEED,
    }
    with scratch_folder() as folder:
        run = run_job(job, folder, timeout_s=_TIMEOUT_S)
    if run.result is None:
        last_line = (run.process.output.strip().splitlines() or ["no output"])[-1]
        raise BadValueError(f"{task} does not run: {last_line}")
    if "unusable_reason" in run.result:
        raise BadValueError(f"{task} cannot be judged: {run.result['unusable_reason']}")
    return run.result["description"]


def _make_array_entry(name: str, value: ArrayDescription | ScalarDescription) -> dict[str, Any]:
    """Return an input or output of kernel.yaml."""
    if "value" in value:
        number = value["value"]
        dtype = {bool: "bool", int: "int64", float: "float64"}[type(number)]
        return {"name": name, "dtype": dtype, "value": number + 0}
    return {"name": name, "shape": value["shape"], "dtype": value["dtype"]}
