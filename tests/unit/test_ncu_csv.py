"""Recorded pages of Nsight Compute, and what is no such page."""

import csv
import math
import re
from pathlib import Path

import pytest
from shipped_rules import program

from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.recommend import recommend
from kernelkb.errors import KbError
from kernelkb.model.answers.next_step import FixEdit
from kernelkb.profiles.launch import RawName, list_raw_names, parse_cell_number
from kernelkb.profiles.ncu_csv import read_raw_page

DATA = Path(__file__).parents[1] / "data" / "ncu"
RAW_METRICS = list_raw_names(program())


def read_page(name):
    return (DATA / f"row_softmax_{name}.csv").read_text()


def read_launch(name):
    (found,) = read_raw_page(read_page(name), RAW_METRICS)
    return found


def make_page(cell, unit="%"):
    return f'"ID","Kernel Name","m"\n"","","{unit}"\n"0","k","{cell}"\n'


def read_value(cell, unit="%"):
    (found,) = read_raw_page(make_page(cell, unit), [RawName("m", ("absent", "m"), 0.01)])
    return found.metrics.get("m")


def test_a_real_page_gives_metrics_in_our_units():
    found = read_launch("naive")

    assert "softmax_thread_per_row" in found.kernel
    assert found.metrics["sector_load_useful_bytes"] == 4
    assert found.metrics["grid_block_count"] == 128
    assert 0 < found.metrics["dram_utilization"] < 0.2


@pytest.mark.parametrize("cell", ["n/a", "", "nan", "no data", "inf"])
def test_an_n_a_counter_is_absent_and_not_zero(cell):
    assert read_value(cell) is None


def test_thousands_separators_are_no_decimals():
    assert read_value("16,384") == pytest.approx(163.84)


def test_scaled_units_are_scaled_back():
    assert read_value("2", "Mbyte") == pytest.approx(2e4)


def test_lines_before_the_header_are_skipped():
    assert read_raw_page("==PROF== Connected\nmy program says hi\n" + make_page("1"), [])


def test_a_torn_last_row_is_left_out():
    assert read_raw_page(make_page("1") + '"1","k', []) == read_raw_page(make_page("1"), [])


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "\x00\x01\x02"], ids=["empty", "other", "binary"]
)
def test_a_file_that_is_no_raw_page_is_rejected_with_the_ncu_command(text):
    with pytest.raises(KbError, match="--page raw --print-units base"):
        read_raw_page(text, RAW_METRICS)


def test_the_naive_softmax_is_diagnosed_from_its_recorded_profile():
    metrics = {**read_launch("naive").metrics, "speedup": 0.05, "algorithmic_bytes": 2**30}
    answer = recommend(program(), metrics, device="h100-sxm")
    best = answer["diagnoses"][0]

    assert best["bottleneck"] == "uncoalesced-global-access"
    assert best["fixes"][0]["id"] == "remap-threads-coalesced"


def test_the_coalesced_softmax_is_done():
    metrics = {
        **read_launch("warp").metrics,
        "speedup": 1.55,
        "kernel_us": 376.0,
        "algorithmic_bytes": 2**30,
        "copy_peak_gbps": 3000.0,
    }
    answer = recommend(program(), metrics, device="h100-sxm")

    assert answer["gate"]["verdict"] == "done"
    assert answer["diagnoses"][0]["bottleneck"] == "near-roofline"


def read_cells(name):
    """The recorded row as the csv module reads it: column to (cell, unit)."""
    heads, units, row = csv.reader(read_page(name).splitlines())
    return {head: (cell, unit) for head, cell, unit in zip(heads, row, units, strict=True)}


@pytest.mark.parametrize("name", ["naive", "warp"])
def test_every_metric_matches_the_page_in_our_unit(name):
    found, raw = read_launch(name).metrics, read_cells(name)

    for metric, names, scale, _, zero, _ in RAW_METRICS:
        said = [raw[n][0].replace(",", "") for n in names if n in raw]
        numbers = [float(cell) for cell in said if re.fullmatch(r"[-+\d.e]+", cell)]
        told = numbers and (numbers[0] or zero)
        expected = pytest.approx(numbers[0] * scale) if told else None

        assert found.get(metric) == expected


