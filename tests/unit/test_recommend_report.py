"""Reports of Nsight Compute in every form, and files that are none."""

import csv
import gzip
import re
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from shipped_rules import program

from kernelkb.actions.advice import recommend_report
from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.decide.derive import complete_metrics
from kernelkb.errors import BadValueError, KbError
from kernelkb.profiles import ncu_rep
from kernelkb.profiles.launch import ProfiledLaunch, list_raw_names
from kernelkb.profiles.report import read_report

FOLDER = Path(__file__).parents[1] / "data" / "ncu" / "reports"
FAULTS = FOLDER.parent / "faults"
RAW_METRICS = list_raw_names(program())
BINARY = FOLDER / "four_launches.ncu-rep"
COMPRESSED = BINARY.with_suffix(".ncu-repz")
RAW = FOLDER / "four_launches_raw.csv"
DETAILS = FOLDER / "four_launches_details.csv"


def recommend_kernels(path, **how):
    return recommend_from_report(str(path), **how)["kernels"]


def list_matches(answer):
    return [d["bottleneck"] for d in answer["diagnoses"] if d["verdict"] == "matches"]


def write_altered_page(tmp_path, name, **values):
    """A raw page with other values for some counters."""
    header, units, row = (FAULTS / f"{name}.csv").read_text().splitlines()
    columns = header.strip('"').split('","')
    cells = row.strip('"').split('","')
    for raw, value in values.items():
        cells[columns.index(raw)] = value
    file = tmp_path / "page.csv"
    file.write_text("\n".join([header, units, '"' + '","'.join(cells) + '"']) + "\n")
    return file


@pytest.mark.parametrize("path", [BINARY, RAW, DETAILS], ids=lambda p: p.suffix + p.stem[-4:])
def test_every_form_holds_the_four_launches(path):
    kernels = [launch.kernel for launch in read_report(path, RAW_METRICS)]

    assert len(kernels) == 4
    assert ["transpose" in kernel for kernel in kernels] == [True, True, True, False]


def test_a_page_of_a_german_machine_is_read(tmp_path):
    """Numbers of three digits behind the comma alone cannot be told from thousands."""
    swapped = str.maketrans({",": ".", ".": ","})
    with RAW.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    page = tmp_path / "raw.csv"
    with page.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        for row in rows:
            writer.writerow(
                [c.translate(swapped) if c[:1].isdigit() and " " not in c else c for c in row]
            )

    for one, other in zip(
        read_report(page, RAW_METRICS), read_report(RAW, RAW_METRICS), strict=True
    ):
        assert one.metrics["profiled_us"] == other.metrics["profiled_us"]
        assert one.metrics["dram_utilization"] == other.metrics["dram_utilization"]


@pytest.mark.parametrize(("first_ns", "is_told"), [("40,176", True), ("80,176", False)])
def test_launches_of_other_lengths_are_told(tmp_path, first_ns, is_told):
    page = tmp_path / "raw.csv"
    page.write_text(RAW.read_text().replace('"86,176"', f'"{first_ns}"'))
    notes = [note for one in recommend_kernels(page) for note in one["notes"]]

    assert ("the longest of 2 launches of this shape, of 40.2 to 86.5 us" in notes) is is_told
    assert is_told or not any("launches of this shape" in note for note in notes)


def test_the_binary_report_and_the_raw_page_say_the_same():
    for one, other in zip(
        read_report(BINARY, RAW_METRICS), read_report(RAW, RAW_METRICS), strict=True
    ):
        assert one.device == other.device == "NVIDIA H100 80GB HBM3"
        assert one.metrics.keys() - other.metrics.keys() == {"stack_bytes"}  # of its code
        assert not other.metrics.keys() - one.metrics.keys()
        for name, value in other.metrics.items():
            assert one.metrics[name] == pytest.approx(value, rel=1e-3, abs=6e-3), name


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_page_that_powershell_wrote_is_read(tmp_path, encoding):
    page = tmp_path / "raw.csv"
    page.write_text(RAW.read_text(encoding="utf-8"), encoding=encoding)

    assert read_report(page, RAW_METRICS)[0].metrics == read_report(RAW, RAW_METRICS)[0].metrics


