"""Imports Python files by path, and creates the models of tasks in them with drawn parameters.

Norm layers start with weights of 1, biases of 0, and running statistics of 0 and 1; with these, a
candidate that leaves them out computes the same. The judge's model, the candidate's and its rivals'
get the same drawn values.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

_SPREAD = 0.5
"""Constants become uniform within this share of their value; zeros within this distance of 0."""
_RUNNING_STATISTICS = ("running_mean", "running_var")
"""The buffers that training changes. Other constant buffers belong to the task: masks, scales."""


def create_module(file: str, entry: str, task_file: str, seed: int) -> Any:
    """Create a ``torch.nn.Module`` of a KernelBench-style task, on the CPU, in training mode.

    Args:
        file: The file that defines the class.
        entry: The name of the class.
        task_file: The file whose ``get_init_inputs`` returns the constructor's arguments.
        seed: Seeds torch before the constructor draws its weights.
    """
    arguments = import_python_file(task_file).get_init_inputs()
    named: dict[str, Any] = {}
    if len(arguments) == 2 and isinstance(arguments[0], list) and isinstance(arguments[1], dict):
        arguments, named = arguments
    torch.manual_seed(seed)
    return getattr(import_python_file(file), entry)(*arguments, **named)


@cache
def import_python_file(path: str) -> ModuleType:
    """Run a Python file once and return its module; its folder is appended to ``sys.path``.

    The module is registered in ``sys.modules``: Triton reads a kernel's source through it later.
    """
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return import_from_spec(
        importlib.util.spec_from_file_location(f"kernel_{Path(path).stem}", path), path
    )


def import_from_spec(spec: ModuleSpec | None, path: str) -> ModuleType:
    """Create, register and run the module of an import specification.

    Raises:
        ImportError: There is no loader for a file of that name.
    """
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is neither a Python file nor an extension module")
    writes_elsewhere = sys.pycache_prefix is not None and not sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # no .pyc is left in the user's folder, and none is stale
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = not writes_elsewhere  # what torch.compile imports later is kept
    return module


class ConstantTensor(NamedTuple):
    """A parameter or running statistic whose elements are all equal."""

    name: str
    value: float
    tensor: torch.Tensor


def create_task_model(file: str, entry: str, seed: int) -> Any:
    """Create the model of a KernelBench-style task and draw its constants, on the CPU."""
    module = create_module(file, entry, file, seed)
    draw_constants(module, seed)
    return module


def create_candidate_model(
    file: str, entry: str, task_file: str, task_entry: str, seed: int
) -> tuple[Any, list[str]]:
    """Create a candidate's model with the parameters of ``create_task_model``, on the CPU.

    Returns:
        The model, and what ``draw_matching_constants`` returns.
    """
    module = create_module(file, entry, task_file, seed)
    reference = create_module(task_file, task_entry, task_file, seed)
    return module, draw_matching_constants(module, reference, seed)


def draw_constants(module: Any, seed: int) -> None:
    """Replace the constants of a task's own model, in place, with values that follow from a seed.

    Args:
        module: The model, just constructed.
        seed: The same for the reference and for everything that is compared with it.
    """
    for constant in _list_constants(module):
        _write_drawn_values(constant, constant, seed)


def draw_matching_constants(module: Any, reference: Any, seed: int) -> list[str]:
    """Give a candidate's model the values that ``draw_constants`` gives the task's model.

    A constant of the candidate's model is matched with the one of the same name and element count.
    The rest are matched with any of one element count and value, all of which get the same values:
    a candidate may hold the parameters of a layer without the layer, and in another order.

    Args:
        module: The candidate, just constructed; any object, of which only a module has parameters.
        reference: The task's model, just constructed from the same seed, not drawn yet.
        seed: As for ``draw_constants``.

    Returns:
        Names in the task's model for which the candidate's has no counterpart.
    """
    wanted = list(_list_constants(reference))
    found = {constant.name: constant for constant in _list_constants(module)}
    unmatched: list[ConstantTensor] = []
    for constant in wanted:
        own = found.get(constant.name)
        if own is not None and own.tensor.numel() == constant.tensor.numel():
            _write_drawn_values(found.pop(constant.name), constant, seed)
        else:
            unmatched.append(constant)
    by_content: defaultdict[tuple[int, float], list[ConstantTensor]] = defaultdict(list)
    for own in found.values():
        by_content[own.tensor.numel(), own.value].append(own)
    missing: list[str] = []
    for constant in unmatched:
        same_content = by_content[constant.tensor.numel(), constant.value]
        if same_content:
            _write_drawn_values(same_content.pop(0), constant, seed)
        else:
            missing.append(constant.name)
    return missing


def _list_constants(module: Any) -> Iterator[ConstantTensor]:
    if not isinstance(module, torch.nn.Module):
        return
    tensors: list[tuple[str, torch.Tensor]] = list(module.named_parameters())
    tensors += [
        (name, buffer)
        for name, buffer in module.named_buffers()
        if name.split(".")[-1] in _RUNNING_STATISTICS
    ]
    for name, tensor in tensors:
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            continue
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        value = float(tensor.detach().flatten()[0])
        if bool((tensor == value).all()):  # False for NaN
            yield ConstantTensor(name, value, tensor)


def _write_drawn_values(target: ConstantTensor, source: ConstantTensor, seed: int) -> None:
    """Write to one constant what is drawn for another, or for itself."""
    digest = hashlib.sha256(f"{seed} {source.value} {source.tensor.numel()}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
    drawn = torch.rand(source.tensor.numel(), generator=generator, dtype=torch.float64)
    drawn = (2 * drawn - 1) * _SPREAD
    values = source.value * (1 + drawn) if source.value else drawn
    # What its views and tied parameters share changes too; a gradient is never taken.
    with torch.no_grad():
        target.tensor.data.copy_(values.reshape(target.tensor.shape))
