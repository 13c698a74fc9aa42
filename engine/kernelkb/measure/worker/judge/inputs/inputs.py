"""Draws inputs, runs the reference on them, and draws them again from their seed."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, NamedTuple

import torch

from kernelkb.measure.worker.judge.inputs.hidden_inputs import transform_inputs
from kernelkb.measure.worker.judge.inputs.memory_plan import (
    CHUNK_ELEMENTS,
    EVERYTHING,
    ONE_SLOT_NOTE,
    MemoryPlan,
    split_flat,
)
from kernelkb.measure.worker.judge.inputs.references import (
    UNKNOWN_OPERATIONS,
    RecordedOutputs,
    ReferenceCode,
    TorchReference,
    convolves,
    multiplies_matrices,
    record_operations,
)
from kernelkb.measure.worker.shared.fp32_precision import convolutions_allow_tf32
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Distribution,
    InputSpec,
    OutputSpec,
    Reference,
    Scalar,
    Target,
)

_MAX_RANK = 2**30
"""Below it are the integers whose order makes a permutation."""
_MIN_EXTRA_VALUES = 4096
"""A random pool has at least as many values more than an array, so that small arrays vary too."""
_FLOAT_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""Types that ``torch.add`` can write to directly."""
_POOL_SEED_BITS = 48
_MIN_ANGLE = math.pi / 8
"""In radians: less would leave an array close to one stretch of its pool."""
_MAX_RESCALING = 2**-6
"""By how much an array's scale may differ from the one that is asked for."""
Tensors = list[torch.Tensor]
_POISON_BYTE = 0x5B
"""Fills integer outputs before a call: an unlikely value in every integer type."""
_SEED_BITS = 31


class RandomPool:
    """Fills arrays of one distribution from values drawn once.

    Drawing all values anew takes longer than most kernels on a CPU. Each array is made of disjoint
    stretches of a pool, at offsets drawn each time. Two are added and wrapped around or, of normal
    values, turned by an angle that is drawn, too, which leaves them normal; these get the signs of
    a third stretch. So no size comes again, and neither sums nor sums of squares of an array follow
    from those of the pool: what a function gives for the values of the pool cannot be kept.
    """

    def __init__(self, spec: InputSpec, device: torch.device) -> None:
        self._dtype: torch.dtype = getattr(torch, spec["dtype"])
        self._distribution, self._scale = spec["fill"], spec["scale"]
        self._low = spec.get("low", 0)
        bounds = {
            "integers": int(self._scale) - self._low,
            "offsets": int(self._scale) + 1,
            "permutation": _MAX_RANK,
        }
        self._bound = bounds.get(self._distribution, 0)
        # A large array is filled chunk by chunk: a pool of its size would take three times as much.
        self._count = min(math.prod(spec["shape"]), CHUNK_ELEMENTS)
        generator = torch.Generator(device=device)
        generator.manual_seed(secrets.randbits(_POOL_SEED_BITS))
        # Two stretches are used at a time; the rest is room to choose their offsets.
        pool_size = self._count + max(2 * self._count, _MIN_EXTRA_VALUES)
        options: dict[str, Any] = {"generator": generator, "device": device}
        if self._bound:
            dtype = _choose_integer_dtype(self._dtype, 2 * self._bound)
            self._values = torch.randint(0, self._bound, (pool_size,), dtype=dtype, **options)
        elif self._distribution == "uniform":
            self._values = torch.rand(pool_size, **options)
        elif self._distribution == "normal":
            self._values = torch.randn(pool_size, **options).mul_(self._scale)

    def fill(self, out: torch.Tensor, rng: random.Random) -> None:
        """Fill a contiguous array of the spec's shape; a state of ``rng`` determines the values."""
        if self._distribution in ("ones", "zeros"):
            out.fill_(self._distribution == "ones")
            return
        for chunk in split_flat(out):
            self._fill_chunk(chunk, rng)
        if self._distribution == "offsets":
            offsets = out.view(-1).sort().values
            offsets[:1] = 0
            offsets[-1:] = int(self._scale)
            out.copy_(offsets.view_as(out))
        elif self._distribution == "permutation":
            out.copy_(out.view(-1).argsort().view_as(out))

    def _fill_chunk(self, flat: torch.Tensor, rng: random.Random) -> None:
        count = flat.numel()
        last = len(self._values) - count
        first_offset = rng.randint(0, last - count)
        second_offset = rng.randint(first_offset + count, last)
        is_direct = self._values.dtype == self._dtype or (
            self._distribution == "normal" and self._dtype in _FLOAT_DTYPES
        )
        sums = flat if is_direct else self._values.new_empty(count)
        first = self._values[first_offset : first_offset + count]
        second = self._values[second_offset : second_offset + count]
        if self._distribution == "normal":
            angle = rng.uniform(_MIN_ANGLE, math.pi / 2 - _MIN_ANGLE)
            sign_offset = rng.randint(0, last)
            scale = math.cos(angle) * (1 + rng.uniform(-_MAX_RESCALING, _MAX_RESCALING))
            torch.add(first, second, alpha=math.tan(angle), out=sums)
            sums.mul_(scale).copysign_(self._values[sign_offset : sign_offset + count])
        else:
            torch.add(first, second, out=sums)
        if self._distribution == "uniform":
            sums.frac_().mul_(self._scale)
        elif self._bound:
            sums.remainder_(self._bound).add_(self._low)
        if sums is not flat:
            flat.copy_(sums)


