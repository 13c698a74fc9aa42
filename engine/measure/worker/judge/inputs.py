"""Inputs of a case, drawn anew before each batch, and the reference's outputs for them."""

from __future__ import annotations

import math
import random
import secrets
import sys
from collections.abc import Sequence
from typing import Any

import torch

from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    InputSpec,
    OutputSpec,
    Reference,
    Scalar,
    Target,
)
from kernelkb.measure.worker.shared.python_files import create_module, import_python_file

Tensors = list[torch.Tensor]

_MIN_EXTRA_VALUES = 4096
"""A random pool has at least as many values more than an array, so that small arrays vary too."""
_FLOAT_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""Types that ``torch.add`` can write to directly."""
_POISON_BYTE = 0x5B
"""Fills integer outputs before a call: an unlikely value in every integer type."""
_SEED_BITS = 31
_POOL_SEED_BITS = 48


class KernelCase:
    """One case of a kernel: shapes, how to make inputs, and the reference.

    Attributes:
        target: Where the arrays are: ``cpu`` or ``cuda``.
        scalars: Inputs that are numbers: position among the arguments, and value.
        input_specs: Inputs that are arrays, in the order of the arguments.
    """

    def __init__(self, target: Target, reference: Reference, case_spec: CaseSpec) -> None:
        self.target = target
        self.case_spec = case_spec
        self._reference = reference
        self.scalars: list[tuple[int, Scalar]] = [
            (position, spec["value"])
            for position, spec in enumerate(case_spec["inputs"])
            if "value" in spec
        ]
        self.input_specs: list[InputSpec] = [
            spec for spec in case_spec["inputs"] if "value" not in spec
        ]
        self.output_specs: list[OutputSpec] = case_spec["outputs"]
        self._modules_by_dtype: dict[torch.dtype | None, Any] = {}
        self._pools: list[RandomPool] = []
        self._is_repeatable = False

    @property
    def device(self) -> torch.device:
        """The device that holds the arrays."""
        return torch.device("cuda" if self.target == "cuda" else "cpu")

    def make_inputs(self, seed: int) -> Tensors:
        """Return inputs drawn from a seed: one tensor for each of ``input_specs``.

        The same seed gives the same bits on this machine.

        Raises:
            RuntimeError: The task's own inputs do not follow from the seed.
        """
        if self._has_own_inputs:
            inputs = self._make_own_inputs(seed)
            if not self._is_repeatable:
                self._is_repeatable = all(map(same_bits, inputs, self._make_own_inputs(seed)))
            if not self._is_repeatable:
                raise RuntimeError(
                    "its inputs differ between two draws from one seed: draw them from the global "
                    "generators of torch, numpy or random, which are seeded before each draw"
                )
            return inputs
        inputs = [
            torch.empty(
                tuple(spec["shape"]), dtype=getattr(torch, spec["dtype"]), device=self.device
            )
            for spec in self.input_specs
        ]
        self._fill_from_pools(seed, inputs)
        return inputs

    def fill_inputs(self, seed: int, arrays: Tensors) -> None:
        """Write the values of ``make_inputs`` to existing arrays. Raises like it."""
        if self._has_own_inputs:
            for array, value in zip(arrays, self.make_inputs(seed), strict=True):
                array.copy_(value)
        else:
            self._fill_from_pools(seed, arrays)

    def _fill_from_pools(self, seed: int, arrays: Tensors) -> None:
        if not self._pools:
            self._pools = [RandomPool(spec, self.device) for spec in self.input_specs]
        rng = random.Random(seed)
        for pool, array in zip(self._pools, arrays, strict=True):
            pool.fill(array, rng)

    @property
    def _has_own_inputs(self) -> bool:
        """Whether a function of the reference file makes the inputs."""
        return self._reference["kind"] == "module" or bool(self._reference["inputs"])

    def _make_own_inputs(self, seed: int) -> Tensors:
        module = import_python_file(self._reference["file"])
        seed_all(seed)
        if self._reference["kind"] == "module":
            with self.device:  # a task that names no device draws its inputs on this one
                values = module.get_inputs()
        else:
            sizes = dict(zip(self.case_spec["axis_names"], self.case_spec["axes"], strict=True))
            values = getattr(module, str(self._reference["inputs"]))(**sizes)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        return [value.to(self.device).contiguous() for value in tensors]

    def draws_alike(self, first: int, second: int) -> bool:
        """Return whether two inputs are drawn here, and from one distribution."""
        left, right = (self.input_specs[at] for at in (first, second))
        same = left.get("fill") == right.get("fill") and left.get("scale") == right.get("scale")
        return same and not self._has_own_inputs

    def run_reference(
        self, inputs: Tensors, dtype: torch.dtype | None, *, preserve_inputs: bool = True
    ) -> Tensors:
        """Return the reference's outputs: one tensor for each of ``output_specs``.

        Args:
            inputs: One tensor for each of ``input_specs``.
            dtype: Floating-point inputs and weights are converted to it first; None: as they are.
            preserve_inputs: Copy the inputs for a task's model, which may change them in place.
        """
        copies = preserve_inputs and self._reference["kind"] == "module"
        tensors = [_to_dtype(tensor.clone() if copies else tensor, dtype) for tensor in inputs]
        arguments: list[Any] = list(tensors)
        for position, value in self.scalars:
            arguments.insert(position, value)
        result = self._reference_function(dtype)(*arguments)
        outputs = [result] if isinstance(result, torch.Tensor) else list(result)
        return [
            output.clone()
            if _has_hidden_storage(output) or _shares_memory(output, tensors)
            else output
            for output in outputs
        ]

    def _reference_function(self, dtype: torch.dtype | None) -> Any:
        reference = self._reference
        if reference["kind"] == "python":
            return getattr(import_python_file(reference["file"]), reference["entry"])
        if dtype not in self._modules_by_dtype:
            file, entry = reference["file"], reference["entry"]
            module = create_module(file, entry, file, reference["seed"]).to(self.device)
            self._modules_by_dtype[dtype] = module if dtype is None else module.to(dtype)
        return self._modules_by_dtype[dtype]


class RandomPool:
    """Fills arrays of one distribution from values drawn once.

    Drawing all values anew takes longer than most kernels on a CPU. The sum of two disjoint
    stretches of a pool, at offsets drawn each time, has the same distribution and is faster.
    """

    def __init__(self, spec: InputSpec, device: torch.device) -> None:
        self._dtype: torch.dtype = getattr(torch, spec["dtype"])
        self._distribution, self._scale = spec["fill"], spec["scale"]
        self._count = math.prod(spec["shape"])
        generator = torch.Generator(device=device)
        generator.manual_seed(secrets.randbits(_POOL_SEED_BITS))
        # Two stretches are used at a time; the rest is room to choose their offsets.
        pool_size = self._count + max(2 * self._count, _MIN_EXTRA_VALUES)
        options: dict[str, Any] = {"generator": generator, "device": device}
        if self._distribution == "integers":
            bound = int(self._scale)
            dtype = _choose_integer_dtype(self._dtype, 2 * bound)
            self._values = torch.randint(0, bound, (pool_size,), dtype=dtype, **options)
        elif self._distribution == "uniform":
            self._values = torch.rand(pool_size, **options)
        elif self._distribution == "normal":
            # The sum of two normal values has the square root of twice the deviation.
            self._values = torch.randn(pool_size, **options).mul_(self._scale / math.sqrt(2))

    def fill(self, out: torch.Tensor, rng: random.Random) -> None:
        """Fill a contiguous array of the spec's shape; a state of ``rng`` determines the values."""
        if self._distribution in ("ones", "zeros"):
            out.fill_(self._distribution == "ones")
            return
        count, last = self._count, len(self._values) - self._count
        first_offset = rng.randint(0, last - count)
        second_offset = rng.randint(first_offset + count, last)
        flat = out.view(-1)
        is_direct = self._values.dtype == self._dtype or (
            self._distribution == "normal" and self._dtype in _FLOAT_DTYPES
        )
        sums = flat if is_direct else self._values.new_empty(count)
        first = self._values[first_offset : first_offset + count]
        second = self._values[second_offset : second_offset + count]
        torch.add(first, second, out=sums)
        if self._distribution == "uniform":
            sums.frac_().mul_(self._scale)
        elif self._distribution == "integers":
            sums.remainder_(int(self._scale))
        if sums is not flat:
            flat.copy_(sums)