@pytest.mark.parametrize("name", ["naive", "warp"])
def test_every_metric_of_a_real_page_is_finite_and_possible(name):
    for metric, value in read_launch(name).metrics.items():
        row = program()["metrics"][metric]

        assert math.isfinite(value)
        assert row["low"] <= value
        assert row["high"] is None or value <= row["high"] * 1.01


def test_a_full_h100_page_lacks_a_few_known_metrics():
    (found,) = read_raw_page(read_page("full"), RAW_METRICS)
    whole = {raw.metric for raw in RAW_METRICS if "[" not in raw.names[0]}

    assert whole - set(found.metrics) <= {
        "cluster_limit_count",  # of launches with clusters
        "fp16_utilization",
        "pcie_read_gbps",
    }


@pytest.mark.parametrize("name", ["naive", "warp"])
def test_a_recorded_page_says_nothing_about_the_machine_it_came_from(name):
    raw = read_cells(name)

    assert raw["Process Name"][0] == raw["Host Name"][0] == ""
    assert not re.search(r"/(home|root|tmp|work|usr|opt)/", read_page(name))


def test_the_two_variants_differ_in_the_expected_metrics():
    naive, warp = read_launch("naive").metrics, read_launch("warp").metrics

    assert naive["sector_load_useful_bytes"] < 16 < warp["sector_load_useful_bytes"]
    assert naive["dram_utilization"] < 0.3 < 0.85 < warp["dram_utilization"]
    assert naive["waves"] < 1 < warp["waves"]


def test_the_preferred_raw_name_wins():
    text = '"Kernel Name","old","new"\n"","",""\n"k","1","2"\n'

    assert read_raw_page(text, [RawName("m", ("new", "old"), 1.0)])[0].metrics == {"m": 2.0}


def test_a_metric_falls_back_to_its_next_raw_name_when_ncu_says_n_a():
    text = '"Kernel Name","old","new"\n"","",""\n"k","1","n/a"\n'

    assert read_raw_page(text, [RawName("m", ("new", "old"), 1.0)])[0].metrics == {"m": 1.0}


def test_every_launch_is_kept_in_order():
    text = make_page("1") + '"1","j","2"\n"2","k","3"\n'
    found = read_raw_page(text, [RawName("m", ("m",), 1.0)])

    assert [(one.kernel, one.metrics["m"]) for one in found] == [("k", 1), ("j", 2), ("k", 3)]


def test_a_kernel_name_may_hold_commas_and_quotes():
    text = make_page("1").replace('"k"', '"void k<float, 4>(const char *, ""x"")"')

    assert read_raw_page(text, [])[0].kernel == 'void k<float, 4>(const char *, "x")'


@pytest.mark.parametrize(
    ("unit", "factor"), [("nsecond", 1), ("us", 1e3), ("msecond", 1e6), ("Gbyte", 1e9), ("%", 1)]
)
def test_units_are_converted(unit, factor):
    assert read_value("3", unit) == pytest.approx(0.03 * factor)


def test_windows_line_endings_are_accepted():
    text = make_page("1")

    assert read_raw_page(text.replace("\n", "\r\n"), []) == read_raw_page(text, [])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_page_that_was_cut_off_gives_whole_launches_or_none(share):
    text = read_page("naive")
    cut = text[: int(len(text) * share)]

    assert read_raw_page(cut, RAW_METRICS) in ([], [read_launch("naive")])


def test_a_row_of_units_that_is_too_short_is_no_crash():
    text = '"ID","Kernel Name","m"\n"",""\n"0","k","3"\n'

    try:
        found = read_raw_page(text, [RawName("m", ("m",), 0.01)])
    except KbError:
        return
    assert found in ([], read_raw_page(make_page("3", ""), [RawName("m", ("m",), 0.01)]))


def test_a_quote_that_never_closes_is_no_crash():
    text = make_page("1") + '"1","k' + "x,y\n" * 50_000

    try:
        found = read_raw_page(text, [])
    except KbError:
        return
    assert found == read_raw_page(make_page("1"), [])


DETAILS = """\
"ID","Process ID","Kernel Name","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","k","0","9.0","GPU Speed Of Light Throughput","DRAM Throughput","%","7.11"
"0","1","k","0","9.0","GPU Speed Of Light Throughput","Duration","us","11379.4"
"0","1","k","0","9.0","Occupancy","Achieved Occupancy","%","6.2"
"""  # noqa: E501


def test_the_details_page_is_not_taken_for_launches_that_measured_nothing():
    with pytest.raises(KbError, match="--page raw"):
        read_raw_page(DETAILS, RAW_METRICS)


