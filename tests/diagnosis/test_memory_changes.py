"""Which change of the accesses to memory is told first, on recorded kernels of the zoo."""

import pytest
from benchmarks.zoo.score import judge_pairs, read_all_recordings
from shipped_rules import program

from kernelkb.decide.derive import complete_metrics

FIRST = {
    "filter_orders_by_day": "remove-redundant-traffic",
    "verify_drafts_every_step": "remove-redundant-traffic",
    "softmax_three_sweeps": "remove-redundant-traffic",
    "splat_tiles_from_global": "tile-into-smem",
    "splat_tiles_pixel_a_thread": "tile-into-smem",
    "spmm_one_neighbour_at_a_time": "unroll-ilp",
    "spmm_edge_atomics": "accumulate-in-registers",
    "moe_combine_by_atomics": "accumulate-in-registers",
    "sales_by_size_class": "accumulate-in-registers",
    "embedding_gradient_few_rows": "block-privatize",
    "page_sums_by_owner": "block-privatize",
    "softmax_one_program_an_sm": "parallelize-outer-dim",
    "charged_particle_step": "smem-transpose",
    "column_moments_rows_by_thread": "remap-threads-coalesced",
}
"""By kernel, the first change: one that the pair names as right."""


@pytest.fixture(scope="module")
def judged():
    rows = [row for row in read_all_recordings() if row.kernel in FIRST]
    return {one.recording.kernel: one for one in judge_pairs(program(), rows)}


@pytest.mark.parametrize("kernel", FIRST)
def test_the_first_change_fits_the_accesses(judged, kernel):
    fixes = judged[kernel].matches[0]["fixes"]

    assert fixes[0]["id"] == FIRST[kernel]


def test_work_that_is_not_needed_takes_its_bytes_along(judged):
    told = judged["verify_drafts_every_step"].told

    assert 4 <= told["point"] <= 7


def test_a_row_with_one_owner_gains_more_than_half_of_the_atomics(judged):
    kernels = ("spmm_edge_atomics", "moe_combine_by_atomics")

    assert all(judged[name].told["point"] > 2 for name in kernels)


@pytest.mark.parametrize("width", [1.0, 2.0, 4.0, 16.0])
def test_the_width_of_other_loads_is_told_apart_from_words_for_all_lanes(width):
    """Two loads of a word for all lanes, 4 bytes of one sector, for each of whole sectors."""
    sectors, useful = (2 + width) / 3, (8 + 32 * width) / (2 + width)
    measured = {
        "sectors_per_load": sectors,
        "sector_load_useful_bytes": useful,
        "load_lane_bytes": sectors * useful / 32,
    }
    known = complete_metrics(program(), measured, device=None)

    assert known["broadcast_load_share"] == pytest.approx(2 / 3)
    assert known["plain_load_lane_bytes"] == pytest.approx(width)
