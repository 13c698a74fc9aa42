"""Guard regions between shared arrays: what is written there is seen."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from kernelkb.measure.worker.shared.memory import Arena, Layout  # noqa: E402

SPECS = [
    {"name": "x", "shape": [33], "dtype": "float32"},
    {"name": "y", "shape": [33], "dtype": "float32"},
]


@pytest.fixture
def shared():
    layout = Layout(SPECS, 3, random.Random(1))
    arena = Arena(layout.size, "cpu")
    layout.write_canaries(arena)
    yield layout, arena
    arena.close()


def test_what_is_written_into_arrays_only_leaves_the_guards_whole(shared):
    layout, arena = shared
    for slot in range(3):
        for array in layout.arrays(arena, slot):
            array.fill_(1.0)
    assert not any(layout.is_guard_damaged(arena, slot) for slot in range(3))


@pytest.mark.parametrize("slot", [0, 1, 2])
@pytest.mark.parametrize("offset", [-4, 33 * 4])
def test_a_copy_that_runs_over_both_ends_leaves_the_wrong_byte(shared, slot, offset):
    """Copied from behind one array to behind the other, as ``y[i] = x[i]`` beyond the end does."""
    layout, arena = shared
    source, target = (start + offset for start in layout.offsets[slot])
    arena.bytes[target : target + 4] = arena.bytes[source : source + 4].clone()
    assert layout.is_guard_damaged(arena, slot)
