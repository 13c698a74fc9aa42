"""What is to be computed, on the judge's side: inputs, how they change, and the right outputs."""

from __future__ import annotations

import math
import random
import secrets
import sys
from collections.abc import Sequence
from typing import Any

import torch

from kernelkb.measure.worker.shared.python_files import create_module, import_python_file

Job = dict[str, Any]
Tensors = list[torch.Tensor]

_MIN_EXTRA_VALUES = 4096
_FLOAT_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_POISON_BYTE = 0x5B


class KernelCase:
    """One case of a kernel: shapes, a way to make inputs, and the reference."""

    def __init__(self, job: Job, case_spec: Job) -> None:
        self.target: str = job["target"]
        self.case_spec = case_spec
        self._reference_spec: Job = job["reference"]
        self.scalars: list[tuple[int, Any]] = [
            (at, spec["value"]) for at, spec in enumerate(case_spec["inputs"]) if "value" in spec
        ]
        self.input_specs: list[Job] = [spec for spec in case_spec["inputs"] if "value" not in spec]
        self.output_specs: list[Job] = case_spec["outputs"]
        self._modules_by_dtype: dict[torch.dtype | None, Any] = {}
        self._pools: list[RandomPool] = []
        self._is_repeatable = False

    @property
    def device(self) -> torch.device:
        """Where the arrays live."""
        return torch.device("cuda" if self.target == "cuda" else "cpu")

    def make_inputs(self, seed: int) -> Tensors:
        """Return inputs made from a seed; the same seed gives the same on this machine.

        Raises:
            RuntimeError: The task's own inputs are others each time.
        """
        if self._has_own_inputs:
            made = self._make_own_inputs(seed)
            if not self._is_repeatable:
                self._is_repeatable = all(map(same_bits, made, self._make_own_inputs(seed)))
            if not self._is_repeatable:
                raise RuntimeError(
                    "its inputs are others each time: draw them from the generators of torch, "
                    "numpy or random that everybody shares, which are seeded before each draw"
                )
            return made
        made = [
            torch.empty(
                tuple(spec["shape"]), dtype=getattr(torch, spec["dtype"]), device=self.device
            )
            for spec in self.input_specs
        ]
        self._fill_from_pools(seed, made)
        return made

    def fill_inputs(self, seed: int, arrays: Tensors) -> None:
        """Fill arrays with what ``fresh`` returns; see there."""
        if self._has_own_inputs:
            for array, value in zip(arrays, self.make_inputs(seed), strict=True):
                array.copy_(value)
        else:
            self._fill_from_pools(seed, arrays)

    def _fill_from_pools(self, seed: int, arrays: Tensors) -> None:
        if not self._pools:
            self._pools = [RandomPool(spec, self.device) for spec in self.input_specs]
        draw = random.Random(seed)
        for bank, array in zip(self._pools, arrays, strict=True):
            bank.fill(array, draw)

    @property
    def _has_own_inputs(self) -> bool:
        return self._reference_spec["kind"] == "module" or bool(self._reference_spec.get("inputs"))

    def _make_own_inputs(self, seed: int) -> Tensors:
        module = import_python_file(self._reference_spec["file"])
        seed_all(seed)
        if self._reference_spec["kind"] == "module":
            with self.device:  # a task that does not care draws its inputs where they are needed
                made = module.get_inputs()
        else:
            sizes = dict(zip(self.case_spec["axis_names"], self.case_spec["axes"], strict=True))
            made = getattr(module, self._reference_spec["inputs"])(**sizes)
        tensors = [value for value in made if isinstance(value, torch.Tensor)]
        return [value.to(self.device).contiguous() for value in tensors]

    def run_reference(
        self, inputs: Tensors, dtype: torch.dtype | None, *, preserve_inputs: bool = True
    ) -> Tensors:
        """Return the reference's outputs, computed in ``dtype``, or as it stands when None.

        ``preserve_inputs`` says whether somebody reads the inputs afterwards: a task's model may
        change its own in place.
        """
        mine = preserve_inputs and self._reference_spec["kind"] == "module"
        given = [_to_dtype(tensor.clone() if mine else tensor, dtype) for tensor in inputs]
        values: list[Any] = list(given)
        for at, value in self.scalars:
            values.insert(at, value)
        result = self._reference_function(dtype)(*values)
        made = [result] if isinstance(result, torch.Tensor) else list(result)
        return [
            one.clone() if _has_hidden_storage(one) or _shares_memory(one, given) else one
            for one in made
        ]

    def _reference_function(self, dtype: torch.dtype | None) -> Any:
        reference = self._reference_spec
        if reference["kind"] != "module":
            return getattr(import_python_file(reference["file"]), reference["entry"])
        if dtype not in self._modules_by_dtype:
            file, entry = reference["file"], reference["entry"]
            module = create_module(file, entry, file, reference["seed"]).to(self.device)
            self._modules_by_dtype[dtype] = module if dtype is None else module.to(dtype)
        return self._modules_by_dtype[dtype]


