"""References: torch code, recorded outputs, code with a candidate's interface; their operations."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from kernelkb.measure.worker.shared.array_values import read_tensors
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    CodeReference,
    FunctionReference,
    InputSpec,
    ModuleReference,
    OutputSpec,
    RecordedReference,
    Scalar,
)
from kernelkb.measure.worker.shared.python_files import (
    create_task_model,
    import_from_spec,
    import_python_file,
)

Tensors = list[torch.Tensor]

UNKNOWN_OPERATIONS = frozenset(("mm", "isnan"))
"""What compiled code is taken to do: products of matrices and comparisons, for which the rules
about small elements and NaN are mildest."""

CONVOLUTIONS = ("convolution", "_convolution", "mkldnn_convolution", "cudnn_convolution")
_MIXING_PREFIXES = (
    *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear"),
    *("convolution", "_convolution", "mkldnn_", "cudnn_", "miopen_", "_fft_", "_cdist", "cdist"),
    *("_scaled_dot_product", "scaled_dot_product", "_efficient_attention", "_flash_attention"),
    *("_scaled_mm", "_int_mm", "_thnn_fused", "lstm", "gru", "einsum"),
)
_ORDERING = (
    *("argmax", "argmin", "topk", "sort", "argsort", "kthvalue", "median", "mode", "unique"),
    *("_unique", "_unique2", "unique_dim", "searchsorted", "bucketize", "nonzero", "histc"),
    *("multinomial", "msort", "cummax", "cummin"),
)
_RANKING = {"topk", "sort", "kthvalue", "median", "msort", "cummax", "cummin"}
_COMPARISONS = ("gt", "lt", "ge", "le", "eq", "ne", "where", "threshold", "sign", "isnan", "sgn")
_INDEXED = (
    *("index", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_select"),
    *("index_put", "_index_put_impl", "embedding", "bincount", "take", "index_copy", "one_hot"),
)
_STEPS = ("round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide", "fmod",
          "remainder", *_COMPARISONS[:7], *_ORDERING)  # fmt: skip
_Call = Callable[[list[Any], Tensors, list[int]], Tensors]
_Drawn = TypeVar("_Drawn")
_BOUNDED = ("relu", "relu6", "clamp", "clamp_min", "clip", "hardtanh", "max_pool1d", "max_pool2d",
            "max_pool3d", "adaptive_max_pool2d")  # fmt: skip


class TorchReference:
    """Torch code that returns the outputs.

    Attributes:
        is_opaque: Whether it is no torch code, which could be run on other rows and other dtypes.
        makes_inputs: Whether a function of its file makes the inputs.
        returns_views: Whether an output is memory of an input; None: it has not run yet.
    """

    is_opaque = False
    returns_views: bool | None = None

    def __init__(self, reference: FunctionReference | ModuleReference, case_spec: CaseSpec) -> None:
        self._reference, self._case_spec = reference, case_spec
        self.makes_inputs = reference["kind"] == "module" or bool(reference["inputs"])
        self._modules_by_dtype: dict[torch.dtype | None, Any] = {}

    def make_inputs(
        self, seed: int, device: torch.device, input_specs: Sequence[InputSpec]
    ) -> Tensors:
        """Return inputs that its file makes from a seed of the global generators."""
        module = import_python_file(self._reference["file"])
        values = draw_seeded(seed, lambda: self._call_maker(module, device))
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        return [
            _take_rows(value, spec["shape"]).to(device).contiguous()
            for value, spec in zip(tensors, input_specs, strict=True)
        ]

    def _call_maker(self, module: Any, device: torch.device) -> Sequence[Any]:
        if self._reference["kind"] == "module":
            with device:  # a task that names no device draws its inputs on this one
                return list(module.get_inputs())
        sizes = dict(zip(self._case_spec["axis_names"], self._case_spec["axes"], strict=True))
        return list(getattr(module, str(self._reference["inputs"]))(**sizes))

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
        are_views = [_shares_memory(output, tensors) for output in outputs]
        self.returns_views = any(are_views)
        return [
            output.clone() if is_view or _has_hidden_storage(output) else output
            for output, is_view in zip(outputs, are_views, strict=True)
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


def draw_seeded(seed: int, draw: Callable[[], _Drawn]) -> _Drawn:
    """Return what a function draws from the global generators once they are seeded.

    One that is the first to use CUDA draws again: its generator could not be seeded before.
    """
    could_seed = torch.cuda.is_initialized()
    seed_all(seed)
    drawn = draw()
    if torch.cuda.is_initialized() != could_seed:
        seed_all(seed)
        drawn = draw()
    return drawn


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


def multiplies_matrices(operations: frozenset[str]) -> bool:
    """Return whether inputs of one output element reach others in some correct algorithms.

    FFT, Winograd and Strassen spread NaN and infinities, and their error follows the largest input.
    """
    return any(name.startswith(_MIXING_PREFIXES) for name in operations)


def convolves(operations: frozenset[str]) -> bool:
    """Return whether the reference runs a convolution."""
    return any(name in CONVOLUTIONS for name in operations)


def orders_elements(operations: frozenset[str]) -> bool:
    """Return whether the reference picks elements by their order, so that ties are ambiguous."""
    return any(name in _ORDERING for name in operations)


def sorts_values(operations: frozenset[str]) -> bool:
    """Return whether it only sorts, or picks by rank: the values are the same for any tie."""
    ordering = {name for name in operations if name in _ORDERING}
    return bool(ordering) and ordering <= _RANKING and not computes_any_index(operations)


def computes_any_index(operations: frozenset[str]) -> bool:
    """Return whether it indexes."""
    return any(name in _INDEXED for name in operations)


def compares_elements(operations: frozenset[str]) -> bool:
    """Return whether it compares elements, so that NaN may take either branch."""
    return any(name in _COMPARISONS for name in operations) or orders_elements(operations)


def computes_indices(operations: frozenset[str]) -> bool:
    """Return whether it indexes by something else than the order of elements."""
    return computes_any_index(operations) and not orders_elements(operations)


def has_steps(operations: frozenset[str]) -> bool:
    """Return whether its outputs may jump where an input changes by a rounding error."""
    return any(name in _STEPS for name in operations)


def rounds_off(operations: frozenset[str]) -> bool:
    """Return whether it rounds numbers to integers."""
    return not operations.isdisjoint(("round", "floor", "ceil", "trunc"))


def record_operations(call: Callable[[], Any]) -> frozenset[str]:
    """Call a function and return the names of the ATen operations that it runs.

    Names are without overload and trailing underscore, such as ``mm`` and ``add``. A dispatch mode
    would tell the same, and import sympy first, which takes seconds.
    """
    with torch.autograd.profiler.profile() as profile:
        call()
    names = {event.name for event in profile.function_events or ()}
    return frozenset(n.removeprefix("aten::").rstrip("_") for n in names if n.startswith("aten::"))


class NanIgnoringMode(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it
    """While active, maxima and minima ignore NaN, as ``fmaxf`` of C and CUDA does.

    torch propagates NaN there; kernels that do not are in common use.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one function of torch, by another rule where there is one."""
        name = getattr(func, "__name__", "")
        replacement = _NAN_IGNORING.get(name.rstrip("_"))
        if replacement is None or not args or not isinstance(args[0], torch.Tensor):
            return func(*args, **(kwargs or {}))
        result = replacement(func, *args, **(kwargs or {}))
        return args[0].copy_(result) if name.endswith("_") else result


class StableOrderMode(TorchFunctionMode):  # type: ignore[misc]  # as above
    """While active, equal elements keep their order, as kernels have it that take the first.

    Which of them torch takes is not defined.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one function of torch, with a stable order where it sorts or picks by rank."""
        names = _ORDER_ARGUMENTS.get(getattr(func, "__name__", ""))
        if names is None or "out" in (kwargs or {}):
            return func(*args, **(kwargs or {}))
        # The overloads with stable take it by keyword alone, and so all others.
        given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        tensor = given.pop("input")
        return _take_first(tensor, **given) if "k" in given else func(tensor, **given | _STABLE)


_ORDER_ARGUMENTS = {
    "topk": ("input", "k", "dim", "largest", "sorted"),
    "sort": ("input", "dim", "descending"),
    "argsort": ("input", "dim", "descending"),
}
"""Functions that choose among equal elements, with what they take by position."""
_STABLE = {"stable": True}


def _take_first(tensor: torch.Tensor, k: int, dim: int = -1, largest: bool = True, **_: Any) -> Any:
    found = torch.sort(tensor, dim=dim, descending=largest, stable=True)
    parts = (part.narrow(dim, 0, k).contiguous() for part in found)
    return torch.return_types.topk(parts)


def _lowest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.nan_to_num(float("-inf"), float("inf"), float("-inf"))


def _highest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.nan_to_num(float("inf"), float("inf"), float("-inf"))


def _maximum_without_nan(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if args and isinstance(args[0], torch.Tensor):
        return torch.fmax(tensor, args[0])
    return func(_lowest(tensor), *args, **kwargs)


def _minimum_without_nan(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if args and isinstance(args[0], torch.Tensor):
        return torch.fmin(tensor, args[0])
    return func(_highest(tensor), *args, **kwargs)


def _lower_bound_without_nan(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """NaN becomes the lower bound, as ``fminf(fmaxf(x, low), high)`` has it."""
    return func(_lowest(tensor), *args, **kwargs)


_NAN_IGNORING: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("max", "amax", "maximum"), _maximum_without_nan),
    **dict.fromkeys(("min", "amin", "minimum"), _minimum_without_nan),
    **dict.fromkeys(_BOUNDED, _lower_bound_without_nan),
}