def _choose_integer_dtype(dtype: torch.dtype, largest: int) -> torch.dtype:
    """Return an integer type that can hold ``largest``: the array's own if possible, else int64."""
    is_integer = not dtype.is_floating_point and dtype != torch.bool
    return dtype if is_integer and torch.iinfo(dtype).max >= largest else torch.int64


def _to_dtype(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def _has_hidden_storage(tensor: torch.Tensor) -> bool:
    """Return whether its storage is larger than its elements, as of torch's scalar losses."""
    return bool(tensor.untyped_storage().nbytes() > tensor.nbytes)


def _shares_memory(output: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether an output is an input or a view of one, and would change with it."""
    storage = output.untyped_storage().data_ptr()
    return any(tensor.untyped_storage().data_ptr() == storage for tensor in inputs)


class InputGenerator:
    """Draws each slot's inputs, and draws them again for the reference.

    No contents repeat and none follow from earlier ones, so a candidate gains nothing by keeping
    results of earlier calls.
    """

    def __init__(self, case: KernelCase, rng: random.Random) -> None:
        self._case = case
        self._rng = rng
        self._seeds: dict[int, int] = {}
        self._cache: tuple[int, Tensors] | None = None

    def refill(self, slot: int, arrays: Tensors) -> None:
        """Fill a slot's input arrays from a new seed."""
        self._seeds[slot] = self._rng.getrandbits(_SEED_BITS)
        self._case.fill_inputs(self._seeds[slot], arrays)

    def regenerate(self, slot: int) -> Tensors:
        """Return a slot's current inputs, drawn again: copies that no runner can reach."""
        seed = self._seeds[slot]
        if self._cache is None or self._cache[0] != seed:
            self._cache = None  # frees the old ones first: memory may not hold both
            self._cache = (seed, [array.contiguous() for array in self._case.make_inputs(seed)])
        return self._cache[1]


def seed_all(seed: int) -> None:
    """Seed the global generators of torch, random and, if it is loaded, numpy."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def byte_view(array: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a contiguous array, as a view: (array.nbytes,) uint8."""
    return array.view(-1).view(torch.uint8)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Compare contiguous arrays byte by byte: NaN equals itself, −0 does not equal 0."""
    return bool(torch.equal(byte_view(left), byte_view(right)))


def poison(arrays: Tensors) -> None:
    """Fill outputs with NaN, integers with an unlikely byte: elements not written stay visible."""
    for array in arrays:
        if array.is_floating_point():
            array.fill_(float("nan"))
        else:
            byte_view(array).fill_(_POISON_BYTE)


def is_poisoned(arrays: Tensors) -> bool:
    """Return whether outputs are bit for bit as ``poison`` fills them."""
    return all(same_bits(array, _poison_like(array)) for array in arrays)


def _poison_like(array: torch.Tensor) -> torch.Tensor:
    poisoned = torch.empty_like(array)
    poison([poisoned])
    return poisoned
