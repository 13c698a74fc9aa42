"""What is to be computed, on the judge's side: inputs, how they change, and the right outputs."""

from __future__ import annotations

import math
import random
import secrets
import sys
from collections.abc import Sequence
from typing import Any

import torch

from kernelkb.measure.worker.runner.load_candidate import module_of, python_module

Job = dict[str, Any]
Tensors = list[torch.Tensor]

_FEW = 4096
_WORDS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_POISON = 0x5B


class Task:
    """One case of a kernel: shapes, a way to make inputs, and the reference."""

    def __init__(self, job: Job, case: Job) -> None:
        self.target: str = job["target"]
        self.case = case
        self._reference: Job = job["reference"]
        self.scalars: list[tuple[int, Any]] = [
            (at, spec["value"]) for at, spec in enumerate(case["inputs"]) if "value" in spec
        ]
        self.inputs: list[Job] = [spec for spec in case["inputs"] if "value" not in spec]
        self.outputs: list[Job] = case["outputs"]
        self._modules: dict[torch.dtype | None, Any] = {}
        self._banks: list[Bank] = []
        self._repeats = False

    @property
    def device(self) -> torch.device:
        """Where the arrays live."""
        return torch.device("cuda" if self.target == "cuda" else "cpu")

    def fresh(self, seed: int) -> Tensors:
        """Return inputs made from a seed; the same seed gives the same on this machine.

        Raises:
            RuntimeError: The task's own inputs are others each time.
        """
        if self._own_inputs:
            made = self._by_task(seed)
            if not self._repeats:
                self._repeats = all(map(same_bits, made, self._by_task(seed)))
            if not self._repeats:
                raise RuntimeError(
                    "its inputs are others each time: draw them from the generators of torch, "
                    "numpy or random that everybody shares, which are seeded before each draw"
                )
            return made
        made = [
            torch.empty(
                tuple(spec["shape"]), dtype=getattr(torch, spec["dtype"]), device=self.device
            )
            for spec in self.inputs
        ]
        self._draw(seed, made)
        return made

    def fill(self, seed: int, arrays: Tensors) -> None:
        """Fill arrays with what ``fresh`` returns; see there."""
        if self._own_inputs:
            for array, value in zip(arrays, self.fresh(seed), strict=True):
                array.copy_(value)
        else:
            self._draw(seed, arrays)

    def _draw(self, seed: int, arrays: Tensors) -> None:
        if not self._banks:
            self._banks = [Bank(spec, self.device) for spec in self.inputs]
        draw = random.Random(seed)
        for bank, array in zip(self._banks, arrays, strict=True):
            bank.fill(array, draw)

    @property
    def _own_inputs(self) -> bool:
        return self._reference["kind"] == "module" or bool(self._reference.get("inputs"))

    def _by_task(self, seed: int) -> Tensors:
        module = python_module(self._reference["file"])
        seed_all(seed)
        if self._reference["kind"] == "module":
            with self.device:  # a task that does not care draws its inputs where they are needed
                made = module.get_inputs()
        else:
            sizes = dict(zip(self.case["axis_names"], self.case["axes"], strict=True))
            made = getattr(module, self._reference["inputs"])(**sizes)
        tensors = [value for value in made if isinstance(value, torch.Tensor)]
        return [value.to(self.device).contiguous() for value in tensors]

    def right(self, inputs: Tensors, dtype: torch.dtype | None, *, needed: bool = True) -> Tensors:
        """Return the reference's outputs, computed in ``dtype``, or as it stands when None.

        ``needed`` says whether somebody reads the inputs afterwards: a task's model may change
        its own in place.
        """
        mine = needed and self._reference["kind"] == "module"
        given = [_as(tensor.clone() if mine else tensor, dtype) for tensor in inputs]
        values: list[Any] = list(given)
        for at, value in self.scalars:
            values.insert(at, value)
        result = self._function(dtype)(*values)
        made = [result] if isinstance(result, torch.Tensor) else list(result)
        return [one.clone() if _holds_more(one) or _shares(one, given) else one for one in made]

    def _function(self, dtype: torch.dtype | None) -> Any:
        reference = self._reference
        if reference["kind"] != "module":
            return getattr(python_module(reference["file"]), reference["entry"])
        if dtype not in self._modules:
            file, entry = reference["file"], reference["entry"]
            module = module_of(file, entry, file, reference["seed"]).to(self.device)
            self._modules[dtype] = module if dtype is None else module.to(dtype)
        return self._modules[dtype]


