"""Two reports of one kernel: what is matched, what changed, and which diagnosis was right."""

from pathlib import Path

import pytest
from machine_code import make_counters, make_function, unpack_report
from pydantic import TypeAdapter
from shipped_rules import program

from kernelkb.actions.comparison import compare_reports as compare_reports_module
from kernelkb.actions.comparison.compare_lines import (
    LineMatch,
    compare_budgets,
    compare_samples,
    find_other_work,
    match_lines,
)
from kernelkb.actions.comparison.compare_reports import (
    check_falsifier,
    compare_reports,
    describe_binding,
    judge_time,
)
from kernelkb.actions.project.profile_reports import (
    IndexedLaunch,
    ReportChoice,
    choose_reports,
    pair_launches,
    simplify_kernel_name,
)
from kernelkb.decide.recommend import recommend
from kernelkb.errors import BadValueError
from kernelkb.model.answers.report_comparison import ReportComparison
from kernelkb.profiles.launch import ProfiledLaunch
from kernelkb.render.text.comparisons import format_report_comparison

REPORTS = Path(__file__).parents[1] / "data" / "ncu"
TWO_LINES = make_function(
    (1, "LDG.E R4, desc[UR4][R8.64]", "w0", ()), (2, "FADD R3, R4, R3", "", (0,))
)


def make_launches(*kernels):
    """Launches of ``(kernel, us)`` or ``(kernel, us, grid)``."""
    return [
        IndexedLaunch(at, ProfiledLaunch(name, {"profiled_us": us}, shape=(*grid, "")))
        for at, (name, us, *grid) in enumerate(
            (*one, "(1, 1, 1)")[:3] if len(one) == 2 else one for one in kernels
        )
    ]


def list_pairs(before, now):
    found = pair_launches(make_launches(*before), make_launches(*now))
    return [(old.at, new.at) for old, new in found.pairs]


@pytest.mark.parametrize(
    ("kernel", "name"),
    [("<unnamed>::price_puts(const float *, int)", "price_puts"),
     ("void scale<float, (int)4>(const T1 *)", "scale"),
     ("void (anonymous namespace)::add<std::array<int, 4>>(T1)", "add"),
     ("void at::native::sum<(bool)1>(long)", "at::native::sum"),
     ("few_blocks", "few_blocks")],
)  # fmt: skip
def test_a_kernels_name_has_neither_types_nor_parameters(kernel, name):
    assert simplify_kernel_name(kernel) == name


def test_kernels_are_matched_whatever_their_template_arguments():
    assert list_pairs(
        [("void add<float>(T1)", 9), ("void sum<4>(int)", 5)],
        [("void sum<8>(int)", 4), ("void add<double>(T1)", 8)],
    ) == [(0, 1), (1, 0)]  # fmt: skip


def test_the_only_kernels_of_two_reports_belong_together():
    assert list_pairs([("naive(int)", 9)], [("tiled(int)", 8)]) == [(0, 0)]


def test_of_several_kernels_none_is_matched_by_chance():
    assert list_pairs([("a(int)", 9)], [("b(int)", 8), ("c(int)", 8)]) == []


def test_the_longest_launch_of_a_shape_is_compared():
    assert list_pairs([("a(int)", 2), ("a(int)", 9)], [("a(int)", 3), ("a(int)", 1)]) == [(1, 0)]


def test_launches_of_equal_shape_belong_together():
    assert list_pairs(
        [("a(int)", 9, "(64, 1, 1)"), ("a(int)", 5, "(8, 1, 1)")],
        [("a(int)", 4, "(8, 1, 1)"), ("a(int)", 8, "(64, 1, 1)")],
    ) == [(0, 1), (1, 0)]  # fmt: skip


def test_launches_of_other_shapes_belong_together_by_their_order():
    assert list_pairs(
        [("a(int)", 5, "(8, 1, 1)"), ("a(int)", 9, "(64, 1, 1)")],
        [("a(int)", 4, "(2, 1, 1)"), ("a(int)", 8, "(16, 1, 1)")],
    ) == [(1, 1), (0, 0)]  # fmt: skip