class RandomPool:
    """Makes arrays of one fill out of values that were drawn once.

    Drawing all values anew takes longer than most kernels, on a CPU. The sum of two stretches of a
    long row, each of them somewhere else every time, has the same distribution in less.
    """

    def __init__(self, spec: Job, device: torch.device) -> None:
        self._dtype: torch.dtype = getattr(torch, spec["dtype"])
        self._distribution, self._scale = spec["fill"], spec["scale"]
        self._count = math.prod(spec["shape"])
        generator = torch.Generator(device=device).manual_seed(secrets.randbits(48))
        # Twice as much as is used at a time, and one stretch more so that the two never overlap.
        count = self._count + max(2 * self._count, _MIN_EXTRA_VALUES)
        how: Job = {"generator": generator, "device": device}
        if self._distribution == "integers":
            below, whole = (
                int(self._scale),
                _choose_integer_dtype(self._dtype, 2 * int(self._scale)),
            )
            self._values = torch.randint(0, below, (count,), dtype=whole, **how)
        elif self._distribution == "uniform":
            self._values = torch.rand(count, **how)
        elif self._distribution == "normal":
            self._values = torch.randn(count, **how).mul_(self._scale / math.sqrt(2))

    def fill(self, out: torch.Tensor, rng: random.Random) -> None:
        """Fill a contiguous array; the same state of ``rng`` gives the same."""
        if self._distribution in ("ones", "zeros"):
            out.fill_(self._distribution == "ones")
            return
        count, last = self._count, len(self._values) - self._count
        one = rng.randint(0, last - count)
        other = rng.randint(one + count, last)
        flat = out.view(-1)
        whole = self._distribution == "normal" and self._dtype in _FLOAT_DTYPES
        sums = flat if whole or self._values.dtype == self._dtype else self._values.new_empty(count)
        torch.add(self._values[one : one + count], self._values[other : other + count], out=sums)
        if self._distribution == "uniform":
            sums.frac_().mul_(self._scale)
        elif self._distribution == "integers":
            sums.remainder_(int(self._scale))
        if sums is not flat:
            flat.copy_(sums)


def _choose_integer_dtype(dtype: torch.dtype, largest: int) -> torch.dtype:
    """Return an integer type that holds ``largest``, the array's own where that does."""
    is_whole = not dtype.is_floating_point and dtype != torch.bool
    return dtype if is_whole and torch.iinfo(dtype).max >= largest else torch.int64


def _to_dtype(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def _has_hidden_storage(one: torch.Tensor) -> bool:
    """Say whether memory is kept that it does not show: torch's own losses do, for one number."""
    return bool(one.untyped_storage().nbytes() > one.nbytes)


def _shares_memory(one: torch.Tensor, given: Sequence[torch.Tensor]) -> bool:
    """Say whether it is an input, or a view of one, and would change with it."""
    storage = one.untyped_storage().data_ptr()
    return any(tensor.untyped_storage().data_ptr() == storage for tensor in given)


class InputGenerator:
    """What the inputs of each slot hold, and how to make them again elsewhere.

    No content ever comes twice, and none can be made out of earlier ones, so nobody gains by
    keeping what was computed before: not all of it, and not the part that did not change.
    """

    def __init__(self, case: KernelCase, rng: random.Random) -> None:
        self._case = case
        self._rng = rng
        self._seeds: dict[int, int] = {}
        self._cache: tuple[int, Tensors] | None = None

    def refill(self, slot: int, arrays: Tensors) -> None:
        """Fill a slot's inputs with values that no slot has had."""
        self._seeds[slot] = self._rng.getrandbits(31)
        self._case.fill_inputs(self._seeds[slot], arrays)

    def regenerate(self, slot: int) -> Tensors:
        """Return what a slot's inputs have to hold now, made apart from them."""
        seed = self._seeds[slot]
        if self._cache is None or self._cache[0] != seed:
            self._cache = None  # before the new ones are made: there may be no room for both
            self._cache = (seed, [array.contiguous() for array in self._case.make_inputs(seed)])
        return self._cache[1]


def seed_all(seed: int) -> None:
    """Seed every generator that a task may draw its inputs from."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def byte_view(array: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a contiguous array, as a view."""
    return array.view(-1).view(torch.uint8)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare contiguous arrays byte by byte, so that NaN equals itself and -0 does not equal 0."""
    return bool(torch.equal(byte_view(one), byte_view(other)))


def poison(arrays: Tensors) -> None:
    """Fill outputs with what no kernel computes: NaN, or a number that is unlikely."""
    for array in arrays:
        if array.is_floating_point():
            array.fill_(float("nan"))
        else:
            byte_view(array).fill_(_POISON_BYTE)


def is_poisoned(arrays: Tensors) -> bool:
    """Return whether outputs are as ``poison`` left them, to the bit."""
    return all(same_bits(array, _poison_like(array)) for array in arrays)


def _poison_like(array: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(array)
    poison([made])
    return made
