"""A build with clocks: where its marks are, what they tell, and what they tell on a GPU."""

import re
import shutil
import subprocess

import pytest
from broken_kernels import make_broken_kernel

from kernelkb.actions.kernels.profile_program import clock_variant
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import find_zoo_folders, load_kernel
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.measure.profile.clocks import ClockedSource, Mark, add_clocks, describe_clocks

SOURCE = """\
#include <cuda_runtime.h>
#define WAIT_FOR_COPIES(n) asm volatile("cp.async.wait_group %0;" ::"n"(n))
// __global__ void in_a_comment() { __syncthreads(); }
__device__ __forceinline__ void wait_for_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ const char* text() { return "__global__ { __syncthreads();"; }
template <int kSteps>
__global__ void __launch_bounds__(128, 2) work(float* x, int n) {
  if (threadIdx.x >= n) return;
  if (n > 3) __syncthreads(); else wait_for_all();
  for (int step = 0; step < kSteps; ++step) WAIT_FOR_COPIES(0);
  x[threadIdx.x] = __syncthreads_or(n);
  asm volatile("mov.u32 %0, 1;" : "=r"(n));
}
"""
WAITS = {9: ["__syncthreads();", "wait_for_all();"], 10: ["WAIT_FOR_COPIES(0);"]}

PLANTED = """\
#include <cstdint>
__device__ void work_for(long long cycles) {
  for (const long long start = clock64(); clock64() - start < cycles;) {
  }
}
__global__ void planted(float* y) {
  if (threadIdx.x < 32) work_for(400000);
  __syncthreads();
  work_for(200000);
  if (threadIdx.x < 4) y[threadIdx.x] = 0;
}
extern "C" int row_softmax(const float*, float* y, std::int64_t, std::int64_t, void* stream) {
  planted<<<132, 128, 0, static_cast<cudaStream_t>(stream)>>>(y);
  return static_cast<int>(cudaGetLastError());
}
"""


def test_marks_stand_around_waits_and_lines_stay_as_they_are():
    clocked = add_clocks(SOURCE)
    own = clocked.text.split("#line 1\n", 1)[1]
    found = {}
    for mark in clocked.marks:
        if mark.kind == "before":
            found.setdefault(mark.line, []).append(mark.text)

    assert found == WAITS
    assert clocked.kernels == ("work",)
    assert [m for m in clocked.marks if m.kind in ("start", "end")] == [
        Mark(7, "start", "work"),
        Mark(13, "end", "work"),
    ]
    assert (
        re.sub(r"\{ KERNELKB_MARK\(\d+\); | KERNELKB_MARK\(\d+\); \}", "", own).replace(
            " KERNELKB_BLOCK(0, 0, 1); ", ""
        )
        == SOURCE
    )


def test_a_source_without_a_kernel_has_no_clocks():
    with pytest.raises(BadValueError, match="it has 0"):
        add_clocks("int main() { return 0; }")


@pytest.mark.parametrize("name", ["wgmma_gemm_shared_roles", "row_softmax"])
def test_a_build_with_clocks_compiles(name, tmp_path, project):
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("no nvcc")
    folder = find_zoo_folders().get(name) or load_kernel(name).folder
    source = next(
        path for path in sorted(folder.glob("*.cu")) if "__syncthreads" in path.read_text()
    )
    file = tmp_path / "clocked.cu"
    file.write_text(add_clocks(source.read_text()).text)
    flags = ["-std=c++17", "-arch=sm_90a", f"-I{source.parent}", "-cubin", "-o", "out.cubin"]
    done = subprocess.run([nvcc, *flags, file], capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stderr


CHOICE = """\
#include <cstdio>
#include <initializer_list>
struct Place { unsigned int x, y, z; } blockIdx{0, 0, 0}, gridDim{1, 1, 1};
#define __device__
#define __forceinline__ inline
int __clz(unsigned int value) { return value ? __builtin_clz(value) : 32; }
%s
int main() {
  for (unsigned int blocks : {1u, 511u, 512u, 1000u, 8192u, 300000u, 2000000u}) {
    unsigned int marked = 0, last = 0, gap = 0;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
      if (!is_marked()) continue;
      gap = blockIdx.x - last > gap ? blockIdx.x - last : gap;
      last = blockIdx.x;
      ++marked;
    }
    std::printf("%%u %%u %%u %%u\\n", blocks, marked, gap, blocks - 1 - last);
  }
}
"""


def test_a_few_hundred_blocks_of_a_large_launch_are_marked_from_first_to_last(tmp_path):
    text = add_clocks(SOURCE).text
    start, end = (
        text.index("__device__ __forceinline__ unsigned int block_in"),
        text.index("__device__ __forceinline__ bool is_first_active"),
    )
    constant = re.search(r"constexpr unsigned int kMarked = \d+;", text)[0]
    (tmp_path / "choice.cpp").write_text(CHOICE % f"{constant}\n{text[start:end]}")
    subprocess.run(["g++", "-O1", "choice.cpp", "-o", "choice"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "choice"], capture_output=True, text=True, check=True)
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]

    assert [row[1] for row in rows[:2]] == [1, 511]
    for blocks, marked, gap, rest in rows[2:]:
        assert 240 <= marked <= 520
        assert max(gap, rest) <= 3 * blocks / marked


