"""Checks a candidate for a KernelBench task without timing it."""

from pathlib import Path

from kernelkb.actions.kernels.measure_variant import build_prepared, check_built
from kernelkb.actions.project.bench_target import prepare_loaded
from kernelkb.adapters.kernelbench import convert_kernelbench_task
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.model.base import Target
from kernelkb.model.records.measurement import Check

MODULE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class {name}(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
{init}

    def forward(self, {arguments}):
{body}
"""


def make_module(name: str, body: str, init: str = "pass", arguments: str = "x") -> str:
    """Return a file with one module; ``body`` and ``init`` hold statements without indentation."""

    def indent(text: str) -> str:
        return "\n".join(" " * 8 + line for line in text.splitlines())

    return MODULE.format(name=name, body=indent(body), init=indent(init), arguments=arguments)


def make_task(body: str, inputs: str, init: str = "pass", arguments: str = "x") -> str:
    """Return a task: its model, and ``inputs`` as an expression of torch."""
    functions = (
        f"\n\ndef get_inputs():\n    return {inputs}\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return make_module("Model", body, init, arguments) + functions


def check_task(project: Path, task: str, candidate: str, target: Target = "cpu") -> Check:
    """Check a candidate's source for a task's source."""
    (project / "asked.py").write_text(task)
    (project / "handed_in.py").write_text(candidate)
    files = convert_kernelbench_task(project / "asked.py", project / "handed_in.py", target)
    folder = load_kernel_folder(files.write(project / ".kb" / "tasks"))
    place = prepare_loaded(folder, None, target)
    return check_built(place, build_prepared(place))
