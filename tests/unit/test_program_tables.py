"""Tables that sum up a program: of ``nsys stats`` and of torch.profiler."""

import textwrap

import pytest

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.cli import main
from kernelkb.profiles.program_tables import TableRow, find_program_tables
from kernelkb.profiles.report import holds_report

NSYS = """\
Processing [run.sqlite] with [reports/osrt_sum.py]...

 ** OS Runtime Summary (osrt_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Name
 --------  ---------------  ---------  --------  ------
     90.0    9,000,000,000        100  9.0e+07   poll

 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)   Name
 --------  ---------------  ---------  ---------  ----------------------
     60.0    1,200,000,000    300,000    4,000.0  cudaLaunchKernel
     25.0      500,000,000      1,000  500,000.0  cudaStreamSynchronize
     15.0      300,000,000     60,000    5,000.0  cudaMemcpyAsync

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Name
 --------  ---------------  ---------  --------  ---------------------------------------
     75.0      600,000,000    200,000   3,000.0  void scale<float>(float *, int, float)
     25.0      200,000,000    100,000   2,000.0  sum_rows(const float *, float *)

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count   Avg (ns)  Operation
 --------  ---------------  ------  --------  ----------------------------
    100.0       40,000,000  60,000     666.7  [CUDA memcpy Host-to-Device]
"""
KERNELS = [
    TableRow("void scale<float>(float *, int, float)", 600_000, 200_000, 0.75),
    TableRow("sum_rows(const float *, float *)", 200_000, 100_000, 0.25),
]
CALLS = [
    TableRow("cudaLaunchKernel", 1_200_000, 300_000, 0.6),
    TableRow("cudaStreamSynchronize", 500_000, 1_000, 0.25),
    TableRow("cudaMemcpyAsync", 300_000, 60_000, 0.15),
]
NSYS_2020 = """\
 Time(%)  Total Time (ns)  Num Calls   Average   Name
 -------  ---------------  ---------  ---------  ---------------------
    70.0       1400000000       2000   700000.0  cudaDeviceSynchronize
    30.0        600000000     150000     4000.0  cudaLaunchKernel
"""
NSYS_CSV = """\
Time (%),Total Time (ns),Instances,Avg (ns),Name
75.0,600000000,200000,3000.0,"void scale<float>(float *, int, float)"
25.0,200000000,100000,2000.0,"sum_rows(const float *, float *)"
"""
TORCH = """\
-----------------  ------------  ------------  ------------  ------------  ------------
             Name    Self CPU %      Self CPU     Self CUDA   Self CUDA %    # of Calls
-----------------  ------------  ------------  ------------  ------------  ------------
      aten::addmm         5.00%       2.000ms       0.000us         0.00%         1,000
  sgemm_128x64_tn         0.00%       0.000us       3.000ms        75.00%         1,000
 cudaLaunchKernel        40.00%      16.000ms       0.000us         0.00%         2,000
elementwise_ker..         0.00%       0.000us       1.000ms        25.00%         1,000
-----------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 40.000ms
Self CUDA time total: 4.000ms
"""
TORCH_2020 = """\
---------------  ----------------  ---------------  -------------  -----------------
Name             Self CPU total %  CUDA total %     CUDA total     Number of Calls
---------------  ----------------  ---------------  -------------  -----------------
aten::conv2d     0.17%             99.00%           791.184ms      100
"""


def recommend(text):
    (answer,) = recommend_from_report(text)["kernels"]
    return answer


@pytest.mark.parametrize("prefix", ["", "# ", "> "])
def test_the_tables_of_nsys_are_told_apart(prefix):
    found = find_program_tables(textwrap.indent(NSYS, prefix))

    assert found.kernels == KERNELS
    assert found.calls == CALLS
    assert found.copies == [TableRow("[CUDA memcpy Host-to-Device]", 40_000, 60_000, 1)]


def test_a_table_in_csv_is_the_same_table():
    assert find_program_tables(NSYS_CSV).kernels == KERNELS


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (NSYS_2020, TableRow("cudaLaunchKernel", 600_000, 150_000, 0.3)),
        (NSYS.replace("(ns)", "(us)"), TableRow("cudaLaunchKernel", 1.2e9, 300_000, 0.6)),
    ],
)
def test_columns_of_other_releases_and_units_are_read(text, row):
    assert row in find_program_tables(text).calls