def _choose_integer_dtype(dtype: torch.dtype, largest: int) -> torch.dtype:
    """Return an integer type that can hold ``largest``: the array's own if possible, else int64."""
    is_integer = not dtype.is_floating_point and dtype != torch.bool
    return dtype if is_integer and torch.iinfo(dtype).max >= largest else torch.int64


InputKind = Literal["drawn", "hidden"]
_SLOW_COMPARISON_S = 0.5
"""At least 15 timed calls are compared: more would take as long as all the rest of a bench."""
_WHOLE_COMPARISONS: Final[Mapping[InputKind, int]] = {"drawn": 2, "hidden": 1}
"""Before a sample suffices: the first may take longer, as may one beside other load."""


class KernelCase:
    """One case of a kernel: shapes, how to make inputs, and the reference.

    Attributes:
        target: Where the arrays are: ``cpu`` or ``cuda``.
        scalars: Inputs that are numbers: position among the arguments, and value.
        input_specs: Inputs that are arrays, in the order of the arguments.
        plan: How much memory judging it may take.
        works_by_rows: Whether no row of its outputs depends on other rows than its own of the
            inputs, so that the reference can be run on some; None: not tested yet.
        comparison_times: Seconds that each comparison of whole outputs took, on inputs as drawn and
            on hidden ones.
        notes: What was given up to save memory or time, as sentences.
        judging: Entered while the reference runs, and wherever outputs are compared with it.
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
        self.plan = plan
        # Compiled code is given the sizes of all rows, and recorded outputs are of all rows.
        self.works_by_rows: bool | None = False if self._reference.is_opaque else None
        self.comparison_times: dict[InputKind, list[float]] = {"drawn": [], "hidden": []}
        self.judging: Callable[[], AbstractContextManager[None]] = nullcontext
        self.notes = [ONE_SLOT_NOTE] if plan.in_pieces else []

    def add_note(self, note: str) -> None:
        """Note something that is given up, once."""
        if note not in self.notes:
            self.notes.append(note)

    def may_sample(self, kind: InputKind) -> bool:
        """Return whether comparing was slow, so that a quarter of the rows suffices from now on.

        Not where unwritten elements cannot be told, nor where memory is too short for a sample.
        """
        times = self.comparison_times[kind]
        if len(times) < _WHOLE_COMPARISONS[kind] or min(times) < _SLOW_COMPARISON_S:
            return False
        has_poison = not any(spec["starts_as"] for spec in self.output_specs)
        return has_poison and self.plan.has_distributions

    @property
    def device(self) -> torch.device:
        """The device that holds the arrays."""
        return torch.device("cuda" if self.target == "cuda" else "cpu")

    def make_inputs(self, seed: int, distribution: Distribution | None = None) -> Tensors:
        """Return inputs drawn from a seed: one tensor for each of ``input_specs``.

        The same seed gives the same bits on this machine.

        Args:
            seed: Of all that is drawn.
            distribution: What is done to the drawn inputs; None: nothing.

        Raises:
            RuntimeError: The task's own inputs do not follow from the seed.
        """
        if self._has_own_inputs:
            inputs = self._make_own_inputs(seed)
            self._require_repeatable(inputs, seed)
            transform_inputs(distribution, inputs, seed)
            return inputs
        inputs = [
            torch.empty(
                tuple(spec["shape"]), dtype=getattr(torch, spec["dtype"]), device=self.device
            )
            for spec in self.input_specs
        ]
        self._fill_from_pools(seed, inputs)
        transform_inputs(distribution, inputs, seed)
        return inputs

    def fill_inputs(self, seed: int, arrays: Tensors) -> None:
        """Write the values of ``make_inputs`` of no distribution to arrays. Raises like it."""
        if self._has_own_inputs:
            values = self._make_own_inputs(seed)
            for array in arrays:
                array.copy_(values.pop(0))
            self._require_repeatable(arrays, seed)
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
        with self.judging():
            return self._reference.run(inputs, self.scalars, dtype, preserve_inputs=preserve_inputs)

    def returns_views(self, inputs: Tensors) -> bool:
        """Return whether the reference returns memory of an input; run it if it has not run."""
        if not isinstance(self._reference, TorchReference):
            return False
        if self._reference.returns_views is None:
            self.run_reference(inputs, None)
        return bool(self._reference.returns_views)

    def admits_tf32(self, operations: frozenset[str]) -> bool:
        """Return whether fp32 products may be computed in TF32, whether the reference's are or not.

        Of a convolution cuDNN decides by its size and layout: of the same one over 8 images it took
        TF32 (an error of 3e-4), over one image fp32 (2e-7), and TF32 again where channels are last
        (H200, torch 2.11).

        Args:
            operations: Of ``list_operations``.
        """
        stated = self.case_spec.get("precision")
        if stated == "open":
            return multiplies_matrices(operations)
        is_cudnn = self.target == "cuda" and convolves(operations)
        return stated is None and is_cudnn and convolutions_allow_tf32()

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


def find_poison(array: torch.Tensor) -> torch.Tensor:
    """Return where a contiguous array holds the bits that ``poison`` fills in; of its shape."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[array.element_size()]
    own, poisoned = array.view(bits), _poison_like(array.view(-1)[:1]).view(bits)
    return own == poisoned


