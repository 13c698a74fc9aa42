"""The page that Nsight Compute prints for people, as people paste it."""

import csv
import re
import textwrap
from pathlib import Path

import pytest
from shipped_rules import program

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.errors import BadValueError, KbError
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_details_page
from kernelkb.profiles.report import holds_report, read_report, read_report_text

REPORTS = Path(__file__).parents[1] / "data" / "ncu" / "reports"
WANTED = list_raw_names(program())
HEADER = "scale(float *, int) (40, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.6"
SPEED = """\
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Elapsed Cycles                cycle    1,412,300
    DRAM Throughput                   %        91.25
    Duration                         us       812.50
    SM Active Cycles              cycle 1,398,211.75
    ----------------------- ----------- ------------
"""
SPEED_METRICS = {
    "sm_elapsed_cycles": 1412300,
    "dram_utilization": 0.9125,
    "profiled_us": 812.5,
    "sm_active_mean_cycles": 1398211.75,
}


def read_text(text):
    (found,) = read_report_text(text, WANTED)
    return found


def print_page(rows):
    """Lay out the rows of a details page in CSV as ncu prints them for people."""
    first = rows[0]
    shape = f"{first['Grid Size']}x{first['Block Size']}"
    lines = [
        f"  {first['Kernel Name']} {shape}, Context {first['Context']}, "
        f"Stream {first['Stream']}, Device {first['Device']}, CC {first['CC']}"
    ]
    sections = {}
    for row in rows:
        sections.setdefault(row["Section Name"], []).append(row)
    for section, own in sections.items():
        values = [row for row in own if row["Metric Name"]]
        if values:
            lines += [f"    Section: {section}", *print_table(values)]
        for row in own:
            if row.get("Rule Description"):
                lines += print_rule(row)
    return "\n".join(lines) + "\n"


def print_table(values):
    head = ("Metric Name", "Metric Unit", "Metric Value")
    widths = [max(len(name), *(len(row[name]) for row in values)) for name in head]
    line = "    " + " ".join("-" * width for width in widths)
    cells = [head, *([row[name] for name in head] for row in values)]
    printed = [
        f"    {title:{widths[0]}} {unit:>{widths[1]}} {value:>{widths[2]}}"
        for title, unit, value in cells
    ]
    return [line, printed[0], line, *printed[1:], line, ""]


def print_rule(row):
    share = row.get("Estimated Speedup") or ""
    scope = "Local " if row.get("Estimated Speedup Type") == "local" else ""
    estimate = f"Est. {scope}Speedup: {share}%\n" if share else ""
    text = textwrap.fill(row["Rule Description"], 100, break_on_hyphens=False)
    return ["", *textwrap.indent(f"{row['Rule Type']:6}{estimate}{text}", "    ").splitlines(), ""]


def read_recorded(name):
    text = (REPORTS / name).read_text()
    rows = list(csv.DictReader(text.splitlines()))
    by_launch = {}
    for row in rows:
        by_launch.setdefault(row["ID"], []).append(row)
    return read_details_page(text, WANTED), list(by_launch.values())