def test_the_naive_softmax_is_not_told_to_raise_its_occupancy():
    metrics = {**read_launch("naive").metrics, "speedup": 0.05, "algorithmic_bytes": 2**30}
    answer = recommend(program(), metrics, device="h100-sxm")
    said = [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]

    assert answer["gate"]["verdict"] == "caution"
    assert not {"memory-latency-bound", "occupancy-limited-registers", "near-roofline"} & set(said)


def test_the_finished_softmax_gets_no_change_to_make():
    metrics = {**read_launch("warp").metrics, "kernel_us": 376.0, "algorithmic_bytes": 2**30}
    answer = recommend(program(), {**metrics, "speedup": 1.55}, device="h100-sxm")

    assert answer["gate"]["verdict"] == "done"
    assert not any(isinstance(step, FixEdit) for step in answer["next"])


@pytest.mark.parametrize(("zero", "kept"), [(True, {"m": 0.0}), (False, {})])
def test_an_average_over_nothing_is_unknown(zero, kept):
    """Of a kernel whose loads all bypass registers ncu reports 0 useful bytes a sector."""
    (found,) = read_raw_page(make_page("0"), [RawName("m", ("m",), 1.0, (), zero)])

    assert found.metrics == kept


@pytest.mark.parametrize(
    ("cell", "label", "value"),
    [
        ("1,024", "", 1024.0),
        ("1,024 (FADD: 1,000; FMUL: 24)", "", 1024.0),
        ("1,024 (FADD: 1,000; FMUL: 24)", "FADD", 1000.0),
        ("1,024 (FADD: 1,000, FMUL: 24)", "FMUL", 24.0),
        ("1,024 (FADD: 1,000; FMUL: 24)", "MUL", 0.0),
        ("1,024", "FADD", None),
        ("n/a", "FADD", None),
    ],
)
def test_a_cell_may_hold_the_numbers_of_instances(cell, label, value):
    assert parse_cell_number(cell, label) == value


def test_a_recorded_page_counts_instructions_by_opcode():
    """One division for each of 2**20 elements, and no barrier."""
    (found,) = read_raw_page((DATA / "opcodes.csv").read_text(encoding="utf-8"), RAW_METRICS)

    assert found.metrics["float_division_count"] == 2**20 / 32
    assert found.metrics["barrier_instruction_count"] == 0
    assert found.metrics["instruction_count"] == 1_966_080
    assert found.metrics["register_count"] == 16


@pytest.mark.parametrize(
    ("columns", "cycles"),
    [
        ({"gpc__cycles_elapsed.max": 500}, 500),
        ({"sm__cycles_elapsed.avg": 498, "gpc__cycles_elapsed.max": 500}, 498),
    ],
)
def test_older_sections_count_the_elapsed_cycles_of_another_unit(columns, cycles):
    names, values = (",".join(f'"{one}"' for one in part) for part in (columns, columns.values()))
    units = ",".join('"cycle"' for _ in columns)
    page = f'"ID","Kernel Name",{names}\n"","",{units}\n"0","k",{values}\n'
    (found,) = read_raw_page(page, RAW_METRICS)

    assert found.metrics["sm_elapsed_cycles"] == cycles


FALLBACKS = read_raw_page((DATA / "fallbacks_raw.csv").read_text("utf-8"), RAW_METRICS)
OTHER_GPUS = {
    "dram__bytes_op_read.sum",
    "dram__bytes_op_write.sum",
    "sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active_v2.avg.pct_of_peak_sustained_elapsed",
    "syslts__t_sectors_srcunit_tex_aperture_peer_lookup_miss.sum",
    "syslts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum",
}
"""Counters that an H200 does not have: before or after Hopper."""
OLDER_NAMES = [
    (one.metric, name)
    for one in RAW_METRICS
    for name in one.names[1:]
    if name not in OTHER_GPUS and "[" not in name
]


def read_fallbacks(*wanted):
    return read_raw_page((DATA / "fallbacks_raw.csv").read_text("utf-8"), wanted)


