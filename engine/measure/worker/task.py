"""What is to be computed, on the judge's side: inputs, how they change, and the right outputs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from engine.measure.worker.callables import module_of, python_module

Job = dict[str, Any]
Tensors = list[torch.Tensor]

_LINE_BYTES = 64
_MOST_CHANGES = 24  # each is made again for a comparison
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

    @property
    def device(self) -> torch.device:
        """Where the arrays live."""
        return torch.device("cuda" if self.target == "cuda" else "cpu")

    @property
    def drawn(self) -> bool:
        """Whether each value of the inputs is drawn by itself, so that none has its place."""
        return self._reference["kind"] != "module" and not self._reference.get("inputs")

    def fresh(self, seed: int) -> Tensors:
        """Return inputs made from a seed; the same seed gives the same on this machine."""
        if self._reference["kind"] == "module":
            torch.manual_seed(seed)
            with self.device:  # a task that does not care draws its inputs where they are needed
                made = python_module(self._reference["file"]).get_inputs()
            return [value.to(self.device) for value in made if isinstance(value, torch.Tensor)]
        if self._reference.get("inputs"):
            make = getattr(python_module(self._reference["file"]), self._reference["inputs"])
            torch.manual_seed(seed)
            sizes = dict(zip(self.case["axis_names"], self.case["axes"], strict=True))
            return [value.to(self.device) for value in make(**sizes)]
        generator = torch.Generator(device=self.device).manual_seed(seed)
        return [_filled(spec, generator, self.device) for spec in self.inputs]

    def right(self, inputs: Tensors, dtype: torch.dtype | None) -> Tensors:
        """Return the reference's outputs, computed in ``dtype``, or as it stands when None."""
        given = [_as(tensor, dtype) for tensor in inputs]
        values: list[Any] = list(given)
        for at, value in self.scalars:
            values.insert(at, value)
        result = self._function(dtype)(*values)
        made = [result] if isinstance(result, torch.Tensor) else list(result)
        # A reference that answers with its input, or a view of it, must not change with it.
        return [one.clone() if _shares(one, given) else one for one in made]

    def _function(self, dtype: torch.dtype | None) -> Any:
        reference = self._reference
        if reference["kind"] != "module":
            return getattr(python_module(reference["file"]), reference["entry"])
        if dtype not in self._modules:
            file, entry = reference["file"], reference["entry"]
            module = module_of(file, entry, file, reference["seed"]).to(self.device)
            self._modules[dtype] = module if dtype is None else module.to(dtype)
        return self._modules[dtype]


def _filled(spec: Job, generator: torch.Generator, device: torch.device) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, spec["dtype"])
    shape, fill, scale = tuple(spec["shape"]), spec["fill"], spec["scale"]
    if fill == "integers":
        return torch.randint(
            0, int(scale), shape, generator=generator, device=device, dtype=torch.int64
        ).to(dtype)
    if fill in ("ones", "zeros"):
        return torch.full(shape, float(fill == "ones"), device=device, dtype=dtype)
    draw = torch.randn if fill == "normal" else torch.rand
    values = draw(shape, generator=generator, device=device, dtype=torch.float32)
    return (values * scale).to(dtype)


def _as(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def _shares(one: torch.Tensor, given: Sequence[torch.Tensor]) -> bool:
    storage = one.untyped_storage().data_ptr()
    return any(tensor.untyped_storage().data_ptr() == storage for tensor in given)


class Contents:
    """What the inputs of each slot hold, and how to make them again elsewhere.

    Drawing all values anew for each timed window would take longer than the window on a CPU. So
    one value of each cache line moves to another place instead: no content ever comes twice, no
    line stays as another core has it, and whoever keeps an earlier answer is wrong in all parts of
    the output. Integers that a task makes itself may be indices, and stay; where there is nothing
    else, all values are drawn anew.
    """

    def __init__(self, task: Task, draw: random.Random) -> None:
        self._task = task
        self._draw = draw
        self._history: dict[int, list[int]] = {}
        self._kept: tuple[int, list[int], Tensors] | None = None
        self._moves = [task.drawn or _is_float(spec) for spec in task.inputs]

    def begin(self, slot: int, arrays: Tensors) -> None:
        """Fill a slot's inputs with values that no slot has had."""
        self._history[slot] = [self._draw.getrandbits(31)]
        for array, value in zip(arrays, self._task.fresh(self._history[slot][0]), strict=True):
            array.copy_(value)

    def change(self, slot: int, arrays: Tensors) -> None:
        """Change a slot's inputs in place."""
        if not any(self._moves) or len(self._history[slot]) > _MOST_CHANGES:
            self.begin(slot, arrays)
            return
        seed = self._draw.getrandbits(31)
        self._history[slot].append(seed)
        self._mix(arrays, seed)

    def again(self, slot: int) -> Tensors:
        """Return what a slot's inputs have to hold now, made apart from them."""
        history = self._history[slot]
        if self._kept is not None and self._kept[:2] == (slot, history):
            return self._kept[2]
        self._kept = None  # before the new ones are made: there may be no room for both
        first, *later = history
        arrays = [array.contiguous() for array in self._task.fresh(first)]
        for seed in later:
            self._mix(arrays, seed)
        self._kept = (slot, list(history), arrays)
        return arrays

    def _mix(self, arrays: Tensors, seed: int) -> None:
        for array, moves in zip(arrays, self._moves, strict=True):
            if moves:
                _mix(array, seed)


def _is_float(spec: Job) -> bool:
    dtype: torch.dtype = getattr(torch, spec["dtype"])
    return bool(dtype.is_floating_point)


def _mix(array: torch.Tensor, seed: int) -> None:
    """Move values of an array to other places of it."""
    flat = array.view(-1)
    draw = random.Random(seed)
    stride = max(1, _LINE_BYTES // array.element_size())
    stride = stride if flat.numel() >= 4 * stride else 1
    part = flat[draw.randrange(stride) :: stride]
    if part.numel() > 1:
        part.copy_(part.roll(draw.randrange(1, part.numel())))


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
    """Return whether outputs are as ``poison`` left them."""
    return all(
        bool(a.isnan().all() if a.is_floating_point() else (bits(a) == _POISON).all())
        for a in arrays
    )
