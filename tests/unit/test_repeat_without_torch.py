"""What a kernel reads while it is profiled without torch."""

import struct
from collections import Counter

from kernelkb.measure.worker.jobs.repeat_without_torch import generate_values

MIB = 2**20


def unpack_values(code, size, **spec):
    found = b"".join(generate_values({"name": "x", "shape": [], **spec}, size))
    return struct.unpack(f"<{len(found) // struct.calcsize(code)}{code}", found)


def test_indices_fill_the_whole_array_evenly():
    found = unpack_values("i", 40 * MIB, fill="integers", scale=64.0, dtype="int32")
    counts = Counter(found)

    assert len(found) == 10 * MIB
    assert set(counts) == set(range(64))
    assert max(counts.values()) < 1.02 * min(counts.values())


def test_no_part_of_the_indices_repeats():
    found = unpack_values("q", 40 * MIB, fill="integers", scale=float(2**25), dtype="int64")

    assert len(set(found)) > 0.9 * len(found)
    assert max(found) < 2**25


def test_float_inputs_are_one_repeated_tile():
    found = unpack_values("f", 40 * MIB, fill="normal", scale=2.0, dtype="float32")

    assert len(found) < MIB
    assert 3.8 < sum(v * v for v in found) / len(found) < 4.2
