"""KernelBench's tasks → a kernel folder of our own. Their files stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelkb.errors import BadValueError
from kernelkb.loading.kernel_files import KernelFiles, dump_kernel_yaml, to_snake_case
from kernelkb.measure.process.worker_jobs import MODULE_SEED, Job, run_job, scratch_folder
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

    Shapes and types are those of the task's own inputs, which is run for that.

    Args:
        task: A file with ``Model``, ``get_inputs`` and ``get_init_inputs``.
        candidate: A file with ``ModelNew``.
        target: Where it will run.

    Raises:
        BadValueError: A file cannot be read, or the task does not run.
    """
    texts = {"task.py": _read_text(task), "candidate.py": _read_text(candidate)}
    for word, name in (("class Model", task), ("def get_inputs", task), ("ModelNew", candidate)):
        if word not in texts["task.py" if name is task else "candidate.py"]:
            raise BadValueError(f"{name} has no {word.split()[-1]}, which KernelBench files have")
    seen = _describe_task(task, target)
    kernel: dict[str, Any] = {
        "id": to_snake_case(task.stem),
        "title": task.stem.replace("_", " "),
        "workloads": {"task": {}},
        "default_workload": {target: "task"},
        "inputs": [_make_array_entry("x", at, one) for at, one in enumerate(seen["inputs"])],
        "outputs": [_make_array_entry("y", at, one) for at, one in enumerate(seen["outputs"])],
        "reference": {"file": "task.py", "module": "Model"},
        "entry": "ModelNew",
        "variants": [{**_VARIANT_FIELDS, "target": target, "summary": candidate.name}],
    }
    warnings = tuple(f"the task: {warning}" for warning in seen["warnings"])
    return KernelFiles(kernel["id"], {**texts, "kernel.yaml": dump_kernel_yaml(kernel)}, warnings)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadValueError(f"{path} is no text: {error}") from error


def _describe_task(task: Path, target: Target) -> Job:
    job = {
        "mode": "describe",
        "file": str(task.resolve()),
        "entry": "Model",
        "target": target,
        "seed": MODULE_SEED,
    }
    with scratch_folder() as folder:
        end = run_job(job, folder, timeout_s=_TIMEOUT_S)
    if end.result is None:
        last = (end.process.output.strip().splitlines() or ["no output"])[-1]
        raise BadValueError(f"{task} does not run: {last}")
    if "unusable" in end.result:
        raise BadValueError(f"{task} cannot be judged: {end.result['unusable']}")
    return end.result


def _make_array_entry(letter: str, at: int, spec: Job) -> Job:
    if "value" in spec:
        value = spec["value"]
        dtype = {bool: "bool", int: "int64", float: "float64"}[type(value)]
        return {"name": f"{letter}{at}", "dtype": dtype, "value": value + 0}
    return {"name": f"{letter}{at}", "shape": spec["shape"], "dtype": spec["dtype"]}