def make_clocks(**changes):
    kernel = {
        "kernel": 0,
        "launches": 1,
        "blocks": 4,
        "threads": 64,
        "begin_ns": [0, 1000, 2000, 20_000],
        "end_ns": [20_000, 20_000, 20_000, 40_000],
        "sms": [0, 1, 2, 0],
        "cycles": [
            (0, 0, 2, 600, 4),
            (0, 2, 3, 0, 4),
            (0, 3, 1, 400, 4),
            (1, 0, 2, 100, 4),
            (1, 2, 3, 500, 4),
            (1, 3, 1, 400, 4),
        ],
    }
    return {"plain_us": 40.0, "clocked_us": 44.0, "kernels": [{**kernel, **changes}]}


MARKS = (
    Mark(7, "start", "work"),
    Mark(13, "end", "work"),
    Mark(9, "before", "__syncthreads();"),
    Mark(9, "after", "__syncthreads();"),
)


def test_the_time_is_told_by_lines_and_by_roles():
    lines = list(describe_clocks(ClockedSource("", MARKS, ("work",)), make_clocks()))

    assert lines == [
        "with clocks 44 us a call, 1.10 times the plain 40 us",
        "work: 4 blocks of 2 warps, 1 launch",
        "40 us on 3 SMs: half have begun after 1 us, half are done 20 us before the end,"
        " 33% of the SMs' time is idle there; a block takes 20 us, 18 to 20",
        "share of the warps' time, all, then warp 0, warp 1",
        " 40%  40%  40%  from line 9 to the end",
        " 35%  60%  10%  from the beginning to line 9",
        " 25%   0%  50%  waits in line 9: __syncthreads();",
    ]


def test_where_some_blocks_are_marked_it_is_said():
    lines = list(describe_clocks(ClockedSource("", MARKS, ("work",)), make_clocks(blocks=8192)))

    assert lines[1] == "work: 8,192 blocks of 2 warps, 1 launch; clocks in 4 of them"


def test_clocks_that_weigh_are_told():
    result = {**make_clocks(), "clocked_us": 90.0}

    assert "they weigh" in next(describe_clocks(ClockedSource("", MARKS, ("work",)), result))


def test_several_launches_have_no_timeline():
    result = make_clocks(launches=2)
    lines = list(describe_clocks(ClockedSource("", MARKS, ("work",)), result))

    assert not any("SMs" in line for line in lines)


def test_clocks_are_for_a_gpu(project):
    with pytest.raises(BadValueError, match="on a GPU"):
        clock_variant("row_softmax", "naive", "cpu")


@pytest.mark.gpu
def test_planted_times_are_told_by_line_and_role(project):
    if validate_machine("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    folder = make_broken_kernel(project, "right")
    (folder / "naive.cu").write_text(PLANTED)
    found = clock_variant("broken", "naive", "cuda")
    text = "\n".join(found.evidence)
    rows = {
        words.strip(): [int(share) / 100 for share in re.findall(r"(\d+)%", shares)]
        for shares, words in re.findall(r"^((?: *\d+%)+)  (.+)$", text, re.MULTILINE)
    }

    assert "planted: 132 blocks of 4 warps, 1 launch" in text
    assert "all, then warp 0, warps 1 to 3" in text
    assert rows["waits in line 8: __syncthreads();"][1:] == pytest.approx([0, 2 / 3], abs=0.05)
    assert rows["from the beginning to line 8"][1:] == pytest.approx([2 / 3, 0], abs=0.05)
    assert rows["from line 8 to the end"] == pytest.approx([1 / 3] * 3, abs=0.05)


@pytest.mark.gpu
def test_a_kernel_of_the_package_is_timed_inside(project):
    if validate_machine("cuda").machine is None or shutil.which("nvcc") is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    found = clock_variant("row_softmax", "warp", "cuda", "large")

    assert found.tool == "clocks"
    assert sum("waits in line" in line for line in found.evidence) >= 1