def test_a_line_that_shifted_is_matched_by_its_text():
    found = match_lines(["int i = 0;", "sum += a[i];"], ["int n;", "int i = 0;", "sum += a[i];"])

    assert found == {1: LineMatch(2, "same"), 2: LineMatch(3, "same")}


def test_a_line_that_moved_is_matched_by_its_text():
    found = match_lines(
        ["scale = 1 / norm;", "for (...) {", "load(x);", "}"],
        ["for (...) {", "load(x);", "}", "scale = 1 / norm;"],
    )

    assert found[1] == LineMatch(4, "same")


def test_a_similar_line_in_its_place_is_a_changed_one():
    found = match_lines(["{", "x = tile[lane][r];", "}"], ["{", "x = tile[lane][r ^ lane];", "}"])

    assert found[2] == LineMatch(2, "changed")


def test_a_line_unlike_any_other_is_gone():
    assert match_lines(["__syncthreads();"], ["sum += a[i] * weight;"]) == {}


def compare_counts(before, now, sources=("a;\nb;", "a;\nb;"), durations=(100.0, 50.0)):
    sides = [
        make_counters(TWO_LINES, source, samples=counts, stall_wait=counts)
        for source, counts in zip(sources, (before, now), strict=True)
    ]
    return compare_samples(*sides, durations)


def test_a_line_is_told_with_its_share_its_time_and_its_samples():
    (line,) = compare_counts({0: 50, 1: 50}, {1: 40})["lines"]

    assert line["before"] == {"share": 0.5, "us": 50.0, "samples": 50.0}
    assert line["now"] is None


def test_the_line_that_lost_most_time_comes_first():
    found = compare_counts({0: 30, 1: 70}, {0: 30, 1: 30})["lines"]

    assert [line["at_now"]["line"] for line in found] == [2, 1]


def test_new_lines_and_those_that_are_gone_are_told():
    found = compare_counts(
        {0: 90}, {1: 90}, ("first = load(a);\n", "\nsum += other * weight;"), (100.0, 90.0)
    )["lines"]

    assert [(line["fate"], line["at_before"] is None) for line in found] == [
        ("gone", False), ("new", True),
    ]  # fmt: skip


def test_without_source_lines_are_matched_by_their_number():
    found = compare_counts({0: 90, 1: 10}, {0: 10, 1: 90}, ("", ""), (100.0, 100.0))

    assert {line["fate"] for line in found["lines"]} == {"same"}
    assert "matched by number" in found["lines_reason"]


def test_code_without_lines_is_no_new_code():
    bare = make_function((None, "FADD R3, R4, R3", "", ()))
    found = compare_samples(
        make_counters(bare, samples={0: 9}), make_counters(TWO_LINES, samples={0: 9}), (9.0, 9.0)
    )

    assert found["lines"] == []
    assert found["lines_reason"] == "the code of the old report was compiled without -lineinfo"


def test_stalls_are_told_by_share_and_by_count():
    (stall,) = compare_counts({0: 60, 1: 40}, {0: 40})["stalls"]

    assert (stall["title"], stall["before"]["samples"], stall["now"]["samples"]) == (
        "wait", 100.0, 40.0,
    )  # fmt: skip
    assert stall["now"]["share"] == 1.0


def test_the_part_of_the_time_whose_share_changed_most_comes_first():
    before = [make_share("l1", 0.4), make_share("fill", 0.5), make_share("other", 0.1)]
    now = [make_share("l1", 0.7), make_share("other", 0.3)]
    fill, l1 = compare_budgets(before, now, (200.0, 100.0))

    assert (fill["part"], fill["before"]["us"], fill["now"]) == ("fill", 100.0, None)
    assert (l1["part"], l1["before"]["us"], l1["now"]["us"]) == ("l1", 80.0, 70.0)


def make_share(part, share):
    return {"part": part, "title": part, "share": share}


@pytest.mark.parametrize(
    ("now", "verdict"), [(96.0, "fell"), (98.0, "same"), (102.0, "same"), (104.0, "rose")]
)
def test_durations_that_differ_by_the_noise_are_the_same(now, verdict):
    assert judge_time(100.0, now) == verdict


