"""What real compilers print."""

import subprocess
from pathlib import Path

import pytest

from engine.loading.paths import shipped
from engine.measure.compiler_output import first_error, loops_of, resources_of
from engine.measure.environment import find_cxx

FOLDER = Path(shipped("kernels")) / "row_softmax"
PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z6narrowPf' for 'sm_90a'
ptxas info    : Function properties for _Z6narrowPf
    72 bytes stack frame, 120 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 72 bytes cumulative stack size, 4096 bytes smem
ptxas info    : Compiling entry function '_Z4widePf' for 'sm_90a'
ptxas info    : Function properties for _Z4widePf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 56 registers, used 0 barriers
"""


def report(tmp_path, source):
    out = tmp_path / "report.txt"
    flags = [
        "-O3",
        "-march=native",
        "-fopenmp",
        "-std=c++17",
        "-fPIC",
        "-shared",
        "-o",
        "/dev/null",
    ]
    info = f"-fopt-info-vec-optimized-missed={out}"
    subprocess.run([find_cxx(), *flags, info, str(source)], check=True, capture_output=True)
    return loops_of(out.read_text(), source)


def test_the_naive_loops_that_stay_scalar_are_the_maximum_and_the_exponential(tmp_path):
    loops = report(tmp_path, FOLDER / "naive.cpp")
    lines = (FOLDER / "naive.cpp").read_text().splitlines()
    scalar = [loop for loop in loops if not loop.vectorized]

    assert ["std::max" in lines[s.line] or "std::exp" in lines[s.line] for s in scalar] == [
        True
    ] * 2


def test_a_call_is_named_as_the_reason(tmp_path):
    loops = report(tmp_path, FOLDER / "naive.cpp")

    assert any("expf" in loop.reason for loop in loops if not loop.vectorized)


def test_every_innermost_loop_of_the_vectorised_variant_is_in_lanes(tmp_path):
    loops = report(tmp_path, FOLDER / "vectorized.cpp")

    assert [loop.vectorized for loop in loops] == [True] * 3


def test_a_loop_over_loops_is_not_counted(tmp_path):
    source = tmp_path / "nest.cpp"
    source.write_text(
        "void f(float* y, const float* x, int n) {\n"
        "  for (int i = 0; i < n; ++i) {\n"
        "    for (int j = 0; j < n; ++j) y[i * n + j] = x[j] * 2.0f;\n"
        "  }\n"
        "}\n"
    )

    assert [loop.line for loop in report(tmp_path, source)] == [3]


def test_clang_remarks_are_understood(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text("void f(float* y) {\n  for (int i = 0; i < 8; ++i) y[i] = 0;\n}\n")
    text = "k.cpp:2:3: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"

    assert [(loop.line, loop.vectorized) for loop in loops_of(text, source)] == [(2, False)]


GCC = "k.cpp: In function 'f':\nk.cpp:3:9: error: expected ';'\nk.cpp:9:1: error: x\n"
NVCC = '/tmp/a/k.cu(12): error: identifier "blockIdy" is undefined\n'


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (GCC, "k.cpp:3:9: expected ';'"),
        (NVCC, 'k.cu:12: identifier "blockIdy" is undefined'),
        ("k.cpp:1:10: fatal error: no.h: No such file\n", "k.cpp:1:10: no.h: No such file"),
        ("ld: k.o: undefined reference to `g()'\n", "ld: k.o: undefined reference to `g()'"),
        ("", "the compiler failed without a word"),
    ],
)
def test_the_first_error_is_the_compilers_own(output, expected):
    assert first_error(output) == expected


def test_registers_spills_and_shared_memory_are_read_for_each_kernel():
    narrow, wide = resources_of(PTXAS, ("narrow", "wide"))

    assert (narrow.kernel, narrow.registers, narrow.spill_store_bytes) == ("narrow", 32, 120)
    assert (narrow.stack_bytes, narrow.static_smem_bytes) == (72, 4096)
    assert (wide.kernel, wide.registers, wide.spill_store_bytes) == ("wide", 56, 0)
