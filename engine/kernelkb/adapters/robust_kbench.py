"""Converts a task of robust-kbench and a candidate to a kernel folder, with all configurations.

A task is a folder: ``func_forward.py`` has ``forward_fn``, a ``Model`` that calls it, and
``get_inputs``; ``config_forward.json`` has their settings. The arguments that a model gives to
``forward_fn`` become the kernel's inputs, weights included: these are drawn for every check.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

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
from kernelkb.model.kernels.languages import choose_compiled_language
from kernelkb.safety.untrusted_text import parse_json

CONFIGURATION_FILE = "config_forward.json"
FUNCTION_FILE = "func_forward.py"
_SETTINGS = TypeAdapter(dict[str, list[dict[str, Any]]])
_GROUPS = ("init_configs", "input_configs", "shared_configs")
_ADAPTER = """\
import torch

# Arguments of Model and of get_inputs, for each configuration; the first is the one that is timed.
SETTINGS = {settings!r}
_task = _load("func_forward")


class Model(torch.nn.Module):
    def forward(self, *arguments):
        return _task.forward_fn(*arguments)


class _Stop(Exception):
    pass


def get_case_inputs(index):
    init, given = SETTINGS[index]
    caught = []

    def catch(*arguments):
        caught.extend(arguments)
        raise _Stop

    with torch.no_grad(), torch.device({target!r}):
        model = _task.Model(**init).to({target!r})
        try:
            model(*_task.get_inputs(**given), fn=catch)
        except _Stop:
            pass
    return [a.detach() if isinstance(a, torch.Tensor) else a for a in caught]


def get_inputs():
    return get_case_inputs(0)


def get_init_inputs():
    return []


def get_all_inputs():
    return (get_case_inputs(index) for index in range(1, len(SETTINGS)))
"""


def is_robust_kbench(task: Path) -> bool:
    """Return whether a path is a task of robust-kbench: its folder, or its function's file."""
    folder = task if task.is_dir() else task.parent
    names_task = task.is_dir() or re.fullmatch(r"func_\w+\.py|config_\w+\.json", task.name)
    return bool(names_task) and (folder / FUNCTION_FILE).is_file()


def convert_robust_kbench(task: Path, candidate: Path, target: Target) -> KernelFiles:
    """Return the files of a kernel folder for one candidate of one task.

    Args:
        task: The task's folder, or ``func_forward.py`` in it.
        candidate: A source that exports ``forward`` to Python, or a Python file that defines
            ``forward_fn`` or ``forward``.
        target: Where it will run.

    Raises:
        BadValueError: A file has another format, or the task cannot be compared with.
    """
    _require_forward(task)
    folder = task if task.is_dir() else task.parent
    settings = _read_settings(folder / CONFIGURATION_FILE)
    files = {
        FUNCTION_FILE: read_task_text(folder / FUNCTION_FILE),
        "task.py": make_adapter(
            "A task of robust-kbench, as kb takes it.",
            _ADAPTER.format(settings=settings, target=target),
        ),
    }
    description = _describe(task, files, target)
    case_files = {
        f"configuration_{at}.py": make_case_file("task", at) for at in range(1, len(settings))
    }
    cases, left_out = make_extra_case_rows(description, "configuration", list(case_files))
    variant, source = _read_candidate(candidate, target)
    kernel = make_task_kernel(folder.resolve().name, description, cases, variant)
    files |= {**case_files, **source, "kernel.yaml": dump_kernel_yaml(kernel)}
    warnings = (*(f"the task: {warning}" for warning in description["warnings"]), *left_out)
    return KernelFiles(kernel["id"], files, warnings)


def _require_forward(task: Path) -> None:
    if not task.is_dir() and "backward" in task.name:
        raise BadValueError(
            f"{task.name}: backward passes are not supported; name the folder, which is its "
            f"forward pass"
        )


def _read_settings(path: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the arguments of Model and get_inputs for each configuration, each once.

    As robust-kbench combines them: first the single configuration, then every product of several.
    """
    try:
        groups = _SETTINGS.validate_python(parse_json(read_task_text(path)))
        rows = [
            ({**init, **shared}, {**given, **shared})
            for kind in ("single", "multi")
            for init, given, shared in product(*(groups[f"{kind}_{group}"] for group in _GROUPS))
        ]
    except (ValueError, ValidationError) as error:
        text = str(error).splitlines()[0]
        raise BadValueError(f"{path} has no configurations of robust-kbench: {text}") from error
    except KeyError as error:
        raise BadValueError(f"{path} has no {error}, which tasks of robust-kbench have") from error
    if not rows:
        raise BadValueError(f"{path} has no configuration; give each single_* list an entry")
    return [row for at, row in enumerate(rows) if row not in rows[:at]]


def _describe(task: Path, files: dict[str, str], target: Target) -> TaskDescription:
    with scratch_folder() as folder:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = folder / "task.py"
        return describe_task(task, path, target, path)


def _read_candidate(candidate: Path, target: Target) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the variant of kernel.yaml, and the candidate's file by its new name."""
    text = read_task_text(candidate)
    common = {"id": "candidate", "target": target, "returns": True, "summary": candidate.name}
    if candidate.suffix == ".py":
        found = re.search(r"^def (forward_fn|forward)\b", text, re.MULTILINE)
        if found is None:
            raise BadValueError(f"{candidate} defines no forward_fn, which is what the task calls")
        fields = {"language": "python", "source": "candidate.py", "entry": found[1]}
        return {**common, **fields}, {"candidate.py": text}
    if candidate.suffix not in (".cu", ".cpp"):
        raise BadValueError(f"{candidate.name} is no candidate; give a .cu, .cpp or .py file")
    if candidate.suffix == ".cu" and target == "cpu":
        raise BadValueError(f"{candidate.name} is CUDA, which needs a GPU; give a .cpp or .py file")
    if not re.search(r'\.def\(\s*"forward"', text):
        raise BadValueError(f'{candidate} exports no forward; add m.def("forward", &NAME)')
    source = f"candidate{candidate.suffix}"
    language = choose_compiled_language(target)
    fields = {"language": language, "binding": "torch-extension", "source": source}
    return {**common, **fields, "entry": "forward"}, {source: text}
