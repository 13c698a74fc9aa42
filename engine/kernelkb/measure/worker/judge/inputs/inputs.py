"""Inputs of a case, drawn anew before each batch, and the reference's outputs for them."""

from __future__ import annotations

import random

import torch

from kernelkb.measure.worker.judge.inputs.chunks import split_flat
from kernelkb.measure.worker.judge.inputs.hidden_inputs import transform_inputs
from kernelkb.measure.worker.judge.inputs.memory_plan import EVERYTHING, ONE_SLOT_NOTE, MemoryPlan
from kernelkb.measure.worker.judge.inputs.random_pool import RandomPool
from kernelkb.measure.worker.judge.inputs.reference_code import (
    UNKNOWN_OPERATIONS,
    RecordedOutputs,
    ReferenceCode,
)
from kernelkb.measure.worker.judge.inputs.reference_operations import record_operations
from kernelkb.measure.worker.judge.inputs.torch_reference import TorchReference
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Distribution,
    InputSpec,
    OutputSpec,
    Reference,
    Scalar,
    Target,
)

Tensors = list[torch.Tensor]

_POISON_BYTE = 0x5B
"""Fills integer outputs before a call: an unlikely value in every integer type."""


class KernelCase:
    """One case of a kernel: shapes, how to make inputs, and the reference.

    Attributes:
        target: Where the arrays are: ``cpu`` or ``cuda``.
        scalars: Inputs that are numbers: position among the arguments, and value.
        input_specs: Inputs that are arrays, in the order of the arguments.
        distribution: What is done to drawn inputs; None: nothing.
        plan: How much memory judging it may take.
        works_by_rows: Whether no row of its outputs depends on other rows than its own of the
            inputs, so that the reference can be run on some; None: not tested yet.
        comparison_times: Seconds that each comparison of whole outputs of timed calls took.
        notes: What was given up to save memory or time, as sentences.
    """

    def __init__(
        self,
        target: Target,
        reference: Reference,
        case_spec: CaseSpec,
        plan: MemoryPlan = EVERYTHING,
    ) -> None:
        self.target = target
        self.case_spec = case_spec
        self._reference = _load_reference(reference, case_spec)
        self.scalars: list[tuple[int, Scalar]] = [
            (position, spec["value"])
            for position, spec in enumerate(case_spec["inputs"])
            if "value" in spec
        ]
        self.input_specs: list[InputSpec] = [
            spec for spec in case_spec["inputs"] if "value" not in spec
        ]
        self.output_specs: list[OutputSpec] = case_spec["outputs"]
        self._pools: list[RandomPool] = []
        self._is_repeatable = False
        self._operations: frozenset[str] | None = None
        self.distribution: Distribution | None = None
        self.plan = plan
        # Compiled code is given the sizes of all rows, and recorded outputs are of all rows.
        self.works_by_rows: bool | None = False if self._reference.is_opaque else None
        self.comparison_times: list[float] = []
        self.notes = [ONE_SLOT_NOTE] if plan.in_pieces else []

    def add_note(self, note: str) -> None:
        """Note something that is given up, once."""
        if note not in self.notes:
            self.notes.append(note)

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
            self._require_repeatable(inputs, seed)
            transform_inputs(self.distribution, inputs, seed)
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
            values = self._make_own_inputs(seed)
            for array in arrays:
                array.copy_(values.pop(0))
            self._require_repeatable(arrays, seed)
            transform_inputs(self.distribution, arrays, seed)
        else:
            self._fill_from_pools(seed, arrays)

    def _require_repeatable(self, inputs: Tensors, seed: int) -> None:
        """Draw the first inputs of the case again; raise RuntimeError if they differ."""
        if not self._is_repeatable:
            self._is_repeatable = all(map(same_bits, inputs, self._make_own_inputs(seed)))
        if not self._is_repeatable:
            raise RuntimeError(
                "its inputs differ between two draws from one seed: draw them from the global "
                "generators of torch, numpy or random, which are seeded before each draw"
            )

    def _fill_from_pools(self, seed: int, arrays: Tensors) -> None:
        if not self._pools:
            self._pools = [RandomPool(spec, self.device) for spec in self.input_specs]
        rng = random.Random(seed)
        for pool, array in zip(self._pools, arrays, strict=True):
            pool.fill(array, rng)
        transform_inputs(self.distribution, arrays, seed)

    @property
    def _has_own_inputs(self) -> bool:
        """Whether the reference makes the inputs, or they are recorded."""
        return self._reference.makes_inputs

    @property
    def is_recorded(self) -> bool:
        """Whether the reference is a recording, which answers for its own inputs only."""
        return self._reference.is_opaque and self._reference.makes_inputs

    def _make_own_inputs(self, seed: int) -> Tensors:
        return self._reference.make_inputs(seed, self.device, self.input_specs)

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

        Raises:
            RuntimeError: It does not compute in this dtype, or knows recorded inputs only.
        """
        return self._reference.run(inputs, self.scalars, dtype, preserve_inputs=preserve_inputs)

    def list_operations(self, inputs: Tensors) -> frozenset[str]:
        """Return the names of the ATen operations that the reference runs, as ``mm``; run it once.

        Empty where torch cannot record them.
        """
        if self._reference.is_opaque:
            return UNKNOWN_OPERATIONS
        if self._operations is None:
            try:
                self._operations = record_operations(lambda: self.run_reference(inputs, None))
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, TypeError, NotImplementedError):
                self._operations = frozenset()
        return self._operations


def _load_reference(
    reference: Reference, case_spec: CaseSpec
) -> TorchReference | RecordedOutputs | ReferenceCode:
    if reference["kind"] == "recorded":
        return RecordedOutputs(reference, case_spec)
    if reference["kind"] == "code":
        return ReferenceCode(reference, case_spec)
    return TorchReference(reference, case_spec)


def byte_view(array: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a contiguous array, as a view: (array.nbytes,) uint8."""
    return array.view(-1).view(torch.uint8)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Compare contiguous arrays byte by byte: NaN equals itself, −0 does not equal 0."""
    if left.nbytes != right.nbytes:
        return False
    pairs = zip(split_flat(byte_view(left)), split_flat(byte_view(right)), strict=True)
    return all(torch.equal(own, other) for own, other in pairs)


def poison(arrays: Tensors) -> None:
    """Fill outputs with NaN, integers with an unlikely byte: elements not written stay visible."""
    for array in arrays:
        if array.is_floating_point():
            array.fill_(float("nan"))
        else:
            byte_view(array).fill_(_POISON_BYTE)


def may_be_unwritten(arrays: Tensors) -> bool:
    """Return whether an element of outputs is as ``poison`` fills it, or a NaN of another kind."""
    chunks = (chunk for array in arrays for chunk in split_flat(array))
    return any(
        bool((chunk.isnan() if chunk.is_floating_point() else chunk == _poison_like(chunk)).any())
        for chunk in chunks
    )


def is_poisoned(arrays: Tensors) -> bool:
    """Return whether outputs are bit for bit as ``poison`` fills them."""
    chunks = (chunk for array in arrays for chunk in split_flat(array))
    return all(same_bits(chunk, _poison_like(chunk)) for chunk in chunks)


def _poison_like(array: torch.Tensor) -> torch.Tensor:
    poisoned = torch.empty_like(array)
    poison([poisoned])
    return poisoned