@pytest.mark.parametrize(
    ("useful_bytes", "time", "says"),
    [(32.0, "fell", "so the diagnosis was right"), (32.0, "same", "not what limited the kernel"),
     (32.0, "rose", "the time rose"), (4.0, "fell", "something else made it faster"),
     (4.0, "rose", "revert"), (None, "fell", "lacks sector_load_useful_bytes")],
)  # fmt: skip
def test_a_diagnosis_was_right_only_if_its_falsifier_held_and_the_time_fell(
    useful_bytes, time, says
):
    known = {} if useful_bytes is None else {"sector_load_useful_bytes": useful_bytes}
    found = check_falsifier(make_answer(), known, time)

    assert says in found["says"]
    assert ("right" in found["says"]) == (useful_bytes == 32.0 and time == "fell")


def make_answer():
    falsifier = {
        "metric": "sector_load_useful_bytes", "op": ">=", "value": 8.8, "before": 4.0,
        "expect": "",
    }  # fmt: skip
    diagnosis = {
        "bottleneck": "uncoalesced-global-access", "verdict": "matches", "falsifier": falsifier,
        "fixes": [],
    }  # fmt: skip
    return {"diagnoses": [{**diagnosis, "falsifier": None}, diagnosis]}


def test_without_a_cause_the_largest_part_of_the_time_is_told():
    nothing = recommend(program(), {})
    nothing["time"] = [make_share("l1", 0.2), make_share("memory", 0.8)]
    found = describe_binding(program(), nothing, nothing, None)

    assert (found["bottleneck"], found["do"]) == (None, "the largest part of the time is memory")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The comparison of a softmax of one thread a row with one of a warp a row."""
    folder = tmp_path_factory.mktemp("report")
    report = unpack_report(folder, "h100-sxm", "uncoalesced-global-access")
    return compare_reports(ReportChoice(report, 18), ReportChoice(report, 19))


def test_the_kernel_of_two_launches_is_compared_as_the_schema_says(rows):
    TypeAdapter(ReportComparison).validate_python(rows)
    (kernel,) = rows["kernels"]

    assert kernel["before"]["duration_us"] == pytest.approx(1503.424)
    assert kernel["ratio"] == pytest.approx(1503.424 / 63.904, rel=1e-3)


def test_the_lines_of_another_file_are_matched(rows):
    (largest, *_) = rows["kernels"][0]["samples"]["lines"]

    assert (largest["at_before"]["line"], largest["at_now"]["line"]) == (23, 46)
    assert largest["at_before"]["text"] == largest["at_now"]["text"]


def test_the_falsifier_of_the_old_report_is_checked_with_the_new_one(rows):
    found = rows["kernels"][0]["falsifier"]

    assert (found["bottleneck"], found["held"]) == ("uncoalesced-global-access", True)
    assert found["now"] == pytest.approx(32.0)


def test_what_binds_now_has_a_line_and_a_fix(rows):
    binds = rows["kernels"][0]["binds"]

    assert binds["lines"]["lines"][0]["at"]["file"].endswith("after.cu")
    assert binds["fix"]


def test_a_kernel_takes_one_screen(rows):
    text = list(format_report_comparison(rows))

    assert len(text) <= 50
    assert text[0] == "normalize_rows: 1.50 ms -> 63.90 us, 23.5x as fast"
    assert "not a bench" in text[1]


def test_tables_are_compared_without_samples():
    before, now = (REPORTS / f"row_softmax_{name}.csv" for name in ("naive", "warp"))
    (kernel,) = compare_reports(ReportChoice(before, None), ReportChoice(now, None))["kernels"]

    assert kernel["samples"] is None
    assert "a CSV page holds no samples" in kernel["no_samples"]
    assert kernel["falsifier"]["held"]


def test_kernels_of_one_report_only_are_listed():
    whole = REPORTS / "reports" / "four_launches_raw.csv"
    found = compare_reports(ReportChoice(whole, None), ReportChoice(whole, 3))

    assert [side["name"] for side in found["only_before"]] == ["transpose", "transpose"]
    assert any(line.startswith("gone: transpose ") for line in format_report_comparison(found))


def test_a_regular_expression_picks_the_kernels_to_compare():
    whole = ReportChoice(REPORTS / "reports" / "four_launches_raw.csv", None)
    found = compare_reports(whole, whole, "few_.*")

    assert [kernel["now"]["name"] for kernel in found["kernels"]] == ["few_blocks"]


def test_a_launch_that_a_report_does_not_hold_is_named():
    report = REPORTS / "reports" / "four_launches_raw.csv"

    with pytest.raises(BadValueError, match=r"holds 4 launches, so #4 is none of them"):
        compare_reports(ReportChoice(report, 4), ReportChoice(report, 0))


def test_another_sampling_interval_is_a_note(monkeypatch, tmp_path):
    report = unpack_report(tmp_path, "h100-sxm", "american_put_tree")
    plain = compare_reports(ReportChoice(report, 0), ReportChoice(report, 1))
    intervals = iter((2048.0, 512.0))
    monkeypatch.setattr(
        compare_reports_module,
        "IndexedLaunch",
        lambda at, launch, _: IndexedLaunch(at, launch, next(intervals)),
    )
    other = compare_reports(ReportChoice(report, 0), ReportChoice(report, 1))

    assert plain["kernels"][0]["notes"] == []
    assert "every 2048 cycles before and every 512 now" in other["kernels"][0]["notes"][0]


def test_two_gpus_are_a_note(tmp_path):
    report = REPORTS / "reports" / "four_launches_raw.csv"
    other = tmp_path / "l4.csv"
    other.write_text(report.read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA L4"))
    found = compare_reports(ReportChoice(report, 3), ReportChoice(other, 3))

    assert (
        "two GPUs, NVIDIA H100 80GB HBM3 before and NVIDIA L4 now" in found["kernels"][0]["notes"]
    )


def test_the_launch_after_a_hash_is_meant(tmp_path):
    file = tmp_path / "a.ncu-rep"
    file.touch()

    assert choose_reports(str(file), f"{file}#4") == (
        ReportChoice(file, None), ReportChoice(file, 4),
    )  # fmt: skip


def test_a_file_whose_name_holds_a_hash_is_itself(tmp_path):
    file = tmp_path / "a.ncu-rep#2"
    file.touch()

    assert choose_reports(str(file), str(file))[0] == ReportChoice(file, None)


def test_variants_are_no_reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("naive").touch()

    assert choose_reports("naive", "vectorized") is None
    assert choose_reports("a" * 5000, "b") is None


def test_a_report_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(BadValueError, match=r"no file .*b\.ncu-rep#3; two reports"):
        choose_reports("naive", str(tmp_path / "b.ncu-rep#3"))


BUILD = {
    "register_count": 64.0, "static_shared_bytes": 0.0, "dynamic_shared_bytes": 0.0,
    "block_thread_count": 256.0,
}  # fmt: skip


def count_instructions(count, **changed):
    return {**BUILD, "instruction_count": count, **changed}


@pytest.mark.parametrize(
    ("now", "is_other"),
    [
        (count_instructions(1.5e9), True),
        (count_instructions(0.6e9), True),
        (count_instructions(1.4e9), False),
        (count_instructions(5e9, register_count=62.0), False),
        (count_instructions(5e9, block_thread_count=128.0), False),
        ({"instruction_count": 5e9}, False),
    ],
    ids=["more", "less", "about as many", "other code", "other blocks", "build unknown"],
)
def test_the_same_code_on_other_data_is_no_change(now, is_other):
    found = find_other_work(count_instructions(1e9), now, (None, None))

    assert (found is not None) is is_other


def test_instructions_that_differ_are_other_code_whatever_the_build_says():
    one = make_counters(TWO_LINES)
    other = make_counters(make_function((1, "FADD R3, R4, R3", "", ())))
    before, now = count_instructions(1e9), count_instructions(5e9)

    assert find_other_work(before, now, (one, one)) is not None
    assert find_other_work(before, now, (one, other)) is None
    assert find_other_work(before, {**now, "block_thread_count": 32.0}, (one, one)) is None


def test_a_launch_beside_itself_is_no_change():
    report = REPORTS / "reports" / "four_launches_raw.csv"
    (kernel,) = compare_reports(ReportChoice(report, 3), ReportChoice(report, 3))["kernels"]

    assert (kernel["prediction"], kernel["falsifier"]) == (None, None)
    assert "the same launch" in kernel["notes"][0]
