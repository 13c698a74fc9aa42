"""What real compilers print."""

import os
import subprocess
from pathlib import Path

import pytest

from kernelkb.measure.build.compilers import (
    find_first_error,
    list_undefined_symbols,
    parse_loops,
    parse_resources,
)
from kernelkb.measure.machine.host import find_cxx
from kernelkb.safety.paths import shipped_folder

FOLDER = Path(shipped_folder("kernels")) / "row_softmax"
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


def compile_with_report(tmp_path, source):
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
    return parse_loops(out.read_text(), source)


def test_the_naive_loops_that_stay_scalar_are_the_maximum_and_the_exponential(tmp_path):
    loops = compile_with_report(tmp_path, FOLDER / "naive.cpp")
    lines = (FOLDER / "naive.cpp").read_text().splitlines()
    scalar = [loop for loop in loops if not loop.vectorized]

    assert ["std::max" in lines[s.line] or "std::exp" in lines[s.line] for s in scalar] == [
        True
    ] * 2


def test_a_call_is_named_as_the_reason(tmp_path):
    loops = compile_with_report(tmp_path, FOLDER / "naive.cpp")

    assert any("expf" in loop.reason for loop in loops if not loop.vectorized)


def test_every_innermost_loop_of_the_vectorised_variant_is_in_lanes(tmp_path):
    loops = compile_with_report(tmp_path, FOLDER / "vectorized.cpp")

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

    assert [loop.line for loop in compile_with_report(tmp_path, source)] == [3]


def test_clang_remarks_are_understood(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text("void f(float* y) {\n  for (int i = 0; i < 8; ++i) y[i] = 0;\n}\n")
    text = "k.cpp:2:3: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"

    assert [(loop.line, loop.vectorized) for loop in parse_loops(text, source)] == [(2, False)]


GCC = "k.cpp: In function 'f':\nk.cpp:3:9: error: expected ';'\nk.cpp:9:1: error: x\n"
NVCC = '/tmp/a/k.cu(12): error: identifier "blockIdy" is undefined\n'


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (GCC, "k.cpp:3:9: expected ';'"),
        (NVCC, 'k.cu:12: identifier "blockIdy" is undefined'),
        ("k.cpp:1:10: fatal error: no.h: No such file\n", "k.cpp:1:10: no.h: No such file"),
        ("ld: k.o: undefined reference to `g()'\n", "ld: k.o: undefined reference to `g()'"),
        ("", "the compiler failed and printed nothing"),
    ],
)
def test_the_first_error_is_the_compilers_own(output, expected):
    assert find_first_error(output) == expected


def test_what_a_linker_misses_is_named_as_in_the_source():
    lines = (
        "k.cu:(.text+0x9b): undefined reference to `Grid::fit(int)'",
        "nvlink error   : Undefined reference to '_ZN4math4RealC1Edd' in 'k.o'",
        "ptxas fatal   : Unresolved extern function '_ZN4GridpLERKS_'",
    )

    named = list_undefined_symbols("\n".join(lines))

    assert named == ["Grid::fit(int)", "math::Real::Real", "_ZN4GridpLERKS_"]


def test_registers_spills_and_shared_memory_are_read_for_each_kernel():
    narrow, wide = parse_resources(PTXAS, ("narrow", "wide"))

    assert (narrow.kernel, narrow.registers, narrow.spill_store_bytes) == ("narrow", 32, 120)
    assert (narrow.stack_bytes, narrow.static_smem_bytes) == (72, 4096)
    assert (wide.kernel, wide.registers, wide.spill_store_bytes) == ("wide", 56, 0)


# What nvcc 13.0 and g++ 12 printed, word for word but for the folders.
NO_SEMICOLON = """\
/tmp/a/k.cu(1): error: static assertion failed with "N is too small"
  template <int N> struct A { static_assert(N > 3, "N is too small"); };
                              ^
          detected during instantiation of class "A<N> [with N=2]" at line 2

/tmp/a/k.cu(2): error: expected a ";"
  __attribute__((global)) void k(float* y) { int unused; A<2> a; y[0] = 1 }
                                                                          ^

2 errors detected in the compilation of "/tmp/a/k.cu".
"""
TOO_MUCH_SHARED = """\
ptxas error   : Entry function '_Z3bigPf' uses too much shared data (0x61a80 bytes, 0x38c00 max)
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3bigPf' for 'sm_90a'
"""
CANDIDATES = """\
In file included from /usr/include/c++/12/vector:64,
                 from k.cpp:1:
/usr/include/c++/12/bits/stl_vector.h:1276:7: note: candidate: 'void std::vector::push_back()'
 1276 |       push_back(const value_type& __x)
k.cpp:3:46: error: invalid conversion from 'const char*' to 'int' [-fpermissive]
k.cpp:3:60:   required from here
k.cpp:2:40: error: request for member 'nope' in 'x', which is of non-class type 'int'
"""
UNDEFINED = """\
/usr/bin/ld: /tmp/ccWHUPAD.o: in function `main':
k.cpp:(.text+0x5): undefined reference to `g'
collect2: error: ld returned 1 exit status
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (NO_SEMICOLON, 'k.cu:1: static assertion failed with "N is too small"'),
        (
            TOO_MUCH_SHARED,
            "ptxas error   : Entry function '_Z3bigPf' uses too much shared data"
            " (0x61a80 bytes, 0x38c00 max)",
        ),
        (CANDIDATES, "k.cpp:3:46: invalid conversion from 'const char*' to 'int' [-fpermissive]"),
        (UNDEFINED, "k.cpp:(.text+0x5): undefined reference to `g'"),
        (
            "ptxas fatal   : Unresolved extern function '_Z1gf'\n",
            "ptxas fatal   : Unresolved extern function '_Z1gf'",
        ),
        (
            "cc1plus: error: bad value 'nonsense' for '-march=' switch\n",
            "cc1plus: error: bad value 'nonsense' for '-march=' switch",
        ),
        ("Killed\n\n", "Killed"),
        ("k.cu(3): warning #177-D: unused\nk.cu(4): error: no\n", "k.cu:4: no"),
    ],
    ids=["nvcc", "ptxas", "notes first", "linker", "device link", "flag", "killed", "warning"],
)
def test_the_first_error_of_what_real_compilers_print(output, expected):
    assert find_first_error(output) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int f( { return 0; }\n", "k.cpp:1:"),
        ('#include "nowhere.h"\n', "k.cpp:1:10: nowhere.h: No such file or directory"),
        ("int f() { return g(); }\n", "k.cpp:1:18: 'g' was not declared in this scope"),
    ],
)
def test_the_first_error_of_the_compiler_of_this_machine(tmp_path, body, expected):
    source = tmp_path / "k.cpp"
    source.write_text(body)
    words = [find_cxx(), "-c", str(source), "-o", "/dev/null"]
    plain = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(words, capture_output=True, text=True, env=plain)

    assert find_first_error(done.stderr).startswith(expected)


SPILLING = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z10shared_onePf' for 'sm_90a'
ptxas info    : Function properties for _Z10shared_onePf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compile time = 2.218 ms
ptxas info    : Compiling entry function 'spill' for 'sm_90a'
ptxas info    : Function properties for spill
    360 bytes stack frame, 396 bytes spill stores, 396 bytes spill loads
ptxas info    : Used 64 registers, used 0 barriers, 360 bytes cumulative stack size
ptxas info    : Compile time = 36.897 ms
"""