def test_the_details_page_says_the_same_as_far_as_it_goes():
    for one, other in zip(
        read_report(DETAILS, RAW_METRICS), read_report(RAW, RAW_METRICS), strict=True
    ):
        shared = one.metrics.keys() & other.metrics.keys()
        assert {"dram_utilization", "occupancy", "waves", "issue_rate", "profiled_us"} <= shared
        for name in shared:
            assert one.metrics[name] == pytest.approx(other.metrics[name], rel=6e-3, abs=6e-3), name


def test_a_compressed_report_is_read_as_well():
    plain, packed = (read_report(path, RAW_METRICS) for path in (BINARY, COMPRESSED))

    assert [one.metrics.pop("stack_bytes") for one in plain] == [0.0] * len(plain)  # of the code
    assert packed == plain


def test_a_compressed_report_that_was_cut_off_is_one_line(tmp_path):
    cut = tmp_path / "cut.ncu-repz"
    cut.write_bytes(COMPRESSED.read_bytes()[:9000])

    with pytest.raises(KbError, match="no complete launch"):
        read_report(cut, RAW_METRICS)


def test_units_for_reading_and_base_units_are_the_same():
    people, base = (
        read_report(FOLDER / f"strided_copy_details{form}.csv", RAW_METRICS)[0].metrics
        for form in ("", "_base")
    )

    assert people.keys() == base.keys()
    assert people["profiled_us"] == pytest.approx(base["profiled_us"], rel=6e-3)
    assert base["profiled_us"] == pytest.approx(1695.392)


def test_launches_that_differ_in_time_only_are_answered_once():
    found = [(a["launch"], "transpose" in a["kernel"]) for a in recommend_kernels(BINARY)]

    assert len(found) == 3
    assert {launch for launch, transpose in found if transpose} in ({0, 2}, {1, 2})


def test_the_longest_comes_first():
    assert "few_blocks" in recommend_kernels(BINARY)[0]["kernel"]


@pytest.mark.parametrize("path", [BINARY, RAW])
def test_each_kernel_gets_its_own_diagnosis(path):
    found = {a["kernel"].partition("(")[0]: list_matches(a)[0] for a in recommend_kernels(path)}

    assert found["few_blocks"] == "small-grid"
    assert set(found.values()) == {"small-grid", "shared-memory-bank-conflicts"}


def test_the_gpu_is_read_from_the_report():
    assert {a["device"] for a in recommend_kernels(BINARY)} == {"h100-sxm"}
    assert {a["device"] for a in recommend_kernels(DETAILS, gpu="h100-sxm")} == {"h100-sxm"}
    with pytest.raises(BadValueError, match=r"compute capability 9\.0, not of h100-pcie"):
        recommend_kernels(DETAILS, gpu="h100-pcie")
    with pytest.raises(BadValueError, match="a report of NVIDIA H100 80GB HBM3, not of l4; leave"):
        recommend_kernels(BINARY, gpu="l4")


@pytest.mark.parametrize(("count", "is_refused"), [(22, True), (40, False)])
def test_a_gpu_that_the_report_describes_otherwise_is_refused(count, is_refused, tmp_path):
    """A T4 has 40 SMs; another GPU of its architecture may not."""
    page = tmp_path / "page.txt"
    page.write_text(
        "scale(float *) (40, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 7.5\n"
        "    Section: Launch Statistics\n"
        f"    # SMs    SM    {count}\n"
        "    Section: GPU Speed Of Light Throughput\n    Duration    us    812.50\n"
    )
    if is_refused:
        with pytest.raises(BadValueError, match=r"a GPU of compute capability 7\.5, not of t4"):
            recommend_kernels(page, gpu="t4")
    else:
        assert recommend_kernels(page, gpu="t4")[0]["device"] == "t4"


def test_a_regular_expression_picks_kernels():
    assert len(recommend_kernels(BINARY, kernel_pattern="few_.*")) == 1


def test_no_kernel_left_says_which_there_are():
    with pytest.raises(KbError, match=r"no kernel .* matches 'softmax'; it holds .*few_blocks"):
        recommend_kernels(BINARY, kernel_pattern="softmax")


def test_a_broken_regular_expression_is_named():
    with pytest.raises(BadValueError, match=r"--kernel '\(' is not a regular expression"):
        recommend_kernels(BINARY, kernel_pattern="(")


def test_given_metrics_override_the_report():
    (answer,) = recommend_kernels(RAW, kernel_pattern="few_blocks", headlines={"speedup": "0.3"})

    assert answer["gate"]["id"] == "structural-gap"


