"""Draws the inputs of a case's slots, and draws them again for the reference."""

from __future__ import annotations

import random

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors

_SEED_BITS = 31


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
        if self._case.plan.in_pieces:
            self.forget()
        self._seeds[slot] = self._rng.getrandbits(_SEED_BITS)
        self._case.fill_inputs(self._seeds[slot], arrays)

    def regenerate(self, slot: int) -> Tensors:
        """Return a slot's current inputs, drawn again: copies that no runner can reach."""
        seed = self._seeds[slot]
        if self._cache is None or self._cache[0] != seed:
            self._cache = None  # frees the old ones first: memory may not hold both
            self._cache = (seed, [array.contiguous() for array in self._case.make_inputs(seed)])
        return self._cache[1]

    def forget(self) -> None:
        """Free the inputs that were drawn again."""
        self._cache = None
