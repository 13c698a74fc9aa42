"""Two calls of several kernels: their totals, which kernel became which, and what moved."""

import json
from pathlib import Path

import pytest
from machine_code import unpack_report
from pydantic import TypeAdapter

from kernelkb.actions.comparison.compare_calls import (
    compare_levels,
    compare_residency,
    pair_renamed,
    total_call,
)
from kernelkb.actions.comparison.compare_reports import check_prediction, compare_reports
from kernelkb.actions.project.profile_reports import (
    IndexedLaunch,
    ReportChoice,
    choose_reports,
    pair_launches,
)
from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.model.answers.report_comparison import ReportComparison
from kernelkb.profiles.launch import ProfiledLaunch
from kernelkb.render.text.comparisons import format_report_comparison

TABLES = Path(__file__).parents[1] / "data" / "ncu" / "reports"


def make_launches(*rows):
    """Launches of ``(kernel, us)`` or ``(kernel, us, metrics)``."""
    return [
        IndexedLaunch(at, ProfiledLaunch(row[0], {"profiled_us": row[1], **dict(*row[2:])}))
        for at, row in enumerate(rows)
    ]


def total(before, now):
    old, new = make_launches(*before), make_launches(*now)
    return total_call(pair_renamed(pair_launches(old, new)), old, new)


def list_rows(call):
    return [(row["fate"], row["before"], row["now"]) for row in call["kernels"]]


def test_a_call_is_the_sum_of_its_launches():
    call = total([("a(int)", 9.0), ("b(int)", 1.0)], [("a(int)", 4.0), ("b(int)", 1.0)])

    assert (call["before_us"], call["now_us"], call["ratio"]) == (10.0, 5.0, 2.0)


def test_the_largest_change_comes_first_and_noise_is_told_apart():
    call = total(
        [("decode(int)", 188.0), ("combine(int)", 11.0)],
        [("decode(int)", 189.0), ("combine(int)", 33.6)],
    )
    first, second = call["kernels"]

    assert (first["before"], first["is_noise"]) == (["combine"], False)
    assert (second["before"], second["is_noise"]) == (["decode"], True)


def test_launches_of_one_kernel_are_summed():
    (row,) = total([("a(int)", 2.0)] * 3, [("a(int)", 1.0)] * 2)["kernels"]

    assert (row["launches_before"], row["launches_now"]) == (3, 2)
    assert (row["before_us"], row["now_us"]) == (6.0, 2.0)


def test_two_kernels_whose_names_are_in_a_new_one_were_fused():
    call = total(
        [("rms_norm(int)", 5.0), ("quantize(int)", 3.0), ("gemm(int)", 9.0)],
        [("rms_norm_quantize_kernel(int)", 6.0), ("gemm(int)", 9.0)],
    )

    fused = ("fused", ["rms_norm", "quantize"], ["rms_norm_quantize_kernel"])
    assert list_rows(call)[0] == fused
    assert (call["kernels"][0]["before_us"], call["kernels"][0]["now_us"]) == (8.0, 6.0)


def test_a_kernel_whose_name_is_in_two_new_ones_was_split():
    call = total(
        [("scan_and_apply(int)", 9.0), ("gemm(int)", 9.0)],
        [("scan(int)", 2.0), ("apply(int)", 3.0), ("gemm(int)", 9.0)],
    )

    assert list_rows(call)[0] == ("split", ["scan_and_apply"], ["scan", "apply"])


def test_a_kernel_with_most_words_of_another_is_that_one_renamed():
    call = total(
        [("softmax_rows(int)", 9.0), ("pad(int)", 1.0), ("gemm(int)", 1.0)],
        [("softmax_rows_vec4(int)", 5.0), ("gemm(int)", 1.0), ("zero(int)", 2.0)],
    )

    assert ("renamed", ["softmax_rows"], ["softmax_rows_vec4"]) in list_rows(call)


def test_of_unlike_names_none_is_matched_by_chance():
    call = total(
        [("a(int)", 9.0), ("b(int)", 1.0)], [("c(int)", 5.0), ("d(int)", 1.0), ("e(int)", 1.0)]
    )

    assert {row["fate"] for row in call["kernels"]} == {"gone", "new"}
    assert call["ratio"] == pytest.approx(10 / 7, rel=1e-3)


def test_without_a_duration_there_is_no_total():
    call = total([("a(int)", 9.0), ("b(int)", 0.0)], [("a(int)", 5.0), ("b(int)", 1.0)])

    assert (call["before_us"], call["ratio"]) == (None, None)


def test_other_numbers_of_calls_are_a_note():
    once = [("a(int)", 9.0), ("b(int)", 1.0)]

    assert "other numbers of calls?" in total(once, once * 3)["notes"][0]
    assert total(once, once)["notes"] == []


def test_a_level_that_one_side_counts_is_not_zero_on_the_other():
    (level,) = compare_levels({"dram_read_bytes": 64.0}, {})

    assert (level["title"], level["before"], level["now"]) == ("DRAM read", 64.0, None)