def test_commands_name_the_kernel_without_its_arguments(monkeypatch):
    monkeypatch.setattr(recommend_report, "list_project_kernels", lambda: {"transpose"})
    answer = next(a for a in recommend_kernels(BINARY) if "transpose" in a["kernel"])
    commands = " ".join(row["command"] for row in answer["measure_next"])

    assert "(" not in commands.partition("kb bench")[2].partition("--target")[0]
    assert "kb bench transpose --target" in commands


def test_an_estimate_of_ncu_is_a_share_of_time_and_local_ones_have_no_speedup():
    (launch,) = read_report(FOLDER / "strided_copy_details.csv", RAW_METRICS)
    (answer,) = recommend_kernels(FOLDER / "strided_copy_details.csv")
    rules = {r["rule"]: r for r in answer["ncu_rules"]}

    assert len(launch.rules) == len(answer["ncu_rules"])
    whole, local = rules["UncoalescedGlobalAccess"], rules["HighPipeUtilization"]
    assert whole["speedup"] == pytest.approx(1 / (1 - whole["removes"]), abs=1e-3)
    assert whole["removes"] == pytest.approx(0.8754, abs=1e-3)
    assert (local["scope"], local["speedup"]) == ("local", None)
    assert local["removes"] == pytest.approx(0.9413, abs=1e-3)


def test_binary_and_details_hold_the_same_rules():
    for one, other in zip(
        read_report(BINARY, RAW_METRICS), read_report(DETAILS, RAW_METRICS), strict=True
    ):
        known = {rule.rule for rule in one.rules}
        assert known == {rule.rule for rule in other.rules}
        assert not any("@" in rule.says and ":" in rule.says.split("@")[1] for rule in one.rules)


def test_where_no_reader_is_installed_ncu_reads(monkeypatch, tmp_path):
    """A stand-in for ncu prints what the real one printed for this report."""
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    ncu = tmp_path / "ncu"
    ncu.write_text(
        f'#!/bin/sh\ncase "$*" in *raw*) cat "{RAW}";; *) cat "{DETAILS}";; esac\n',
        encoding="utf-8",
    )
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    found = read_report(BINARY, RAW_METRICS, str(ncu))

    assert [one.metrics for one in found] == [one.metrics for one in read_report(RAW, RAW_METRICS)]
    assert [one.rules for one in found] == [one.rules for one in read_report(DETAILS, RAW_METRICS)]


def test_where_nothing_can_read_it_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ncu_report", None)

    with pytest.raises(KbError, match="pip install 'ncu-report>="):
        read_report(BINARY, RAW_METRICS, None)


@pytest.mark.parametrize("ncu", ["/bin/false", "/absent/ncu"])
def test_an_ncu_that_fails_is_reported(monkeypatch, ncu):
    monkeypatch.setitem(sys.modules, "ncu_report", None)

    with pytest.raises(KbError, match="ncu"):
        read_report(BINARY, RAW_METRICS, ncu)


def test_the_start_of_a_binary_report_is_enough_to_know_it():
    assert BINARY.read_bytes().startswith(ncu_rep.MAGIC)


@pytest.mark.parametrize("size", [4, 1000, 20_000])
def test_a_report_that_was_cut_off_holds_no_launch(tmp_path, size):
    file = tmp_path / "half.ncu-rep"
    file.write_bytes(BINARY.read_bytes()[:size])

    with pytest.raises(KbError, match="holds no complete launch"):
        read_report(file, RAW_METRICS)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no report of Nsight Compute"),
        (b"hello\n", "no report of Nsight Compute"),
        (b"k\xdc\xeb" + b"\0" * 400, "binary file"),
        (b"SQLite format 3\0" + b"\0" * 80, "cannot read"),
        (b"\x7fELF" + b"\0" * 80, "program or library"),
        (b"PK\x03\x04" + b"\0" * 80, "an archive"),
        (
            gzip.compress(b"\x7fELF", mtime=0),
            "holds no trace; what is compressed has to be unpacked",
        ),
        (b'"Time (%)","Total Time (ns)","Name"\n"50","12","k"\n', "summary of Nsight Systems"),
        (b"  Section: GPU Speed Of Light\n", "no report of Nsight Compute"),
        (b'{"traceEvents": []}', "no work of a GPU"),
        (b'"ID","Kernel Name","Metric Name"\n', "not the details page"),
        (b'"ID","Kernel Name","x"\n"","",""\n', "holds no complete launch"),
    ],
)
def test_a_file_that_is_no_report_is_identified(tmp_path, content, says):
    file = tmp_path / "report"
    file.write_bytes(content)

    with pytest.raises(KbError, match=re.escape(says)):
        read_report(file, RAW_METRICS)


