"""References that are torch code: a Python function, or a module with its own inputs."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import torch

from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    FunctionReference,
    InputSpec,
    ModuleReference,
    Scalar,
)
from kernelkb.measure.worker.shared.module_parameters import create_task_model
from kernelkb.measure.worker.shared.python_files import import_python_file

Tensors = list[torch.Tensor]


class TorchReference:
    """Torch code that returns the outputs.

    Attributes:
        is_opaque: Whether it is no torch code, which could be run on other rows and other dtypes.
        makes_inputs: Whether a function of its file makes the inputs.
    """

    is_opaque = False

    def __init__(self, reference: FunctionReference | ModuleReference, case_spec: CaseSpec) -> None:
        self._reference, self._case_spec = reference, case_spec
        self.makes_inputs = reference["kind"] == "module" or bool(reference["inputs"])
        self._modules_by_dtype: dict[torch.dtype | None, Any] = {}

    def make_inputs(
        self, seed: int, device: torch.device, input_specs: Sequence[InputSpec]
    ) -> Tensors:
        """Return inputs that its file makes from a seed of the global generators."""
        module = import_python_file(self._reference["file"])
        seed_all(seed)
        if self._reference["kind"] == "module":
            with device:  # a task that names no device draws its inputs on this one
                values = module.get_inputs()
        else:
            sizes = dict(zip(self._case_spec["axis_names"], self._case_spec["axes"], strict=True))
            values = getattr(module, str(self._reference["inputs"]))(**sizes)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        return [
            _take_rows(value, spec["shape"]).to(device).contiguous()
            for value, spec in zip(tensors, input_specs, strict=True)
        ]

    def run(
        self,
        inputs: Tensors,
        scalars: Sequence[tuple[int, Scalar]],
        dtype: torch.dtype | None,
        *,
        preserve_inputs: bool,
    ) -> Tensors:
        """Return its outputs; see ``KernelCase.run_reference``."""
        copies = preserve_inputs and self._reference["kind"] == "module"
        tensors = [_to_dtype(tensor.clone() if copies else tensor, dtype) for tensor in inputs]
        arguments: list[Any] = list(tensors)
        for position, value in scalars:
            arguments.insert(position, value)
        device = inputs[0].device if inputs else torch.device("cpu")
        result = self._find_function(dtype, device)(*arguments)
        outputs = [result] if isinstance(result, torch.Tensor) else list(result)
        return [
            output.clone()
            if _has_hidden_storage(output) or _shares_memory(output, tensors)
            else output
            for output in outputs
        ]

    def _find_function(self, dtype: torch.dtype | None, device: torch.device) -> Any:
        reference = self._reference
        if reference["kind"] == "python":
            return getattr(import_python_file(reference["file"]), reference["entry"])
        if dtype not in self._modules_by_dtype:
            file, entry = reference["file"], reference["entry"]
            module = create_task_model(file, entry, reference["seed"]).to(device)
            self._modules_by_dtype[dtype] = module if dtype is None else module.to(dtype)
        return self._modules_by_dtype[dtype]


def seed_all(seed: int) -> None:
    """Seed the global generators of torch, random and, if it is loaded, numpy.

    Not by ``torch.manual_seed``, which keeps a stack trace for each kind of device that this
    process has not used, in case that it will: a seventh of a bench on inputs of 0.5 MB.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _take_rows(value: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return as many rows of an input as a shape has: a case may be a part of a task's."""
    return value[: shape[0]] if shape and shape[0] < len(value) else value


def _to_dtype(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def _has_hidden_storage(tensor: torch.Tensor) -> bool:
    """Return whether its storage is larger than its elements, as of torch's scalar losses."""
    return bool(tensor.untyped_storage().nbytes() > tensor.nbytes)


def _shares_memory(output: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether an output is an input or a view of one, and would change with it."""
    storage = output.untyped_storage().data_ptr()
    return any(tensor.untyped_storage().data_ptr() == storage for tensor in inputs)