def test_sectors_are_bytes_and_passes_are_none():
    levels = compare_levels(
        {"l2_sector_count": 2.0, "shared_load_wavefront_count": 3.0},
        {"l2_sector_count": 4.0, "shared_load_wavefront_count": 3.0},
    )

    assert [(one["level"], one["unit"], one["now"]) for one in levels] == [
        ("l2", "bytes", 128.0), ("shared", "passes", 3.0),
    ]  # fmt: skip


def test_only_what_changed_of_a_launch_is_told():
    found = compare_residency(
        {"register_count": 32.0, "theoretical_warps": 64.0, "static_shared_bytes": 0.0},
        {"register_count": 64.0, "theoretical_warps": 64.0, "static_shared_bytes": 4096.0},
    )

    assert [(one["title"], one["before"], one["now"]) for one in found] == [
        ("registers a thread", 32.0, 64.0), ("shared bytes a block", 0.0, 4096.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "verdict"), [(1.2, "below"), (1.4, "inside"), (2.3, "inside"), (2.4, "above")]
)
def test_a_gain_is_below_inside_or_above_its_prediction(measured, verdict):
    gain = {"low": 1.4, "point": 1.8, "high": 2.3}
    fixes = [{"id": "vectorize-128b", "predicted_speedup": gain}]
    answer = {"diagnoses": [{"bottleneck": "x", "verdict": "matches", "fixes": fixes}]}

    assert check_prediction(answer, measured)["verdict"] == verdict


def test_without_a_duration_a_prediction_is_not_judged():
    assert check_prediction({"diagnoses": []}, 2.0) is None


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """A call of five kernels with contended atomics; three are cured, two are as they were."""
    folder = tmp_path_factory.mktemp("report")
    report = unpack_report(folder, "h100-sxm", "atomic-contention")
    return compare_reports(
        ReportChoice(report, 0, (4, 6, 8, 10)), ReportChoice(report, 1, (4, 7, 9, 10))
    )


def test_a_call_of_real_kernels_is_as_the_schema_says(comparison):
    TypeAdapter(ReportComparison).validate_python(comparison)

    assert [row["before"][0] for row in comparison["call"]["kernels"][:3]] == [
        "count_rows", "add_columns", "count_keys",
    ]  # fmt: skip


def test_a_call_is_told_in_few_lines(comparison):
    text = list(format_report_comparison(comparison))

    assert len(text) <= 24
    assert text[0] == "call: 11.49 ms -> 1.09 ms, 10.6x as fast, 5 -> 5 launches"
    assert text[-2].startswith("unchanged within noise: ")
    assert "add_visits" in text[-2]
    assert "scatter_add" in text[-2]


def test_where_the_time_of_each_kernel_moved_is_told(comparison):
    text = "\n".join(format_report_comparison(comparison))

    assert "changed before.cu:17 -> after.cu:21: 3068.8 -> 30.5 us | atomicAdd(&own" in text
    assert "stalls: long scoreboard 2914.3 -> 29.8 us" in text
    assert "told block-privatize 125x [32.4, 483], got 91.1x: inside" in text
    assert "L2 198 MiB -> 64.1 MiB" in text


def test_launches_of_one_report_are_picked_by_ranges(tmp_path):
    file = tmp_path / "a.ncu-rep"
    file.touch()

    before, now = choose_reports(f"{file}#0-2,5", f"{file}#3")
    assert [at for at in range(8) if before.holds(at)] == [0, 1, 2, 5]
    assert [at for at in range(8) if now.holds(at)] == [3]


def test_a_range_that_runs_backwards_is_refused(tmp_path):
    file = tmp_path / "a.ncu-rep"
    file.touch()

    with pytest.raises(BadValueError, match=r"#5-2 names no launches; write #3, #2-5 or #2-5,7"):
        choose_reports(f"{file}#5-2", str(file))


def test_calls_that_share_no_kernel_have_their_totals(tmp_path):
    other = TABLES.parent / "row_softmax_warp.csv"
    found = compare_reports(ReportChoice(TABLES / "four_launches_raw.csv", None),
                            ReportChoice(other, None))  # fmt: skip

    assert {row["fate"] for row in found["call"]["kernels"]} == {"gone", "new"}
    assert found["call"]["notes"] == ["they share no kernel: is it the same call?"]
    assert any(line.startswith("new: softmax") for line in format_report_comparison(found))


def write_trace(path, kernels):
    """A trace of torch.profiler: ``(kernel, start, microseconds)``."""
    place = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": length, **place}
        for name, start, length in kernels
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return str(path)


def test_two_traces_tell_kernels_gaps_and_launches(tmp_path, capsys):
    before = write_trace(
        tmp_path / "before.json",
        [("gemm", 0, 100), ("add", 150, 20), ("relu", 200, 20), ("softmax", 230, 70)],
    )
    now = write_trace(
        tmp_path / "now.json", [("gemm", 0, 100), ("add_relu", 110, 20), ("softmax", 130, 70)]
    )
    assert main(["compare", before, now]) == 0
    text = capsys.readouterr().out.splitlines()

    assert text[0].startswith("program: 300.00 us -> 200.00 us, 1.5x as fast")
    assert "GPU idle 90.00 us -> 10.00 us; 4 -> 3 launches" in text[1]
    assert "add + relu -> add_relu (fused, by the names): 40.00 us -> 20.00 us" in text[2]
    assert "unchanged within noise: gemm, softmax" in text[-1]