PASTED = {
    "as printed": lambda text: text,
    "from a mail": lambda text: textwrap.indent(text, "> ", lambda _: True),
    "as a comment": lambda text: textwrap.indent(text, "// ", lambda _: True),
    "with colours and carriage returns": lambda text: text.replace("\n", "\x1b[0m\r\n"),
    "from a terminal of 80 columns": lambda text: "\n".join(
        part for line in text.splitlines() for part in (textwrap.wrap(
            line, 80, drop_whitespace=False, break_on_hyphens=False) or [""])
    ),
    "with columns closed up": lambda text: re.sub(r"(?<=\S) {2,}", " ", text),
    "with what the program printed": lambda text: (
        f"==PROF== Connected to process 4711 (/home/me/a.out)\nstep 3: loss 0.25\n{text}\ndone 7\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", PASTED.values(), ids=PASTED)
@pytest.mark.parametrize("name", ["strided_copy_details.csv", "four_launches_details.csv"])
def test_a_printed_page_says_what_the_same_page_in_csv_says(name, change):
    expected, launches = read_recorded(name)
    found = read_report_text(change("".join(map(print_page, launches))), WANTED)

    assert [one.kernel for one in found] == [one.kernel for one in expected]
    assert [one.shape for one in found] == [one.shape for one in expected]
    assert {one.cc for one in found} == {"9.0"}
    for own, other in zip(found, expected, strict=True):
        assert {**other.metrics, **own.metrics} == pytest.approx(own.metrics)
        assert [rule.removes for rule in own.rules] == [rule.removes for rule in other.rules]


@pytest.mark.parametrize(
    "header",
    [
        HEADER,
        HEADER.replace(" (40", "\n  (40"),
        HEADER.replace("Context 1, Stream 7, ", ""),
        HEADER.replace("Context 1, Stream 7, Device 0", "Device 0") + ", Invocations 12",
        "scale(float *, int), 2021-Mar-07 10:11:12, Context 1, Stream 7",
        "scale(float *,\n  int), 2021-Mar-07 10:11:12, Context 1, Stream 7",
    ],
)
def test_a_launch_begins_with_its_header_of_any_year(header):
    found = read_text(f"  {header}\n{SPEED}")

    assert found.kernel == "scale(float *, int)"
    assert SPEED_METRICS.items() <= found.metrics.items()
    assert found.metrics.get("grid_block_count", 40) == 40


def test_of_several_launches_the_mean_counts_for_each():
    summary = SPEED.replace("       91.25", " 85.0 95.5 91.25").replace("Metric Value", "Minimum")
    found = read_text(f"  {HEADER.replace('Context 1, Stream 7, ', '')}, Invocations 12\n{summary}")

    assert found.metrics["dram_utilization"] == pytest.approx(0.9125)
    assert found.launch_count == 12


def test_a_section_without_a_header_is_a_launch_without_a_name():
    assert read_text(SPEED).kernel == "unnamed kernel"


def test_a_section_that_comes_again_without_a_header_is_of_another_kernel():
    first, second = read_report_text(SPEED + SPEED.replace("91.25", "41.00"), WANTED)

    assert (first.kernel, second.kernel) == ("unnamed-kernel-1", "unnamed-kernel-2")
    assert first.metrics["dram_utilization"] == pytest.approx(0.9125)
    assert second.metrics["dram_utilization"] == pytest.approx(0.41)


COLUMNS = """\
# Three ways to add

## GPU Speed Of Light Throughput

| Metric Name | Metric Unit | one_sum | by_block | by_warp |
|---|---|---|---|---|
| DRAM Throughput | % | 3.10 | 41.20 | 88.75 |
| Duration | us | 5,120.00 | 402.50 | 190.25 |
| Elapsed Cycles | cycle | 1 | 2 |

The rest is not about ncu:

| 1 | 2 | 3 | 4 | 5 |

## Launch Statistics

| Metric Name | Metric Unit | one_sum | by_block | by_warp |
|---|---|---|---|---|
| Registers Per Thread | register/thread | 16 | 24 | 32 |
"""


def test_of_a_table_that_compares_kernels_each_column_is_a_launch():
    found = {one.kernel: one.metrics for one in read_report_text(COLUMNS, WANTED)}

    assert list(found) == ["one_sum", "by_block", "by_warp"]
    first = {"dram_utilization": 0.031, "profiled_us": 5120.0, "register_count": 16}
    assert found["one_sum"] == pytest.approx(first)
    assert found["by_warp"]["dram_utilization"] == pytest.approx(0.8875)
    assert found["by_warp"]["register_count"] == 32


def test_a_page_that_was_laid_out_as_markdown_is_no_comparison():
    page = f"{HEADER}\n## Section: GPU Speed Of Light Throughput\n"
    page += "| Metric Name | Metric Unit | Metric Value |\n|---|---|---|\n"
    page += "| DRAM Throughput | % | 9.5 |\n"

    assert read_text(page).kernel == "scale(float *, int)"


def test_of_one_kernel_a_section_may_come_again():
    found = read_text(f"  {HEADER}\n{SPEED}\n{SPEED.replace('91.25', '41.00')}")

    assert found.kernel == "scale(float *, int)"


@pytest.mark.parametrize(
    ("pipe", "metric"),
    [
        ("FP64", "fp64_utilization"),
        ("FMA", "fma_utilization"),
        ("ALU", "alu_utilization"),
        ("XU", "xu_utilization"),
    ],
)
def test_the_use_of_the_busiest_pipe_is_read_from_the_message_that_tells_it(pipe, metric):
    found = read_text(
        f"""  {HEADER}
{SPEED}
    Section: Compute Workload Analysis
    Executed Ipc Active                 inst/cycle         1.15

    OPT   {pipe} is the highest-utilized pipeline
          (85.2%) based on active cycles, taking into account the rates of its instructions.
"""
    )

    assert found.metrics[metric] == pytest.approx(0.852)


def test_a_saturated_fp64_pipe_of_a_printed_page_is_the_cause():
    page = f"""  {HEADER.replace("8.6", "7.5")}
{SPEED.replace("91.25", "12.50")}
    Compute (SM) Throughput           %        85.20
    Section: Compute Workload Analysis
    Executed Ipc Active                 inst/cycle         0.15

    OPT   FP64 is the highest-utilized pipeline (85.2%) based on active cycles.
"""
    (answer,) = recommend_from_report(page)["kernels"]

    assert answer["diagnoses"][0]["bottleneck"] == "fp64-on-slow-pipe"


def test_titles_of_old_releases_and_counters_by_name_are_read():
    found = read_text(
        f"""  {HEADER}
    Section: GPU Speed Of Light
    SOL DRAM                                     %          62.50
    SOL SM                                       %           7.25
    Section: Command line profiler metrics
    l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum    request   1,048,576
    l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum      sector  33,554,432
    l1text__t_bytes.sum                                          (!) n/a
    Table Name : Warp State (All Cycles)
    Stall Long Scoreboard            inst        10.24
    Selected                         inst            1
"""
    )
    expected = {
        "dram_utilization": 0.625,
        "sm_utilization": 0.0725,
        "load_request_count": 1048576,
        "load_sector_count": 33554432,
        "stall_long_scoreboard_cycles": 10.24,
        "stall_selected_cycles": 1,
    }

    assert expected.items() <= found.metrics.items()
    assert found.absent == ("l1text__t_bytes.sum",)


def test_a_throughput_in_bytes_is_no_share_of_the_peak():
    text = "    Section: Memory Workload Analysis\n    Memory Throughput  Gbyte/second  849.59\n"
    found = read_text(f"  {HEADER}\n{SPEED}{text}")

    assert "memory_utilization" not in found.metrics


def test_numbers_with_decimal_commas_are_numbers():
    swapped = SPEED.translate(str.maketrans({",": ".", ".": ","}))

    assert SPEED_METRICS.items() <= read_text(f"  {HEADER}\n{swapped}").metrics.items()


@pytest.mark.parametrize(
    ("says", "metric", "value"),
    [
        ("The access pattern for global loads may be poor. On average, only 4.5 of the 32 bytes "
         "transmitted per sector are used.", "sector_load_useful_bytes", 4.5),
        ("On average, each warp of this kernel spends 17.4 cycles being stalled waiting for the "
         "MIO (memory input/output) instruction queue to be not full.",
         "stall_mio_throttle_cycles", 17.4),
        ("On average, each warp spends 58.4 cycles being stalled waiting for a scoreboard "
         "dependency on a L1TEX (local, global) operation.", "stall_long_scoreboard_cycles", 58.4),
        ("a total of 2,616,000 excessive sectors (87% of the total 3,000,000 sectors).",
         "excess_sector_count", 2616000),
        ("This results in 1024 bank conflicts, which represent 66.67% of the overall 1536 "
         "wavefronts for shared loads.", "shared_load_conflict_count", 1024),
    ],
)  # fmt: skip
def test_numbers_that_only_a_message_holds_are_read(says, metric, value):
    message = textwrap.indent(textwrap.fill(f"OPT   {says}", 90), "    ")
    found = read_text(f"  {HEADER}\n{SPEED}\n{message}\n")

    assert found.metrics[metric] == pytest.approx(value)


def test_a_counter_comes_before_the_message_about_it():
    counter = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio  byte/sector  8.25"
    message = "    OPT   For global loads, only 9.0 of the 32 bytes are used."
    found = read_text(f"  {HEADER}\n{SPEED}    {counter}\n{message}\n")

    assert found.metrics["sector_load_useful_bytes"] == 8.25


def test_an_answer_to_a_page_describes_a_gpu_without_a_name():
    launch = "    Section: Launch Statistics\n    # SMs   SM   34\n"
    answer = recommend_from_report(f"  {HEADER}\n{SPEED}{launch}")["kernels"][0]

    assert answer["diagnoses"][0]["bottleneck"] == "dram-bandwidth-bound"
    assert answer["device"] == "sm_86"
    assert "the GPU is not named: the report says sm_86, 34 SMs" in answer["notes"]


def test_one_long_block_tells_how_many_sms_there_are():
    single = SPEED.replace("1,398,211.75", "   44,134.40")
    answer = recommend_from_report(f"  {HEADER.replace('(40,', '(1,')}\n{single}")["kernels"][0]

    assert (
        "the GPU is not named: the report says sm_86; one block kept 1 of about 32 SMs busy"
    ) in answer["notes"]


def test_counters_without_a_value_are_named_with_what_was_meant():
    rows = (
        "sm_warps_active.avg.pct_of_peak_sustained_active",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    )
    text = "".join(f"    {row}   (!) n/a\n" for row in rows)
    page = f"  {HEADER}\n    Section: Command line profiler metrics\n{text}"
    notes = recommend_from_report(page)["kernels"][0]["notes"]

    assert (
        f"counters without a value, so not measured: {rows[0]} (did you mean "
        f"sm__warps_active.avg.pct_of_peak_sustained_active?), {rows[1]}"
    ) in notes


@pytest.mark.parametrize(("gpu", "matches"), [("rtx-3090", True), ("h100-sxm", False)])
def test_a_gpu_that_the_report_contradicts_is_refused(gpu, matches):
    page = f"  {HEADER}\n{SPEED}"
    if matches:
        assert recommend_from_report(page, gpu=gpu)["kernels"][0]["device"] == gpu
        return
    with pytest.raises(BadValueError, match=r"a report of a GPU of compute capability 8\.6, not"):
        recommend_from_report(page, gpu=gpu)


def test_a_gpu_that_the_catalogue_lacks_is_described_by_its_report(tmp_path):
    raw = (REPORTS / "four_launches_raw.csv").read_text()
    page = tmp_path / "other.csv"
    page.write_text(raw.replace("NVIDIA H100 80GB HBM3", "NVIDIA H999"))
    answer = recommend_from_report(str(page))["kernels"][0]

    assert answer["device"] == "sm_90"
    assert answer["notes"][0].startswith(
        "NVIDIA H999 is not in the catalogue: the report says sm_90, 132 SMs, 1980 MHz, 3352 GB/s"
    )


@pytest.mark.parametrize("percent", ["1.2.3", ",,", "9" * 12])
def test_an_estimate_that_is_no_share_is_none(percent):
    found = read_text(f"  {HEADER}\n{SPEED}    OPT   Est. Speedup: {percent}%\n          Do so.\n")

    assert [(rule.says[-6:], rule.removes) for rule in found.rules] == [("Do so.", None)]


def test_a_grid_of_absurd_size_is_unknown():
    page = '"ID","Kernel Name","Grid Size","Section Name","Metric Name","Metric Value"\n'
    found = read_text(f'{page}"0","k","({"9" * 5000})","Occupancy","Achieved Occupancy","50"\n')

    assert found.metrics == {"occupancy": 0.5}


@pytest.mark.parametrize("text", ["", "loss 0.25\n", "Section: 3 of the manual\nsee below\n"])
def test_what_is_no_page_is_refused(text):
    with pytest.raises(KbError, match=r"no report of Nsight Compute|no complete launch"):
        read_report_text(text, WANTED)


def test_a_file_is_read_as_its_text_is(tmp_path):
    path = tmp_path / "page.txt"
    path.write_text(f"\ufeff  {HEADER}\n{SPEED}")

    assert holds_report(path.read_text())
    assert read_report(path, WANTED)[0].metrics == read_text(f"  {HEADER}\n{SPEED}").metrics


@pytest.mark.parametrize(("rows", "latency"), [(6, 24.0), (5, None)])
def test_a_table_of_waits_sums_up_to_the_latency(rows, latency):
    waits = ("Selected", "Wait", "Barrier", "Long Scoreboard", "Drain", "Membar")[:rows]
    values = (1, 2, 3, 12, 4, 2)
    table = "".join(
        f"    Stall {name:22} inst {value:8}\n" for name, value in zip(waits, values, strict=False)
    )
    text = f"{HEADER}\n    Section: Warp State (All Cycles)\n{table}"

    assert read_text(text).metrics.get("warp_latency_cycles") == latency


def test_a_stack_of_python_names_the_line_that_launched_it():
    stack = """\
    CPU Call Stack:
      #0 0x7fbd8a674642 in cudaLaunchKernel
         of /opt/env/lib/libcudart.so.13

    Python CPU Call Stack (most recent call last):
      #0 File "/home/me/run.py", line 31, in <module>

      #1 File "/opt/env/lib/python3.12/site-packages/torch/nn/modules/module.py", line 9, in call

"""
    launches = read_report_text(f"{HEADER}\n{stack}{SPEED}{HEADER}\n{SPEED}", WANTED)

    assert [one.called_by for one in launches] == ["/home/me/run.py:31 (<module>)", ""]
    assert launches[0].metrics == launches[1].metrics
    answer = recommend_from_report(f"{HEADER}\n{stack}{SPEED}")
    assert "called by /home/me/run.py:31 (<module>)" in answer["kernels"][0]["notes"]


def read_all(text):
    return [
        (one.kernel, {metric: round(value, 9) for metric, value in one.metrics.items()})
        for one in read_report_text(text, WANTED)
    ]


def test_of_a_table_without_units_each_column_of_values_is_a_launch():
    text = """## First try
| Metric | old | **new** | change |
|---|---|---|---|
| Duration | 40.5 μs | **8.1 µs** | −80% |
| L1/TEX throughput | 71% | 12.5% (of peak) | less |
| Registers / thread | 40 | 96 | |
"""
    assert read_all(text) == [
        ("old", {"profiled_us": 40.5, "l1_utilization": 0.71, "register_count": 40}),
        ("new", {"profiled_us": 8.1, "l1_utilization": 0.125, "register_count": 96}),
    ]


def test_a_table_with_a_kernel_in_each_row_is_read_by_its_head():
    text = """| kernel | time (ms) | Duration | DRAM % | occupancy |
| --- | ---: | ---: | ---: | --- |
| scatter | 1 | 1.5 ms | 61% | 33.0% |
| gather | 1 | 3 ms | 22% | 50% |
"""
    assert read_all(text) == [
        ("scatter", {"profiled_us": 1500, "dram_utilization": 0.61, "occupancy": 0.33}),
        ("gather", {"profiled_us": 3000, "dram_utilization": 0.22, "occupancy": 0.5}),
    ]


def test_a_list_of_raw_names_is_a_launch():
    text = """- kernel name: `void mix<4>(float *)`
- grid size: `(60, 4, 1)`
- `dram__throughput.avg.pct_of_peak_sustained_elapsed`: `14.5`
- `launch__registers_per_thread`: `198.0`
"""
    ((kernel, metrics),) = read_all(text)

    assert kernel == "void mix<4>(float *)"
    assert metrics["grid_block_count"] == 240
    assert metrics["dram_utilization"] == pytest.approx(0.145)


@pytest.mark.parametrize("cell", ["50-80%", "17.5 - 19.4%", ">80%", "0.62", "high", "+12%", "1.3x"])
def test_what_is_no_measured_share_is_not_read(cell):
    head = "| Metric | Value |\n|---|---|\n| Registers per thread | 32 |\n| Duration | 2 us |\n"
    read = read_all(f"{head}| Waves per SM | 3 |\n| DRAM Throughput | {cell} |\n")

    assert read == [("kernel", {"register_count": 32, "profiled_us": 2, "waves": 3})]


def test_a_table_of_goals_is_no_report():
    text = "| Metric | Target |\n|---|---|\n| DRAM Throughput | >75% |\n| Occupancy | 50-80% |\n"
    with pytest.raises(KbError, match="no report of Nsight Compute"):
        read_report_text(text, WANTED)


def test_columns_that_come_again_with_other_numbers_are_other_launches():
    rows = (
        "| Metric | a | b |\n|-|-|-|\n| DRAM Throughput | {0}% | 9% |\n| L2 Hit Rate | 5% | 6% |\n"
    )
    rows += "| Duration | {0} us | 7 us |\n\n"
    text = f"### small\n{rows.format(1)}### large\n{rows.format(2)}"

    assert [kernel for kernel, _ in read_all(text)] == ["a", "b", "a (large)", "b (large)"]


def test_lines_that_a_tool_numbered_are_read():
    numbered = "\n".join(
        f"{at}:{line}" for at, line in enumerate(f"{HEADER}\n{SPEED}".splitlines(), 5)
    )

    assert read_text(numbered).metrics == read_text(f"{HEADER}\n{SPEED}").metrics


def test_pages_in_comments_are_named_by_the_function_before_them():
    page = """//  {0}(const float2 *, int, float *)
//  Section: GPU Speed Of Light Throughput
//  ------------------------ --------- ---------
//  DRAM Throughput                  %     {1}.5
//  Duration                   usecond    30.00
//  ------------------------ --------- ---------
__global__ void {0}(const float2 *p, int n, float *r)
"""
    read = read_all(page.format("near", 16) + page.format("far", 34))

    assert [(kernel.partition("(")[0], one["dram_utilization"]) for kernel, one in read] == [
        ("near", 0.165),
        ("far", 0.345),
    ]


def test_a_table_that_was_copied_without_its_section_is_read():
    table = """// before
----------------------- ----------- ------------
Metric Name             Metric Unit Metric Value
----------------------- ----------- ------------
DRAM Throughput                   %        83.37
Duration                         us       {0}.90
----------------------- ----------- ------------
"""
    read = read_all(table.format(656) + table.format(600))

    assert [one["profiled_us"] for _, one in read] == [656.9, 600.9]


def test_a_message_of_what_warps_wait_for_is_read_alone():
    text = """What stuck out was:
    OPT   Est. Speedup: 35.04%
          On average, each warp of this workload spends 10.9 cycles being stalled waiting for
          sibling warps at a CTA barrier. This stall type represents about 48.2% of the total
          average of 22.6 cycles between issuing two instructions.
"""
    launch = read_text(text)

    assert launch.metrics == {"stall_barrier_cycles": 10.9, "warp_latency_cycles": 22.6}


def test_sections_under_one_bold_word_are_one_launch():
    section = "**{0}:**\n```\nSection: {1}\nMetric Name Metric Unit Metric Value\n{2}\n```\n"
    occupancy = "Achieved Occupancy       %      {0}.5"
    registers = "Registers Per Thread register/thread {0}"
    text = "".join(
        section.format(name, title, row.format(number))
        for title, row in (("Occupancy", occupancy), ("Launch Statistics", registers))
        for name, number in (("plain", 74), ("tiled", 57))
    )

    assert read_all(text) == [
        ("plain", {"occupancy": 0.745, "register_count": 74}),
        ("tiled", {"occupancy": 0.575, "register_count": 57}),
    ]


def test_a_launch_that_failed_is_said_with_the_error():
    page = "==ERROR== LaunchFailed\n  k(int) (0, 0, 0)x(0, 0, 0), Context 1, Stream 7\n"
    page += "    Section: Occupancy\n    Metric Name Metric Unit Metric Value\n"
    page += "    Theoretical Occupancy          %    (!) nan\n"
    with pytest.raises(KbError, match="ncu says: LaunchFailed"):
        read_report_text(page, WANTED)
