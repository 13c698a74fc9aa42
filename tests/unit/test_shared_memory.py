"""How much shared memory a block may have, and what fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launches import A100, ARCHITECTURES, H100, L4, LIMITS, T4, launches

from kernelkb.device_math.occupancy import (
    Launch,
    largest_shared_bytes,
    shared_memory_budget,
    smallest_carveout,
)


def test_the_architectures_that_people_meet_are_known():
    wanted = {"7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1"}

    assert wanted <= set(LIMITS)


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_the_largest_carveout_is_all_that_an_sm_has_and_one_block_may_have_all_but_the_drivers_part(
    limits,
):
    assert limits.carveouts[-1] == limits.shared
    assert limits.shared_opt_in == limits.shared - limits.shared_reserved


@pytest.mark.parametrize(
    ("launch", "attribute"),
    [
        (Launch(256, 32, 0, 49152), None),
        (Launch(256, 32, 0, 49153), 49153),
        (Launch(256, 32, 16384, 32768), None),
        (Launch(256, 32, 16384, 32769), 32769),
        (Launch(256, 32, 49152, 1), 1),
        (Launch(256, 32, 49153, 0), None),
        (Launch(256, 32, 0, 232449), None),
    ],
)
def test_above_48_kib_a_kernel_has_to_ask_for_its_dynamic_part(launch, attribute):
    assert shared_memory_budget(H100, launch).opt_in_bytes == attribute


@pytest.mark.parametrize(
    ("limits", "most"), [(T4, 65536), (L4, 101376), (A100, 166912), (H100, 232448)]
)
def test_one_byte_more_than_the_opt_in_limit_fails(limits, most):
    assert shared_memory_budget(limits, Launch(256, 32, 0, most)).blocks == 1
    assert shared_memory_budget(limits, Launch(256, 32, 0, most + 1)).blocks == 0


def test_spare_bytes_are_counted_to_both_limits():
    found = shared_memory_budget(L4, Launch(256, 32, 0, 50000))

    assert (found.left_without_opt_in, found.left) == (49152 - 50000, 101376 - 50000)


def test_the_driver_takes_a_kibibyte_of_each_block_from_ampere_on():
    assert shared_memory_budget(A100, Launch(256, 32)).allocated == 1024
    assert shared_memory_budget(T4, Launch(256, 32)).allocated == 0


def test_a_block_that_takes_nothing_fits_any_number_of_times():
    assert shared_memory_budget(T4, Launch(256, 32)).blocks is None


def test_a_carveout_that_is_too_small_gives_way():
    found = shared_memory_budget(H100, Launch(256, 32, 0, 40000, carveout_bytes=8192))

    assert (found.carveout, found.blocks) == (64 * 1024, 1)


def test_a_carveout_between_two_sizes_becomes_the_larger():
    assert (
        shared_memory_budget(H100, Launch(256, 32, carveout_bytes=110 * 1024)).carveout
        == 132 * 1024
    )


@pytest.mark.parametrize(
    ("limits", "blocks", "size"), [(H100, 2, 115712), (A100, 4, 40960), (L4, 2, 50176)]
)
def test_the_most_that_so_many_blocks_may_each_have(limits, blocks, size):
    assert largest_shared_bytes(limits, blocks, None) == size


def test_even_empty_blocks_do_not_fit_without_end():
    assert largest_shared_bytes(L4, 101, None) is None


def test_the_smallest_carveout_matches_hand_computed_values():
    assert smallest_carveout(H100, 16384, 4) == 100 * 1024
    assert smallest_carveout(H100, 200000, 2) is None


def test_attention_tiles_that_once_were_thought_to_fit_an_l4_need_the_opt_in():
    """Queries 192 x 64, three stages of keys and values of 96 x 64, all fp16."""
    queries, keys_and_values = 192 * 64 * 2, 2 * 3 * 96 * 64 * 2
    found = shared_memory_budget(L4, Launch(256, 128, 0, queries + keys_and_values))

    assert found.asked == 98304
    assert (found.blocks, found.opt_in_bytes) == (1, 98304)


@given(ARCHITECTURES, launches(), st.integers(1, 32))
def test_the_most_fits_and_a_byte_more_does_not(cc, launch, blocks):
    limits = LIMITS[cc]
    most = largest_shared_bytes(limits, blocks, launch.carveout_bytes)

    for size, fits in ((most, True), (-1 if most is None else most, False)):
        if size is not None:
            asked = launch._replace(static_bytes=0, dynamic_bytes=size + (not fits))
            room = shared_memory_budget(limits, asked).blocks
            assert (room is None or room >= blocks) == fits


@given(ARCHITECTURES, launches(), st.integers(1, 32))
def test_the_smallest_carveout_holds_the_blocks_and_the_next_smaller_does_not(cc, launch, blocks):
    limits = LIMITS[cc]
    size = smallest_carveout(limits, launch.shared_bytes, blocks)
    asked = launch._replace(static_bytes=0, dynamic_bytes=launch.shared_bytes)
    rooms = {
        c: shared_memory_budget(limits, asked._replace(carveout_bytes=c)) for c in limits.carveouts
    }
    holding = [c for c, room in rooms.items() if room.blocks is None or room.blocks >= blocks]

    assert size == (min((rooms[c].carveout for c in holding), default=None))