def test_a_missing_file_is_a_plain_refusal(tmp_path):
    with pytest.raises(KbError, match="cannot read"):
        read_report(tmp_path / "absent.csv", RAW_METRICS)


@pytest.mark.parametrize("page", [RAW, DETAILS])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_half_a_page_gives_whole_launches_or_a_refusal(tmp_path, page, share):
    data = page.read_bytes()
    file = tmp_path / "half.csv"
    file.write_bytes(data[: int(len(data) * share)])
    whole = {launch.kernel for launch in read_report(page, RAW_METRICS)}
    said = ""
    try:
        found = read_report(file, RAW_METRICS)
    except KbError as error:
        found, said = [], str(error)

    assert {launch.kernel for launch in found} <= whole
    assert found or str(file) in said or "page" in said


def test_an_occupancy_of_170_percent_is_dropped_with_a_note(tmp_path):
    raw = "sm__warps_active.avg.pct_of_peak_sustained_active"
    (answer,) = recommend_kernels(write_altered_page(tmp_path, "latency_stream", **{raw: "170.0"}))

    assert answer["notes"][0] == "occupancy is 1.7 in the report, outside its range (0 to 1)"


def test_a_zero_duration_is_dropped_with_a_note(tmp_path):
    (answer,) = recommend_kernels(
        write_altered_page(tmp_path, "latency_stream", **{"gpu__time_duration.sum": "0"})
    )

    assert answer["notes"][0] == (
        "profiled_us is 0 in the report, outside its range (at least 0.001)"
    )


def test_a_memory_at_140_percent_stops_every_diagnosis_of_the_kernel(tmp_path):
    raw = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    (answer,) = recommend_kernels(write_altered_page(tmp_path, "plain_copy", **{raw: "140.0"}))

    assert list_matches(answer) == ["profiler-mismatch"]
    assert {row["guard"] for row in answer["suppressed"]} == {"contradictory-counters"}


def test_an_unknown_gpu_is_reported(tmp_path):
    page = write_altered_page(
        tmp_path, "plain_copy", device__attribute_display_name="NVIDIA X900 Ultra"
    )
    (answer,) = recommend_kernels(page)

    assert answer["device"] == "sm_90"
    assert answer["notes"][0].startswith(
        "NVIDIA X900 Ultra is not in the catalogue: the report says sm_90, 132 SMs"
    )


IMAGE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
CUDA_MACHINE = 190


def make_image(*names):
    """The least that is taken for a CUDA image, holding the names of sections and functions."""
    content = b"\0".join(name.encode() for name in ("", *names, ""))
    size = IMAGE_HEADER.size + len(content)
    ident = b"\x7fELF\x02\x01".ljust(16, b"\0")
    head = IMAGE_HEADER.pack(ident, 2, CUDA_MACHINE, 1, 0, 0, 0, 0, size, 0, 0, 0, 0, 0)
    return head + content


def test_code_for_a_debugger_is_told_from_code_with_lines(tmp_path):
    report = tmp_path / "report"
    report.write_bytes(
        b"header"
        + make_image(".debug_line", "_Z4fastPf")
        + make_image(".debug_line", ".nv_debug_info_reg_sass", "_Z4slowPf")
    )
    images = ncu_rep.ReportImages(report)

    assert images.measure_build("_Z4slowPf") == {"debug_build": 1.0}
    assert not images.measure_build("_Z4fastPf")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(("flag", "is_debug"), [("-G", True), ("-lineinfo", False)])
def test_what_nvcc_builds_for_a_debugger_is_known_by_its_image(tmp_path, flag, is_debug):
    source = tmp_path / "one.cu"
    source.write_text("__global__ void one(float* x) { x[threadIdx.x] *= 2; }\n")
    image = tmp_path / "one.cubin"
    subprocess.run(["nvcc", "-cubin", "-arch=sm_80", flag, "-o", image, source], check=True)

    found = ncu_rep.ReportImages(image).measure_build("_Z3onePf")

    assert ("debug_build" in found, found["stack_bytes"]) == (is_debug, 0.0)


