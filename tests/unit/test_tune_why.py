"""Why one configuration is faster than another, from recorded profiles of two softmax kernels."""

from pathlib import Path

import pytest
from shipped_rules import program

from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.report import read_report
from kernelkb.render.text.tuning import format_gain_explanation
from kernelkb.tune.explain import ProfiledConfiguration, compare_times, explain_gain

PAGES = Path(__file__).parents[1] / "data" / "ncu"


def read_configuration(name, **changes):
    (launch,) = read_report(
        PAGES / f"row_softmax_{name}.csv", list_raw_names(program()), None
    )[:1]  # fmt: skip
    known = ProfiledConfiguration(launch.metrics["profiled_us"], launch.metrics, {})
    return known._replace(**changes)


def explain(default, winner):
    return explain_gain(program(), default, winner, "cuda", "h100-sxm")


def get_change(why, metric):
    return next((one for one in why.changes if one.metric == metric), None)


def test_the_part_that_saves_most_time_comes_first():
    default, winner = read_configuration("naive"), read_configuration("warp")
    why = explain(default, winner)
    saved = [abs(one.saved_us) for one in why.parts]

    assert why.parts[0].title == "waiting: long-scoreboard"
    assert saved == sorted(saved, reverse=True)
    assert sum(one.saved_us for one in why.parts) == pytest.approx(
        default.time_us - winner.time_us, rel=0.02
    )
    assert why.no_counters is None


def test_what_differs_in_launch_and_counters_is_told_with_both_values():
    why = explain(read_configuration("naive"), read_configuration("warp"))
    occupancy, blocks = get_change(why, "occupancy"), get_change(why, "grid_block_count")

    assert (occupancy.default, occupancy.winner) == pytest.approx((0.0625, 0.475), abs=0.01)
    assert (blocks.default, blocks.winner) == (128, 16384)
    assert get_change(why, "stall_long_scoreboard").unit == "share"
    text = "\n".join(format_gain_explanation(why))
    assert "blocks 128 -> 16,384" in text
    assert "7.69 ms saved: waiting: long-scoreboard" in text
    assert "1.12 ms saved: SMs without work" in text  # 128 blocks on 132 SMs


def test_what_is_equal_is_not_told():
    one = read_configuration("warp", instructions={"matrix": 8.0})
    why = explain(one, one)

    assert (why.parts, why.changes) == ((), ())
    assert format_gain_explanation(why)[-1] == "  nothing that is counted differs by 5 %"


def test_without_counters_resources_occupancy_waves_and_code_are_compared():
    launch = {"static_shared_bytes": 0.0, "block_thread_count": 128.0}
    default = ProfiledConfiguration(
        10.0,
        {**launch, "register_count": 168.0, "dynamic_shared_bytes": 98304.0,
         "grid_block_count": 1024.0},
        {"matrix": 64.0, "registers": 168.0, "barriers": 4.0},
        "ncu was not found",
        "install Nsight Compute",
    )  # fmt: skip
    winner = ProfiledConfiguration(
        8.0,
        {**launch, "register_count": 120.0, "dynamic_shared_bytes": 49152.0,
         "grid_block_count": 1024.0},
        {"matrix": 128.0, "registers": 120.0, "barriers": 4.0, "async_copies": 8.0},
        "ncu was not found",
        "install Nsight Compute",
    )  # fmt: skip
    why = explain(default, winner)
    occupancy, waves = get_change(why, "theoretical_occupancy"), get_change(why, "waves")

    assert (occupancy.default, occupancy.winner) == (0.125, 0.25)
    assert waves.default == pytest.approx(1024 / 264)
    assert waves.winner == pytest.approx(1024 / 528)
    assert get_change(why, "shared_bytes").unit == "bytes"
    assert get_change(why, "grid_block_count") is None
    assert get_change(why, "barriers") is None
    assert get_change(why, "registers") is None
    lines = format_gain_explanation(why)
    assert lines[-1] == "  no counters: ncu was not found; install Nsight Compute"
    assert lines[-2] == "  instructions in the code: async copies 0 -> 8; matrix 64 -> 128"
    assert "registers of a thread 168 -> 120" in lines[1]
    assert why.parts == ()


def test_two_reports_can_be_compared_line_by_line():
    default = read_configuration("naive", report="a.ncu-rep")
    winner = read_configuration("warp", report="b.ncu-rep")

    assert explain(default, winner._replace(report=None)).reports == ()
    assert format_gain_explanation(explain(default, winner))[-1] == (
        "  line by line: kb compare a.ncu-rep b.ncu-rep"
    )


def test_counters_of_one_side_alone_compare_no_times():
    winner = read_configuration("warp")
    default = ProfiledConfiguration(500.0, {}, {}, "the driver forbids reading counters")
    why = explain(default, winner)

    assert why.parts == ()
    assert why.no_counters == "the driver forbids reading counters"


def test_a_part_that_costs_more_in_the_winner_is_negative():
    shares = [[{"part": "memory", "title": "memory", "share": share}, {
        "part": "barrier", "title": "waiting: barrier", "share": 1 - share}]
        for share in (0.9, 0.5)]  # fmt: skip
    saved = compare_times((shares[0], shares[1]), (10.0, 8.0))

    assert [(one.title, round(one.saved_us, 6)) for one in saved] == [
        ("memory", 5.0),
        ("waiting: barrier", -3.0),
    ]