class Bank:
    """Makes arrays of one fill out of values that were drawn once.

    Drawing all values anew takes longer than most kernels, on a CPU. The sum of two stretches of a
    long row, each of them somewhere else every time, has the same distribution in less.
    """

    def __init__(self, spec: Job, device: torch.device) -> None:
        self._dtype: torch.dtype = getattr(torch, spec["dtype"])
        self._fill, self._scale = spec["fill"], spec["scale"]
        self._count = math.prod(spec["shape"])
        generator = torch.Generator(device=device).manual_seed(secrets.randbits(48))
        # Twice as much as is used at a time, and one stretch more so that the two never overlap.
        count = self._count + max(2 * self._count, _FEW)
        how: Job = {"generator": generator, "device": device}
        if self._fill == "integers":
            below, whole = int(self._scale), _room(self._dtype, 2 * int(self._scale))
            self._row = torch.randint(0, below, (count,), dtype=whole, **how)
        elif self._fill == "uniform":
            self._row = torch.rand(count, **how)
        elif self._fill == "normal":
            self._row = torch.randn(count, **how).mul_(self._scale / math.sqrt(2))

    def fill(self, out: torch.Tensor, draw: random.Random) -> None:
        """Fill a contiguous array; the same state of ``draw`` gives the same."""
        if self._fill in ("ones", "zeros"):
            out.fill_(self._fill == "ones")
            return
        count, last = self._count, len(self._row) - self._count
        one = draw.randint(0, last - count)
        other = draw.randint(one + count, last)
        flat = out.view(-1)
        whole = self._fill == "normal" and self._dtype in _WORDS
        sums = flat if whole or self._row.dtype == self._dtype else self._row.new_empty(count)
        torch.add(self._row[one : one + count], self._row[other : other + count], out=sums)
        if self._fill == "uniform":
            sums.frac_().mul_(self._scale)
        elif self._fill == "integers":
            sums.remainder_(int(self._scale))
        if sums is not flat:
            flat.copy_(sums)


def _room(dtype: torch.dtype, most: int) -> torch.dtype:
    """Return an integer type that holds ``most``, the array's own where that does."""
    is_whole = not dtype.is_floating_point and dtype != torch.bool
    return dtype if is_whole and torch.iinfo(dtype).max >= most else torch.int64


def _as(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def _holds_more(one: torch.Tensor) -> bool:
    """Say whether memory is kept that it does not show: torch's own losses do, for one number."""
    return bool(one.untyped_storage().nbytes() > one.nbytes)


def _shares(one: torch.Tensor, given: Sequence[torch.Tensor]) -> bool:
    """Say whether it is an input, or a view of one, and would change with it."""
    storage = one.untyped_storage().data_ptr()
    return any(tensor.untyped_storage().data_ptr() == storage for tensor in given)


class Contents:
    """What the inputs of each slot hold, and how to make them again elsewhere.

    No content ever comes twice, and none can be made out of earlier ones, so nobody gains by
    keeping what was computed before: not all of it, and not the part that did not change.
    """

    def __init__(self, task: Task, draw: random.Random) -> None:
        self._task = task
        self._draw = draw
        self._seeds: dict[int, int] = {}
        self._kept: tuple[int, Tensors] | None = None

    def change(self, slot: int, arrays: Tensors) -> None:
        """Fill a slot's inputs with values that no slot has had."""
        self._seeds[slot] = self._draw.getrandbits(31)
        self._task.fill(self._seeds[slot], arrays)

    def again(self, slot: int) -> Tensors:
        """Return what a slot's inputs have to hold now, made apart from them."""
        seed = self._seeds[slot]
        if self._kept is None or self._kept[0] != seed:
            self._kept = None  # before the new ones are made: there may be no room for both
            self._kept = (seed, [array.contiguous() for array in self._task.fresh(seed)])
        return self._kept[1]


def seed_all(seed: int) -> None:
    """Seed every generator that a task may draw its inputs from."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def bits(array: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a contiguous array, as a view."""
    return array.view(-1).view(torch.uint8)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare contiguous arrays byte by byte, so that NaN equals itself and -0 does not equal 0."""
    return bool(torch.equal(bits(one), bits(other)))


def poison(arrays: Tensors) -> None:
    """Fill outputs with what no kernel computes: NaN, or a number that is unlikely."""
    for array in arrays:
        if array.is_floating_point():
            array.fill_(float("nan"))
        else:
            bits(array).fill_(_POISON)


def poisoned(arrays: Tensors) -> bool:
    """Return whether outputs are as ``poison`` left them, to the bit."""
    return all(same_bits(array, _poison_like(array)) for array in arrays)


def _poison_like(array: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(array)
    poison([made])
    return made