def test_operators_of_torch_without_time_of_their_own_on_the_gpu_are_left_out():
    found = find_program_tables(TORCH)

    assert found.kernels == [
        TableRow("sgemm_128x64_tn", 3000, 1000, 0.75),
        TableRow("elementwise_ker..", 1000, 1000, 0.25),
    ]
    assert (found.cpu_us, found.gpu_us) == (40_000, 4_000)
    assert find_program_tables(TORCH_2020).kernels == [TableRow("aten::conv2d", 791_184, 100, 0.99)]


def test_a_host_that_launches_longer_than_it_waits_is_told_so():
    answer = recommend(NSYS)

    assert answer["kernel"] == "program"
    assert any("regex:<kernel>" in row["command"] for row in answer["measure_next"])
    assert answer["diagnoses"][0]["bottleneck"] == "launch-overhead-bound"
    assert answer["notes"][:3] == [
        "GPU time: void scale<float>(float *, int, float) 75% (200,000 of 3.00 us), "
        "sum_rows(const float *, float *) 25% (100,000 of 2.00 us)",
        "copies: [CUDA memcpy Host-to-Device] 100% (60,000 of 0.67 us)",
        "CUDA calls: cudaLaunchKernel 60% (300,000 of 4.00 us), cudaStreamSynchronize 25% (1,000 "
        "of 500.00 us), cudaMemcpyAsync 15% (60,000 of 5.00 us)",
    ]


FEW = """\
 Time (%)  Total Time (ns)  Num Calls  Avg (ns)   Name
 --------  ---------------  ---------  ---------  ----------------
     99.0       99,000,000          3  3.3e+07    cuMemAllocAsync
      1.0        1,000,000          1  1,000,000  cuLaunchKernelEx
"""


@pytest.mark.parametrize("text", [NSYS_2020, FEW, FEW.replace("          1", "      1,000")])
def test_a_host_that_waits_or_does_other_things_is_not_limited_by_launches(text):
    matches = [d for d in recommend(text)["diagnoses"] if d["verdict"] == "matches"]

    assert not matches


def test_a_gpu_that_idles_nine_tenths_is_the_frameworks_fault():
    answer = recommend(TORCH)

    assert answer["diagnoses"][0]["bottleneck"] == "framework-overhead"
    assert "host 40.00 ms, with the profiler's own time; GPU 4.00 ms" in answer["notes"]


@pytest.mark.parametrize("number", ["1.2.3", "9" * 400, "1.5", ",", "x"])
def test_what_is_no_number_leaves_its_row_out(number):
    nsys = NSYS_2020.replace("     150000", f"     {number}")
    torch = TORCH.replace("         1,000\n  sgemm", f"         {number}\n  sgemm")
    torch = torch.replace("40.000ms", f"{number}ms").replace("       3.000ms", f"  {number}ms")

    assert len(find_program_tables(nsys).calls) <= 2
    assert len(find_program_tables(torch).kernels) <= 2


@pytest.mark.parametrize(
    "text",
    ["", "Self CUDA time total: 4.000ms\n", "Time (%)\n", "Name  CPU\nx  y\n", "Self CPU\n1 2 3\n"],
)
def test_what_holds_no_table_is_none(text):
    assert find_program_tables(text) is None


def test_a_table_given_as_a_log_is_answered(tmp_path, capsys):
    log = tmp_path / "stats.txt"
    log.write_text(NSYS)

    assert holds_report(NSYS)
    assert main(["diagnose", str(log)]) == 0
    assert "\nlaunch-overhead-bound, confidence" in capsys.readouterr().out


NESTED = """\
------------  ---------------  -----------  ---------  ------------  ----------  ---------------
Name          Self CPU total   CPU total %  CPU total  CUDA total %  CUDA total  Number of Calls
------------  ---------------  -----------  ---------  ------------  ----------  ---------------
aten::linear  1.000ms          99.00%       90.000ms   48.00%        400.000ms   100
aten::addmm   80.000ms         97.00%       89.000ms   48.00%        400.000ms   100
aten::relu    5.000ms          6.00%        6.000ms    4.00%         100.000ms   100
------------  ---------------  -----------  ---------  ------------  ----------  ---------------
"""


def test_a_table_without_own_gpu_time_counts_that_of_a_callee_once():
    tables = find_program_tables(NESTED)

    assert tables is not None
    assert tables.kernels == [
        TableRow("aten::addmm", 400_000, 100, 0.8),
        TableRow("aten::relu", 100_000, 100, 0.2),
    ]