@pytest.mark.parametrize(("metric", "name"), OLDER_NAMES)
def test_another_name_of_a_counter_says_the_same(metric, name):
    """Both were counted in one run, for each kernel of fallbacks.cu."""
    (preferred,) = (one for one in RAW_METRICS if one.metric == metric)
    other = read_fallbacks(preferred._replace(names=(name,)))

    assert len(other) == len(FALLBACKS) == 8
    for one, known in zip(other, read_fallbacks(preferred), strict=True):
        value, expected = one.metrics[metric], known.metrics[metric]
        if metric == "fma_utilization":  # packed half precision takes its cycles twice
            assert expected / 2.01 <= value <= expected
        else:
            assert value == pytest.approx(expected, rel=0.015, abs=1e-4), one.kernel


def test_each_name_was_counted_or_is_of_another_gpu():
    header = next(csv.reader((DATA / "fallbacks_raw.csv").read_text("utf-8").splitlines()))
    alternatives = {name for one in RAW_METRICS if len(one.names) > 1 for name in one.names}
    missing = {name for name in alternatives if name not in header and "[" not in name}

    assert missing == OTHER_GPUS


FOUND = {
    "local_array": "local-array-indexing",
    "atomics": "atomic-contention",
    "one_long_block": "workload-imbalance",
    "doubles": "fp64-on-slow-pipe",
    "halves": "compute-pipe-bound",
    "integers": "integer-address-overhead",
    "matrices": "l1tex-bandwidth-bound tensor-pipe-underfed",
    "copy": "dram-bandwidth-bound",
}
SINCE_2025 = ("spill_instruction_count",)
SINCE_HOPPER = ("stall_gmma_cycles", "tma_utilization", "tma_read_bytes", "cluster_block_count")
SINCE_2024 = (
    *("l2_busiest_atomic_utilization", "l2_atomic_sector_count", "sector_load_useful_bytes"),
    *("sector_store_useful_bytes", "sm_active_max_cycles", "scheduler_active_max_cycles"),
    *("scheduler_active_mean_cycles", "scheduler_elapsed_cycles", "l1_active_max_cycles"),
    *("l1_active_mean_cycles", "l1_elapsed_cycles", "l2_active_max_cycles", "l2_elapsed_cycles"),
    *("l2_active_mean_cycles", "dram_active_max_cycles", "dram_active_mean_cycles"),
    *("dram_elapsed_cycles", "limit_barriers_block_count", "pcie_read_gbps"),
)
NOT_ON_TURING = ("async_copy_count", "fma_heavy_utilization", "hadd_rate", "hmul_rate")


@pytest.mark.parametrize(
    "absent",
    [
        (),
        ("fp16_utilization", "hadd_rate", "hmul_rate"),
        SINCE_2025,
        SINCE_2025 + SINCE_HOPPER + SINCE_2024,
        SINCE_2025 + SINCE_HOPPER + SINCE_2024 + NOT_ON_TURING,
    ],
    ids=["2025.3", "2025.1 on H100", "2024", "2023", "2021 on Turing"],
)
def test_a_report_without_newer_counters_names_the_same_causes(absent):
    """What was absent in full reports of each of these, of GPUs of other people."""
    wanted = [one for one in RAW_METRICS if one.metric not in absent]
    for launch in read_fallbacks(*wanted):
        answer = recommend(program(), {**launch.metrics, "foreign_profile": 1}, device="h200")
        name = launch.kernel.partition("(")[0]
        assert answer["diagnoses"][0]["bottleneck"] in FOUND[name].split()


def test_packed_half_precision_is_no_matrix_instruction():
    """On Hopper the counter of the tensor pipe holds it as well."""
    launches = {one.kernel.partition("(")[0]: one.metrics for one in FALLBACKS}
    without = [one for one in RAW_METRICS if one.metric != "fp16_utilization"]
    by_rate = {one.kernel.partition("(")[0]: one.metrics for one in read_fallbacks(*without)}

    for found in (launches, by_rate):
        assert found["halves"]["tensor_utilization"] < 0.01
        assert found["matrices"]["tensor_utilization"] == pytest.approx(0.2312)


def test_an_unequal_grid_is_told_where_the_busiest_sm_was_not_counted():
    """Never of more imbalance than there is: so for 384 launches that had both counters."""
    without = [one for one in RAW_METRICS if one.metric != "sm_active_max_cycles"]
    for launch, full in zip(read_fallbacks(*without), FALLBACKS, strict=True):
        found, known = (
            complete_metrics(program(), one.metrics, "h200")["sm_balance"] for one in (launch, full)
        )
        assert found >= known - 1e-3
        assert (found < 0.1) == (known < 0.1)
