"""References that are no torch code: recorded outputs, and code with a candidate's interface."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    CodeReference,
    InputSpec,
    OutputSpec,
    RecordedReference,
    Scalar,
)
from kernelkb.measure.worker.shared.python_files import import_from_spec, import_python_file
from kernelkb.measure.worker.shared.tensor_files import read_tensors

UNKNOWN_OPERATIONS = frozenset(("mm", "isnan"))
"""What compiled code is taken to do: products of matrices and comparisons, for which the rules
about small elements and NaN are mildest."""
Tensors = list[torch.Tensor]


class RecordedOutputs:
    """The recorded inputs and outputs of a case; attributes as of ``TorchReference``."""

    is_opaque = True
    makes_inputs = True

    def __init__(self, reference: RecordedReference, case_spec: CaseSpec) -> None:
        """Read the file.

        Raises:
            ValueError: It lacks an array of the case, or has it with another shape or dtype.
        """
        self._file, self._case = Path(reference["file"]), case_spec["name"]
        arrays = _read_file(str(self._file))
        specs = [spec for spec in case_spec["inputs"] if "value" not in spec]
        self._inputs = [self._find(arrays, spec) for spec in specs]
        self._outputs = [self._find(arrays, spec) for spec in case_spec["outputs"]]

    def _find(self, arrays: dict[str, torch.Tensor], spec: Any) -> torch.Tensor:
        name = f"{self._case}/{spec['name']}"
        if name not in arrays:
            raise ValueError(f"{self._file.name} has no array {name}")
        array = arrays[name]
        dtype = str(array.dtype).removeprefix("torch.")
        if list(array.shape) != spec["shape"] or dtype != spec["dtype"]:
            raise ValueError(
                f"{name} in {self._file.name} is {dtype} {tuple(array.shape)}, and kernel.yaml "
                f"says {spec['dtype']} {tuple(spec['shape'])}"
            )
        return array

    def make_inputs(
        self, _seed: int, device: torch.device, _input_specs: Sequence[InputSpec]
    ) -> Tensors:
        """Return copies of the recorded inputs: the same ones for each seed."""
        return [array.to(device, copy=True) for array in self._inputs]

    def run(
        self,
        inputs: Tensors,
        _scalars: Sequence[tuple[int, Scalar]],
        dtype: torch.dtype | None,
        *,
        preserve_inputs: bool,  # noqa: ARG002  # it changes none
    ) -> Tensors:
        """Return copies of the recorded outputs, on the device of the inputs.

        Raises:
            RuntimeError: The inputs are not the recorded ones, or another dtype is asked for.
        """
        pairs = zip(inputs, self._inputs, strict=True)
        if dtype is not None:
            raise RuntimeError("outputs are recorded in one dtype")
        if not all(_has_same_bits(own, recorded) for own, recorded in pairs):
            raise RuntimeError("only the recorded inputs have recorded outputs")
        device = inputs[0].device if inputs else torch.device("cpu")
        return [output.to(device, copy=True) for output in self._outputs]


@cache
def _read_file(path: str) -> dict[str, torch.Tensor]:
    return read_tensors(Path(path))


def _has_same_bits(own: torch.Tensor, recorded: torch.Tensor) -> bool:
    if own.dtype != recorded.dtype or own.shape != recorded.shape:
        return False
    left, right = (one.cpu().contiguous().view(-1).view(torch.uint8) for one in (own, recorded))
    return bool(torch.equal(left, right))


class ReferenceCode:
    """Code that is called as a candidate is, in the judge's own process.

    Attributes are as of ``TorchReference``.
    """

    is_opaque = True
    makes_inputs = False

    def __init__(self, reference: CodeReference, case_spec: CaseSpec) -> None:
        self._reference, self._case_spec = reference, case_spec
        self._call: _Call | None = None

    def make_inputs(
        self, _seed: int, _device: torch.device, _input_specs: Sequence[InputSpec]
    ) -> Tensors:
        """Raise ValueError: they are drawn by ``fill``."""
        raise ValueError("a reference that is code makes no inputs")

    def run(
        self,
        inputs: Tensors,
        scalars: Sequence[tuple[int, Scalar]],
        dtype: torch.dtype | None,
        *,
        preserve_inputs: bool,  # noqa: ARG002  # its inputs are copied where it could change them
    ) -> Tensors:
        """Return the outputs for some inputs, on the inputs' device.

        Args:
            inputs: One tensor for each input that is an array.
            scalars: Inputs that are numbers: position among the arguments, and value.
            dtype: Of floating-point outputs; None: of the kernel's.
            preserve_inputs: Nothing depends on it.

        Raises:
            RuntimeError: It cannot compute in this dtype, or returns an error.
        """
        own = self._reference["computes_in"]
        if dtype is not None and own is None:
            raise RuntimeError("it computes in the dtypes of the kernel only")
        wide = getattr(torch, own) if own else None
        device = torch.device(self._reference["target"])
        arrays = [_convert(tensor, wide).to(device, copy=True).contiguous() for tensor in inputs]
        specs = self._case_spec["outputs"]
        outputs = [self._make_output(spec, arrays, wide, device) for spec in specs]
        arguments: list[Any] = list(arrays)
        for position, value in scalars:
            arguments.insert(position, value)
        self._call = self._call or _load(self._reference)
        returned = self._call(arguments, outputs, self._case_spec["axes"])
        home = inputs[0].device if inputs else device
        return [
            _convert(output.to(home), dtype or getattr(torch, spec["dtype"]))
            for output, spec in zip(returned, specs, strict=True)
        ]

    def _make_output(
        self, spec: OutputSpec, arrays: Tensors, wide: torch.dtype | None, device: torch.device
    ) -> torch.Tensor:
        inputs = [one for one in self._case_spec["inputs"] if "value" not in one]
        for own, array in zip(inputs, arrays, strict=True):
            if own["name"] == spec["starts_as"]:
                return array.clone()
        dtype = getattr(torch, spec["dtype"])
        dtype = wide if wide is not None and dtype.is_floating_point else dtype
        fill = float("nan") if dtype.is_floating_point else 0
        return torch.full(tuple(spec["shape"]), fill, device=device).to(dtype)


def _convert(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


_Call = Callable[[list[Any], Tensors, list[int]], Tensors]


def _load(reference: CodeReference) -> _Call:
    """Return a function of inputs, outputs to write and axes; it returns the outputs."""
    code = reference["code"]
    if code["kind"] == "c":
        return _load_c(code["library"], code["entry"])
    if code["kind"] == "tvm-ffi":
        import tvm_ffi

        return _make_tensor_call(tvm_ffi.load_module(code["library"])[code["entry"]], False)
    if code["kind"] == "torch-extension":
        spec = importlib.util.spec_from_file_location(code["module"], code["library"])
        module: Any = import_from_spec(spec, code["library"])
        return _make_tensor_call(getattr(module, code["entry"]), code["returns"])
    if code["kind"] == "python":
        function = getattr(import_python_file(code["file"]), code["entry"])
        return _make_tensor_call(function, code["returns"])
    raise RuntimeError("a module is a reference by itself: reference: {file: ..., module: ...}")


def _load_c(library: str, entry: str) -> _Call:
    function = getattr(ctypes.CDLL(library), entry)
    function.restype = ctypes.c_int

    def call(arguments: list[Any], outputs: Tensors, axes: list[int]) -> Tensors:
        values = [_to_c(value) for value in (*arguments, *outputs)]
        values += [ctypes.c_int64(size) for size in axes]
        is_on_gpu = any(output.is_cuda for output in outputs)
        stream = torch.cuda.current_stream().cuda_stream if is_on_gpu else 0
        if code := function(*values, ctypes.c_void_p(stream)):
            raise RuntimeError(f"the reference's entry point returned {code}")
        if is_on_gpu:
            torch.cuda.synchronize()
        return outputs

    return call


def _to_c(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


def _make_tensor_call(function: Any, returns: bool) -> _Call:
    def call(arguments: list[Any], outputs: Tensors, _axes: list[int]) -> Tensors:
        if not returns:
            function(*arguments, *outputs)
            return outputs
        result = function(*arguments)
        return [result] if isinstance(result, torch.Tensor) else list(result)

    return call