def _poison_like(array: torch.Tensor) -> torch.Tensor:
    poisoned = torch.empty_like(array)
    poison([poisoned])
    return poisoned


class _Drawn(NamedTuple):
    """What determines the values of inputs."""

    seed: int
    distribution: Distribution | None


class PreparedInputs(NamedTuple):
    """Inputs of a hidden distribution, in memory that no runner can reach."""

    seed: int
    distribution: Distribution
    arrays: Tensors


class InputGenerator:
    """Draws each slot's inputs, and draws them again for the reference.

    No contents repeat and none follow from earlier ones, so a candidate gains nothing by keeping
    results of earlier calls.
    """

    def __init__(self, case: KernelCase, rng: random.Random) -> None:
        self._case = case
        self._rng = rng
        self._drawn: dict[int, _Drawn] = {}
        self._cache: tuple[_Drawn, Tensors] | None = None

    def refill(self, slot: int, arrays: Tensors) -> None:
        """Fill a slot's input arrays from a new seed."""
        if self._case.plan.in_pieces:
            self.forget()
        drawn = self._drawn[slot] = _Drawn(self._rng.getrandbits(_SEED_BITS), None)
        self._case.fill_inputs(drawn.seed, arrays)

    def prepare(self, distribution: Distribution) -> PreparedInputs:
        """Return inputs of a hidden distribution, for a later call of ``replace``."""
        drawn = _Drawn(self._rng.getrandbits(_SEED_BITS), distribution)
        return PreparedInputs(drawn.seed, distribution, self._make(drawn))

    def replace(self, slot: int, arrays: Tensors, prepared: PreparedInputs) -> None:
        """Overwrite a slot's input arrays by inputs that were prepared."""
        drawn = self._drawn[slot] = _Drawn(prepared.seed, prepared.distribution)
        self._cache = drawn, prepared.arrays
        for array, values in zip(arrays, prepared.arrays, strict=True):
            array.copy_(values)

    def regenerate(self, slot: int) -> Tensors:
        """Return a slot's current inputs, drawn again: copies that no runner can reach."""
        drawn = self._drawn[slot]
        if self._cache is None or self._cache[0] != drawn:
            self._cache = None  # frees the old ones first: memory may not hold both
            self._cache = (drawn, self._make(drawn))
        return self._cache[1]

    def _make(self, drawn: _Drawn) -> Tensors:
        return [array.contiguous() for array in self._case.make_inputs(*drawn)]

    def forget(self) -> None:
        """Free the inputs that were drawn again."""
        self._cache = None
