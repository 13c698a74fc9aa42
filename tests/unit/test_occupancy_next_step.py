"""What one more block takes, and how far the registers go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launches import A100, ARCHITECTURES, H100, L4, LIMITS, launches

from kernelkb.device_math.occupancy import (
    Launch,
    better_block_size,
    occupancy,
    one_more_block,
    register_cap,
    register_steps,
    registers_for_blocks,
    spare_registers,
    spare_shared_bytes,
)

STEPS_64 = {
    128: "32:16 40:12 48:10 56:9 64:8 72:7 80:6 96:5 128:4 168:3 255:2",
    256: "32:8 40:6 48:5 64:4 80:3 128:2 255:1",
    384: "32:5 40:4 56:3 80:2 168:1",
    512: "32:4 40:3 64:2 128:1",
    1024: "32:2 64:1",
}
STEPS_48 = {
    128: "40:12 48:10 56:9 64:8 72:7 80:6 96:5 128:4 168:3 255:2",
    256: "40:6 48:5 64:4 80:3 128:2 255:1",
    384: "40:4 56:3 80:2 168:1",
    512: "40:3 64:2 128:1",
    1024: "64:1",
}
HAND_COMPUTED_BLOCKS = [
    *((["8.0", "9.0", "10.0", "10.3"], threads, text) for threads, text in STEPS_64.items()),
    *((["8.6", "8.7", "8.9", "11.0", "12.0", "12.1"], t, text) for t, text in STEPS_48.items()),
    (["7.5"], 256, "64:4 80:3 128:2 255:1"),
]


@pytest.mark.parametrize(("architectures", "threads", "text"), HAND_COMPUTED_BLOCKS)
def test_register_steps_match_hand_computed_values(architectures, threads, text):
    for cc in architectures:
        steps = register_steps(LIMITS[cc], Launch(threads, 32))

        assert " ".join(f"{step.registers}:{step.blocks}" for step in steps) == text


@pytest.mark.parametrize(
    ("threads", "cap"),
    [
        *((64, 255), (256, 255), (288, 168), (384, 168), (416, 128), (512, 128)),
        *((544, 96), (640, 96), (768, 80), (800, 72), (896, 72), (1024, 64)),
    ],
)
def test_register_caps_match_ptxas(threads, cap):
    """Compiled with nvcc 13.0 for sm_90a from kernels that would have used more."""
    assert register_cap(H100, threads) == cap


def test_no_register_count_fits_a_thousand_blocks():
    assert registers_for_blocks(H100, 256, 1000) is None


def test_blocks_wanted_matches_hand_computed_values():
    assert registers_for_blocks(A100, 256, 4) == 64


def test_a_register_bound_launch_names_the_step_below():
    step = one_more_block(H100, Launch(256, 96))

    assert [(c.field, c.now, c.to) for c in step.changes] == [("registers", 96, 80)]
    assert step.occupancy.blocks == 3


def test_a_full_sm_has_no_next_step():
    assert one_more_block(H100, Launch(256, 32)) is None
    assert better_block_size(H100, Launch(256, 32)) is None


def test_a_block_size_that_wastes_warps_is_replaced():
    step = better_block_size(H100, Launch(1024, 40))

    assert occupancy(H100, Launch(1024, 40)).warps == 32
    assert step.launch.threads == 768
    assert step.occupancy.warps == 48


def test_small_blocks_are_enlarged_because_their_number_is_limited():
    step = better_block_size(L4, Launch(32, 32))

    assert (step.launch.threads, step.occupancy.share) == (64, 1.0)


def test_a_small_carveout_is_enlarged_before_bytes_are_cut():
    step = one_more_block(H100, Launch(256, 32, 0, 20000, carveout_bytes=32 * 1024))

    assert [(c.field, c.to) for c in step.changes] == [("carveout_bytes", 64 * 1024)]


def test_static_bytes_that_are_too_many_move_to_the_dynamic_part():
    step = one_more_block(L4, Launch(256, 32, 60000))

    assert step.launch.static_bytes == 49152
    assert step.launch.shared_bytes == 60000
    assert step.occupancy.shared.opt_in_bytes == 60000 - 49152


def step_back(launch, change):
    """Return the launch with one number a little further than the step allows."""
    match change.field:
        case "shared_bytes":
            return launch._replace(dynamic_bytes=launch.dynamic_bytes + 1)
        case "carveout_bytes":
            return launch._replace(carveout_bytes=launch.carveout_bytes // 2)
        case "static_bytes":
            return launch._replace(static_bytes=launch.static_bytes + 1)
    return launch._replace(**{change.field: getattr(launch, change.field) + 1})


@given(ARCHITECTURES, launches())
def test_the_next_step_gives_more_blocks_and_anything_less_does_not(cc, launch):
    limits = LIMITS[cc]
    now, step = occupancy(limits, launch), one_more_block(limits, launch)

    if step is None:
        assert now.blocks + 1 > min(now.limits.warps, now.limits.blocks)
        return
    assert step.changes
    assert step.occupancy.blocks > now.blocks
    assert step.occupancy == occupancy(limits, step.launch)
    for change in step.changes:
        assert change.now != change.to
        assert occupancy(limits, step_back(step.launch, change)).blocks <= now.blocks


@given(ARCHITECTURES, launches())
def test_no_block_size_beats_the_better_one(cc, launch):
    limits = LIMITS[cc]
    step = better_block_size(limits, launch)
    best = max(occupancy(limits, launch._replace(threads=n)).warps for n in range(32, 1025, 32))

    assert (step.occupancy if step else occupancy(limits, launch)).warps >= best


@given(ARCHITECTURES, launches())
def test_register_steps_fall_and_each_is_the_last_of_its_blocks(cc, launch):
    limits = LIMITS[cc]
    steps = register_steps(limits, launch)

    assert [s.blocks for s in steps] == sorted({s.blocks for s in steps}, reverse=True)
    for step in steps:
        beyond = launch._replace(registers=step.registers + 1)
        assert occupancy(limits, launch._replace(registers=step.registers)).blocks == step.blocks
        assert occupancy(limits, beyond).blocks < step.blocks


@given(ARCHITECTURES, st.integers(1, 1024), st.integers(1, 32))
def test_the_registers_for_some_blocks_are_the_most(cc, threads, blocks):
    limits = LIMITS[cc]
    most = registers_for_blocks(limits, threads, blocks)
    room = [occupancy(limits, Launch(threads, r)).limits.registers for r in range(1, 256)]
    fitting = [r for r, fit in enumerate(room, 1) if fit >= blocks]

    assert most == (max(fitting) if fitting else None)


@given(ARCHITECTURES, launches())
def test_spare_resources_are_the_largest_that_cost_no_block(cc, launch):
    limits = LIMITS[cc]
    now = occupancy(limits, launch)
    registers, size = spare_registers(limits, launch), spare_shared_bytes(limits, launch)
    used = launch._replace(
        registers=launch.registers + registers, dynamic_bytes=launch.dynamic_bytes + size
    )

    assert registers >= 0
    assert size >= 0
    assert occupancy(limits, used).blocks == now.blocks
    if now.blocks:
        for beyond in (
            used._replace(registers=used.registers + 1),
            used._replace(dynamic_bytes=used.dynamic_bytes + 1),
        ):
            assert occupancy(limits, beyond).blocks < now.blocks