def test_code_that_nobody_scheduled_is_known_by_its_waits_without_its_image():
    slow = ProfiledLaunch("slow", {"stall_wait_cycles": 13.3, "warp_latency_cycles": 40.0})
    fast = ProfiledLaunch("fast", {"stall_wait_cycles": 6.5, "warp_latency_cycles": 40.0})
    gates = [
        recommend_report.answer_launch(program(), each, 0, {}, None)["gate"]["id"]
        for each in (slow, fast)
    ]

    assert gates == ["release-first", "no-baseline"]


SHORT = {
    "profiled_us": 900.0,
    "dram_utilization": 0.02,
    "l2_utilization": 0.05,
    "l1_utilization": 0.97,
    "sm_utilization": 0.13,
    "memory_utilization": 0.95,
    "lsu_wavefront_utilization": 0.95,
    "lsu_request_utilization": 0.13,
    "l2_atomic_utilization": 0.0,
    "waves": 20.0,
}
"""As in the sections that ncu collects by default: no waits, no sectors."""


def find_causes(metrics):
    launch = ProfiledLaunch("k", metrics)
    found = recommend_report.answer_launch(program(), launch, 0, {}, None)["diagnoses"]
    return [cause for cause in found if cause["verdict"] == "matches"]


def test_scattered_lanes_are_the_first_candidate_of_a_short_profile():
    first = find_causes(SHORT)[0]

    assert first["bottleneck"] == "uncoalesced-global-access"
    assert first["predicted_speedup"] is None
    assert first["because"][0]["metric"] == "request_wavefront_ratio"


def test_a_profile_with_waits_takes_no_hint():
    waits = {"warp_latency_cycles": 20.0, "stall_wait_cycles": 2.0, "stall_barrier_cycles": 9.0}

    assert "uncoalesced-global-access" not in {
        found["bottleneck"] for found in find_causes({**SHORT, **waits})
    }


def test_a_wait_that_a_message_of_ncu_names_silences_no_hint():
    waits = {"warp_latency_cycles": 20.0, "stall_long_scoreboard_cycles": 12.0}
    use = {"dram_utilization": 0.2, "l1_utilization": 0.3, "sm_utilization": 0.13}
    found = find_causes({"profiled_us": 900.0, "waves": 20.0, **use, **waits})

    assert "memory-latency-bound" in {one["bottleneck"] for one in found}


@pytest.mark.parametrize("count", range(4, len(SHORT)))
def test_a_further_counter_never_lowers_the_confidence_of_a_cause(count):
    names = ["l1_utilization", "dram_utilization", "sm_utilization", *SHORT]
    order = list(dict.fromkeys(names))
    fewer, more = ({name: SHORT[name] for name in order[:n]} for n in (count, count + 1))
    before, after = (
        {found["bottleneck"]: found["confidence"] for found in find_causes(part)}
        for part in (fewer, more)
    )

    assert all(after[name] >= before[name] for name in before.keys() & after.keys())


def test_a_small_grid_is_told_although_nothing_says_what_the_rest_waits_for():
    names = {found["bottleneck"] for found in find_causes({**SHORT, "waves": 0.5})}

    assert "small-grid" in names


def test_older_reports_count_the_two_kinds_of_atomics_alone():
    counted = {"l2_alu_sector_count": 300.0, "l2_cas_sector_count": 100.0}

    assert complete_metrics(program(), counted, None)["cas_share"] == 0.25


def test_a_report_alone_bounds_no_gain_since_a_change_may_save_what_was_counted():
    assert {kernel["at_most"] for kernel in recommend_kernels(BINARY)} == {None}


def test_a_debug_build_stops_at_the_gate(monkeypatch):
    monkeypatch.setattr(ncu_rep.ReportImages, "measure_build", lambda *_: {"debug_build": 1.0})
    launches = ncu_rep._read_launches(BINARY, RAW_METRICS)
    answer = recommend_report.answer_launch(program(), launches[0], 0, {}, None)

    assert answer["gate"]["id"] == "release-first"
    assert not list_matches(answer)


def test_a_program_of_no_project_is_told_nothing_about_timing_it_here():
    (first, *_) = recommend_kernels(BINARY)

    assert (first["gate"]["id"], first["gate"]["verdict"]) == ("profile-alone", "continue")
    assert not [row for row in first["measure_next"] if row["command"].startswith("kb ")]
    assert not {"wrong-baseline", "insufficient-statistics"} & {
        found["bottleneck"] for found in first["diagnoses"]
    }
