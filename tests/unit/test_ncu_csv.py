"""Recorded pages of Nsight Compute, and what is no such page."""

from pathlib import Path

import pytest
from programs import program

from engine.decide.recommend import recommend
from engine.errors import KbError
from engine.profiles.ncu_csv import RawName, read_raw_page

DATA = Path(__file__).parents[1] / "data" / "ncu"
WANTED = [RawName(m, tuple(names), scale) for m, (names, scale) in program()["raw_names"].items()]


def page(name):
    return (DATA / f"row_softmax_{name}.csv").read_text()


def launch(name):
    (found,) = read_raw_page(page(name), WANTED)
    return found


def small(cell, unit="%"):
    return f'"ID","Kernel Name","m"\n"","","{unit}"\n"0","k","{cell}"\n'


def value(cell, unit="%"):
    (found,) = read_raw_page(small(cell, unit), [RawName("m", ("absent", "m"), 0.01)])
    return found.metrics.get("m")


def test_a_real_page_gives_metrics_in_our_units():
    found = launch("naive")

    assert "softmax_thread_per_row" in found.kernel
    assert found.metrics["sector_load_useful_bytes"] == 4
    assert found.metrics["grid_block_count"] == 128
    assert 0 < found.metrics["dram_utilization"] < 0.2


@pytest.mark.parametrize("cell", ["n/a", "", "nan", "no data", "inf"])
def test_a_counter_that_said_nothing_is_absent_not_zero(cell):
    assert value(cell) is None


def test_thousands_separators_are_no_decimals():
    assert value("16,384") == pytest.approx(163.84)


def test_scaled_units_are_scaled_back():
    assert value("2", "Mbyte") == pytest.approx(2e4)


def test_lines_before_the_header_are_skipped():
    assert read_raw_page("==PROF== Connected\nmy program says hi\n" + small("1"), [])


def test_a_torn_last_row_is_left_out():
    assert read_raw_page(small("1") + '"1","k', []) == read_raw_page(small("1"), [])


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "\x00\x01\x02"], ids=["empty", "other", "binary"]
)
def test_what_is_no_raw_page_is_refused_with_the_command_that_writes_one(text):
    with pytest.raises(KbError, match="--page raw --print-units base"):
        read_raw_page(text, WANTED)


def test_the_naive_softmax_is_diagnosed_from_its_recorded_profile():
    metrics = {**launch("naive").metrics, "speedup": 0.05, "algorithmic_bytes": 2**30}
    answer = recommend(program(), metrics, device="h100-sxm")
    best = answer["diagnoses"][0]

    assert best["bottleneck"] == "uncoalesced-global-access"
    assert best["fixes"][0]["id"] == "remap-threads-coalesced"


def test_the_coalesced_softmax_is_told_that_it_is_done():
    metrics = {
        **launch("warp").metrics,
        "speedup": 1.55,
        "kernel_us": 376.0,
        "algorithmic_bytes": 2**30,
        "copy_peak_gbps": 3000.0,
    }
    answer = recommend(program(), metrics, device="h100-sxm")

    assert answer["gate"]["verdict"] == "done"
    assert answer["diagnoses"][0]["bottleneck"] == "near-roofline"