def test_resources_of_a_log_of_cuda_13():
    shared, spill = parse_resources(SPILLING, ("shared_one", "spill"))

    assert (shared.kernel, shared.registers, shared.static_smem_bytes) == ("shared_one", 10, 1024)
    assert (spill.kernel, spill.registers, spill.static_smem_bytes) == ("spill", 64, 0)
    assert (spill.spill_store_bytes, spill.spill_load_bytes, spill.stack_bytes) == (396, 396, 360)


def test_an_unlisted_kernel_keeps_its_symbol():
    assert parse_resources(SPILLING, ())[0].kernel == "_Z10shared_onePf"


def test_a_log_without_kernels_has_no_resources():
    assert parse_resources("ptxas info    : 0 bytes gmem\n", ("k",)) == ()


LOOP = "void f(float* y) {\n  for (int i = 0; i < 8; ++i) y[i] = 0;\n}\n"


@pytest.mark.parametrize(
    ("report", "vectorized"),
    [
        (
            "k.cpp:2:3: remark: vectorized loop (vectorization width: 8, interleaved count: 4)"
            " [-Rpass=loop-vectorize]\n",
            True,
        ),
        ("k.cpp:2:3: optimized: loop vectorized using 32 byte vectors\n", True),
        (
            "k.cpp:2:3: missed: couldn't vectorize loop\nk.cpp:2:30: missed: not vectorized: "
            "statement clobbers memory: _1 = __builtin_expf (_2);\n",
            False,
        ),
        (
            "k.cpp:2:3: optimized: loop vectorized using 32 byte vectors\n"
            "k.cpp:2:3: missed: couldn't vectorize loop\n",
            True,
        ),
        ("k.cpp:2:3: optimized: loop vectorized using 8 byte vectors\n", False),
        (
            "k.cpp:2:3: optimized: loop vectorized using 8 byte vectors\n"
            "k.cpp:2:3: optimized: loop vectorized using 64 byte vectors\n",
            True,
        ),
    ],
    ids=["clang", "gcc", "gcc missed", "a scalar tail", "half a register", "a narrow tail"],
)
def test_both_compilers_remarks_mean_the_same(tmp_path, report, vectorized):
    source = tmp_path / "k.cpp"
    source.write_text(LOOP)
    (loop,) = parse_loops(report, source)

    assert (loop.line, loop.vectorized) == (2, vectorized)


def test_remarks_about_a_header_are_not_about_our_loops(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text(LOOP)

    assert parse_loops("/usr/include/x.h:2:3: optimized: loop vectorized\n", source) == ()


def test_a_loop_in_a_comment_is_no_loop(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text("// for (;;) {\n" + LOOP)

    assert [
        loop.line for loop in parse_loops("k.cpp:3:3: missed: couldn't vectorize loop\n", source)
    ] == [3]


def test_braces_in_strings_are_ignored(tmp_path):
    source = tmp_path / "k.cpp"
    source.write_text(
        "void g(const char*);\n"
        "void f(float* y, int n) {\n"
        '  for (int i = 0; i < n; ++i) g("{");\n'
        "  for (int i = 0; i < n; ++i) {\n"
        "    y[i] = 0;\n"
        "  }\n"
        "}\n"
    )
    report = "k.cpp:3:21: missed: couldn't vectorize loop\nk.cpp:4:21: optimized: loop vectorized\n"

    assert [(one.line, one.vectorized) for one in parse_loops(report, source)] == [
        (3, False), (4, True)
    ]  # fmt: skip


def test_the_compiler_agrees_that_both_variants_have_three_loops(tmp_path):
    counts = [
        len(compile_with_report(tmp_path, FOLDER / f"{n}.cpp")) for n in ("naive", "vectorized")
    ]

    assert counts == [3, 3]


def test_an_error_of_the_assembler_is_the_first_error():
    said = (
        "naive.cpp: Assembler messages:\nnaive.cpp:4: Error: file not found: x.bin\nninja: stopped."
    )

    assert find_first_error(said) == "naive.cpp:4: file not found: x.bin"
