"""Converts a KernelBench task and a candidate to a kernel folder, and finds its hidden tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kernelkb.adapters.task_files import (
    describe_task,
    make_adapter,
    make_case_file,
    make_extra_case_rows,
    make_task_kernel,
    read_task_text,
)
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import KernelFiles, dump_kernel_yaml
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.worker.shared.messages.jobs import TaskDescription
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import StatedPrecision

CASES_FILE = "hidden_cases.py"
_CASES = """\
_hidden = _load("hidden")
if hasattr(_hidden, "_PROB_PATH"):  # where KernelBench-Verified's files look for their task
    _hidden._PROB_PATH = str(Path(__file__).with_name("task.py"))


def get_all_inputs():
    return _hidden.get_hidden_inputs()


def get_case_inputs(index):
    return get_all_inputs()[index]
"""


def find_hidden_tests(task: Path) -> Path | None:
    """Return the file of a task's hidden tests; None if there is none.

    For ``KernelBench/level1/23_Softmax.py`` that is ``hidden_tests/level1/23_hidden.py`` of the
    same repository, or ``23_hidden.py`` or ``23_Softmax_hidden.py`` beside it.
    """
    task = task.resolve()
    number = re.match(r"\d+", task.stem)
    names = [f"{stem}_hidden.py" for stem in (number and number[0], task.stem) if stem]
    folders = [task.parent, *(p / "hidden_tests" / task.parent.name for p in task.parents[1:3])]
    for path in (folder / name for folder in folders for name in names):
        if path.is_file() and "def get_hidden_inputs" in path.read_text("utf-8", "replace"):
            return path
    return None


def make_hidden_files(text: str) -> dict[str, str]:
    """Return the files that a kernel folder needs for hidden tests, without those of each case.

    Args:
        text: The file with ``get_hidden_inputs``, which goes there as it is.
    """
    return {
        "hidden.py": text,
        CASES_FILE: make_adapter("Further inputs of a task: its hidden tests.", _CASES),
    }


def make_hidden_case_files(count: int) -> dict[str, str]:
    """Return a file for each hidden test, by name and in order."""
    stem = CASES_FILE.removesuffix(".py")
    return {
        f"hidden_{number}.py": make_case_file(stem, number - 1) for number in range(1, count + 1)
    }


_PRECISION_SETTINGS = (
    "allow_tf32",
    "set_float32_matmul_precision",
    "fp32_precision",
)
"""Of torch, for products of fp32."""
_VARIANT_FIELDS = {
    "id": "candidate",
    "language": "python",
    "binding": "module",
    "returns": True,
    "source": "candidate.py",
    "entry": "ModelNew",
}


def convert_kernelbench_task(
    task: Path, candidate: Path, target: Target, precision: StatedPrecision | None = None
) -> KernelFiles:
    """Return the files of a kernel folder for one candidate of one task.

    Shapes and dtypes are those of the task's own inputs and outputs: its model is run for them.
    Hidden tests beside the task become further cases (``find_hidden_tests``).

    Args:
        task: A file with ``Model``, ``get_inputs`` and ``get_init_inputs``.
        candidate: A file with ``ModelNew``.
        target: Where it will run.
        precision: Of fp32 products; None: as the task's file and torch's defaults set it.

    Raises:
        BadValueError: A file cannot be read, or the task does not run, cannot be compared with or
            states another precision.
    """
    texts = {"task.py": read_task_text(task), "candidate.py": read_task_text(candidate)}
    for word, name in (("class Model", task), ("def get_inputs", task), ("ModelNew", candidate)):
        if word not in texts["task.py" if name is task else "candidate.py"]:
            raise BadValueError(f"{name} has no {word.split()[-1]}, which KernelBench files have")
    if precision is not None:
        _require_open_precision(task, texts["task.py"])
    hidden = find_hidden_tests(task)
    if hidden is not None:
        texts |= make_hidden_files(read_task_text(hidden))
    description = _describe(task, texts, target, has_hidden=hidden is not None)
    case_files = make_hidden_case_files(len(description["others"]))
    cases, left_out = make_extra_case_rows(description, "hidden test", list(case_files))
    variant = {**_VARIANT_FIELDS, "target": target, "summary": candidate.name}
    kernel = make_task_kernel(task.stem, description, cases, variant)
    if precision is not None:
        kernel["precision"] = precision
    texts |= {**case_files, "kernel.yaml": dump_kernel_yaml(kernel)}
    warnings = (*(f"the task: {warning}" for warning in description["warnings"]), *left_out)
    return KernelFiles(kernel["id"], texts, warnings)


def _require_open_precision(task: Path, text: str) -> None:
    """Raise BadValueError if a task's file sets the precision itself."""
    setting = next((word for word in _PRECISION_SETTINGS if word in text), None)
    if setting is not None:
        raise BadValueError(f"{task} sets {setting} itself; leave --precision out")


def _describe(
    task: Path, texts: Mapping[str, str], target: Target, *, has_hidden: bool
) -> TaskDescription:
    with scratch_folder() as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return describe_task(task, task, target, folder / CASES_FILE if has_hidden else None)
