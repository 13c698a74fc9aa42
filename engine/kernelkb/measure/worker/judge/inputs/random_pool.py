"""Fills input arrays of one distribution, quickly enough to do so before each timed batch."""

from __future__ import annotations

import math
import random
import secrets
from typing import Any

import torch

from kernelkb.measure.worker.judge.inputs.chunks import CHUNK_ELEMENTS, split_flat
from kernelkb.measure.worker.shared.messages.specs import InputSpec

_MIN_EXTRA_VALUES = 4096
"""A random pool has at least as many values more than an array, so that small arrays vary too."""
_FLOAT_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""Types that ``torch.add`` can write to directly."""
_POOL_SEED_BITS = 48
_MAX_RESCALING = 2**-6
"""By how much an array's scale may differ from the one that is asked for."""


class RandomPool:
    """Fills arrays of one distribution from values drawn once.

    Drawing all values anew takes longer than most kernels on a CPU. Each array is made of two
    disjoint stretches of a pool, at offsets drawn each time: normal values have the size of one and
    the sign of the other, and are scaled by a factor that is drawn, too; others are summed and
    wrapped around. Neither is linear in the pool, and no value comes again, so that what a function
    gives for the values of the pool cannot be kept.
    """

    def __init__(self, spec: InputSpec, device: torch.device) -> None:
        self._dtype: torch.dtype = getattr(torch, spec["dtype"])
        self._distribution, self._scale = spec["fill"], spec["scale"]
        # A large array is filled chunk by chunk: a pool of its size would take three times as much.
        self._count = min(math.prod(spec["shape"]), CHUNK_ELEMENTS)
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
            self._values = torch.randn(pool_size, **options).mul_(self._scale)

    def fill(self, out: torch.Tensor, rng: random.Random) -> None:
        """Fill a contiguous array of the spec's shape; a state of ``rng`` determines the values."""
        if self._distribution in ("ones", "zeros"):
            out.fill_(self._distribution == "ones")
            return
        for chunk in split_flat(out):
            self._fill_chunk(chunk, rng)

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
        (torch.copysign if self._distribution == "normal" else torch.add)(first, second, out=sums)
        if self._distribution == "normal":
            sums.mul_(1 + rng.uniform(-_MAX_RESCALING, _MAX_RESCALING))
        elif self._distribution == "uniform":
            sums.frac_().mul_(self._scale)
        elif self._distribution == "integers":
            sums.remainder_(int(self._scale))
        if sums is not flat:
            flat.copy_(sums)


def _choose_integer_dtype(dtype: torch.dtype, largest: int) -> torch.dtype:
    """Return an integer type that can hold ``largest``: the array's own if possible, else int64."""
    is_integer = not dtype.is_floating_point and dtype != torch.bool
    return dtype if is_integer and torch.iinfo(dtype).max >= largest else torch.int64
