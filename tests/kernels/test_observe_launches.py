"""kb init FILE --from a C++ program: its launches are recorded between it and the driver.

Only the driver is made up: libcuda.so.1 is compiled here. Program, preloading and the library that
is preloaded are real, and so is the way to the driver: dlsym, then cuGetProcAddress.
"""

import os
import re
import shutil
import struct
import subprocess

import pytest

from kernelkb.actions.init.init_project import init_launches, init_project
from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.profile import observe
from kernelkb.measure.profile.observe import record_launches
from kernelkb.scaffold.cpp.observed_launches import LaunchArgument, SeenLaunch

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

DRIVER = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>
static std::map<std::uintptr_t, std::size_t> memory;
static std::vector<std::size_t> sizes;
extern "C" {
int cuMemAlloc_v2(std::uintptr_t* at, std::size_t length) {
  *at = reinterpret_cast<std::uintptr_t>(std::malloc(length));
  memory[*at] = length;
  return 0;
}
int cuMemGetAddressRange_v2(std::uintptr_t* base, std::size_t* length, std::uintptr_t at) {
  auto found = memory.upper_bound(at);
  if (found == memory.begin()) return 500;
  --found;
  if (at >= found->first + found->second) return 500;
  *base = found->first, *length = found->second;
  return 0;
}
int cuMemcpyDtoH_v2(void* to, std::uintptr_t from, std::size_t length) {
  std::memcpy(to, reinterpret_cast<void*>(from), length);
  return 0;
}
int cuStreamQuery(void*) {
  static int count = 0;
  return ++count % 2 ? 600 : 0;
}
int cuStreamIsCapturing(void*, int* status) {
  *status = std::getenv("FAKE_GRAPH") ? 1 : 0;
  return 0;
}
int cuLibraryGetKernel(void** kernel, void*, const char* name) {
  *kernel = const_cast<char*>(strdup(name));
  return 0;
}
int cuKernelGetParamInfo(void* kernel, std::size_t i, std::size_t* place, std::size_t* size) {
  const char* told = std::getenv("FAKE_SIZES");
  std::size_t at = 0;
  for (const char* each = told ? told : ""; *each; ++each, --i) {
    *size = *each == '3' ? 32 : *each - '0';
    at += (*size - at % *size) % *size;
    *place = at;
    if (i == 0) return 0;
    at += *size;
  }
  return 1;
}
int cuLaunchKernel(void* kernel, unsigned gx, unsigned, unsigned, unsigned bx, unsigned, unsigned,
                   unsigned, void*, void** arguments, void**) {
  const char* written = std::getenv("FAKE_WRITTEN");  // floats, of the second array
  float* output = arguments ? *static_cast<float**>(arguments[1]) : nullptr;
  const char* step = std::getenv("FAKE_STEP");
  for (int i = 0; written && output && i < std::atoi(written); i += step ? std::atoi(step) : 1)
    output[i] = 7;
  std::printf("launched %s %u %u\n", static_cast<char*>(kernel), gx, bx);
  return 0;
}
struct Config { unsigned grid[3], block[3], shared; };
int cuLaunchKernelEx(const Config* c, void* kernel, void**, void**) {
  std::printf("launched %s %u %u\n", static_cast<char*>(kernel), c->grid[0], c->block[0]);
  return 0;
}
int cuGetProcAddress_v2(const char* symbol, void** function, int, std::uint64_t, void*) {
#define GIVE(SYMBOL, NAME) \
  if (!std::strcmp(symbol, SYMBOL)) return *function = reinterpret_cast<void*>(&NAME), 0;
  GIVE("cuMemAlloc", cuMemAlloc_v2)
  GIVE("cuLibraryGetKernel", cuLibraryGetKernel)
  GIVE("cuLaunchKernel", cuLaunchKernel)
  GIVE("cuLaunchKernelEx", cuLaunchKernelEx)
  return 500;
}
}
"""
PROGRAM = r"""
#include <dlfcn.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
using Find = int (*)(const char*, void**, int, std::uint64_t, void*);
using Get = int (*)(void**, void*, const char*);
using Allocate = int (*)(void**, std::size_t);
using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       void*, void**, void**);
struct Config {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned count;
};
struct Params { float *x, *y; int n; float a; };
using LaunchEx = int (*)(const Config*, void*, void**, void**);
int main(int count, char**) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto find = reinterpret_cast<Find>(dlsym(driver, "cuGetProcAddress_v2"));
  void *launch, *launch_ex, *get, *allocate, *kernel, *other;
  find("cuLaunchKernel", &launch, 12040, 0, nullptr);
  find("cuLaunchKernelEx", &launch_ex, 12040, 0, nullptr);
  find("cuLibraryGetKernel", &get, 12040, 0, nullptr);
  find("cuMemAlloc", &allocate, 12040, 0, nullptr);
  reinterpret_cast<Get>(get)(&kernel, nullptr, NAME);
  reinterpret_cast<Get>(get)(&other, nullptr, "_Z5otherv");
  auto make = [&](std::size_t bytes) {
    void* made;
    reinterpret_cast<Allocate>(allocate)(&made, bytes);
    return made;
  };
  reinterpret_cast<Launch>(launch)(other, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  for (int n : {3000, 1000, 1000}) {
    void *x = make(4 * n), *y = make(4 * n);
    float a = 0.5f;
#ifdef NULL_ABOVE
    if (n > NULL_ABOVE) y = nullptr;
#endif
#ifdef VALUE
    for (int i = 0; i < n; ++i) static_cast<int*>(x)[i] = VALUE;
#endif
#ifdef ROWS
    int rows = n / ROWS;
    std::memcpy(&a, &rows, 4);
    n = ROWS;
#endif
#ifdef STRUCTURE
    Params params{static_cast<float*>(x), static_cast<float*>(y), n, a};
    void* arguments[] = {&params};
    Config config{{unsigned(n + 255) / 256, 1, 1}, {256, 1, 1}, 0, nullptr, nullptr, 0};
    reinterpret_cast<LaunchEx>(launch_ex)(&config, kernel, arguments, nullptr);
#else
    void* arguments[] = {&x, &y, &n, &a};
    reinterpret_cast<Launch>(launch)(kernel, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr,
                                     arguments, nullptr);
#endif
  }
#ifdef MANY
  for (int n = 1; n <= MANY; ++n) {
    void *x = make(4), *y = make(4);
    float a = 0.5f;
    void* arguments[] = {&x, &y, &n, &a};
    reinterpret_cast<Launch>(launch)(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
  }
#endif
#ifdef USES_ATOI
  return std::atoi("41") != 42;
#endif
  return count > 1;
}
"""
KERNEL = """
template <typename T>
__global__ void twice(const T* x, T* y, int n, float a) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[place(i)] = a * x[place(i)];
}
"""
LAUNCHER = """
void run(const float* x, float* y, int n, float a) {
  twice<float><<<(n + 255) / 256, 256>>>(x, y, n, a);
}
"""


@pytest.fixture
def make_program(project, monkeypatch):
    """A function that compiles the program, for a kernel's mangled name and argument sizes."""

    def compile_both(name, sizes, *flags):
        (project / "driver.cpp").write_text(DRIVER)
        (project / "app.cpp").write_text(PROGRAM)
        shared = ["g++", "-shared", "-fPIC", "driver.cpp", "-o", "libcuda.so.1"]
        subprocess.run(shared, cwd=project, check=True)
        words = [f'-DNAME="{name}"', *flags]
        subprocess.run(["g++", "app.cpp", "-o", "app", "-ldl", *words], cwd=project, check=True)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(project))
        monkeypatch.setenv("FAKE_SIZES", sizes)
        return "./app"

    return compile_both


TWICE = "_Z5twiceIfEvPKT_PS0_if"


def test_launches_are_recorded_with_what_their_arguments_point_to(project, make_program, tmp_path):
    command = make_program(TWICE, "8844")
    launches = record_launches(command, "twice", tmp_path)
    log = (tmp_path / "program.log").read_text()

    assert [(each.grid, each.block, each.calls) for each in launches] == [
        ((4, 1, 1), (256, 1, 1), 2),
        ((12, 1, 1), (256, 1, 1), 1),
    ]
    assert [dict(each.memory) for each in launches[0].arguments] == [
        {0: (4000, 0)},
        {0: (4000, 0)},
        {},
        {},
    ]
    assert launches[0].arguments[2].value == (1000).to_bytes(4, "little")
    assert log.count(f"launched {TWICE}") == 3  # the driver was reached each time
    assert os.environ.get("LD_PRELOAD") is None


def test_a_draft_of_a_kernel_takes_sizes_numbers_types_and_launch_from_a_run(project, make_program):
    (project / "k.cu").write_text(KERNEL)
    result = init_launches("k.cu", make_program(TWICE, "8844"), answers=["reference"])
    folder = project / "kernels/k"
    kernel = load_kernel(str(folder)).kernel

    assert result.to_fill == ()
    assert kernel.workloads == {"observed-1": {"n": 1000}}
    assert [(a.name, a.shape, a.dtype) for a in (*kernel.inputs, *kernel.outputs)] == [
        ("x", ("n",), "float32"),
        ("y", ("n",), "float32"),
    ]
    assert (
        "twice<float><<<dim3(4, 1, 1), dim3(256, 1, 1), 0, " in (folder / "launch.cu").read_text()
    )
    assert "const float a = 0.5f;  // observed" in (folder / "launch.cu").read_text()
    assert result.warnings == (
        "1 of 3 launches, with other types, grids or blocks, or null pointers, are left out",
        "y: [n] is the memory behind it, 1000 elements; where the kernel writes fewer, say so with "
        "--set 'y=[...]'",
    )


def test_a_launcher_has_a_workload_for_each_size_that_was_seen(project, make_program):
    (project / "k.cu").write_text(KERNEL + LAUNCHER)
    result = init_launches("k.cu", make_program(TWICE, "8844"))
    again = init_project("k.cu", answers=["reference"])
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert [line.partition("=")[0] for line in result.to_fill] == ["reference"]
    assert again.to_fill == ()
    assert kernel.workloads == {"observed-1": {"n": 1000}, "observed-2": {"n": 3000}}


def test_the_fields_of_a_structure_are_read_from_its_bytes(project, make_program):
    (project / "k.cu").write_text(
        "struct Params { float *x, *y; int n; float a; };\n"
        "__global__ void twice(Params p) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        " if (i < p.n) p.y[i] = p.a * p.x[i]; }\n"
    )
    command = make_program("_Z5twice6Params", "3", "-DSTRUCTURE")
    result = init_launches("k.cu", command, answers=["reference"])
    launcher = (project / "kernels/k/launch.cu").read_text()

    assert result.to_fill == ()
    assert load_kernel(str(project / "kernels/k")).kernel.workloads == {"observed-1": {"n": 1000}}
    assert re.search(r"const float a = 0\.5f;  // observed\n  Params kb_p\{\};", launcher)


def test_a_shape_of_the_text_that_has_too_little_memory_is_told(project, make_program):
    (project / "k.cu").write_text(
        "__global__ void twice(const float* x, double* y, int n, float a) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i]; }\n"
    )
    result = init_launches("k.cu", make_program("_Z5twicePKfPdif", "8844"))

    assert "y: [n] is read from the text, but it has 500 elements in the run" in result.warnings
    assert "y" in [line.partition("=")[0] for line in result.to_fill]


def test_memory_that_a_shape_of_the_text_does_not_fill_is_asked_for(project, make_program):
    """How many elements there are does not say in which order the dimensions are."""
    (project / "k.cu").write_text(
        "__global__ void pick(const float* x, float* y, int k, int d) {"
        " int i = threadIdx.x; if (i < k) y[i] = x[i]; }\n"
    )
    command = make_program("_Z4pickPKfPfii", "8844", "-DROWS=4")
    result = init_launches("k.cu", command)
    asked = {line.partition("=")[0]: line for line in result.to_fill}

    assert asked["y"].startswith("y=[k, d]  # or [d, k]; ")
    assert {"x", "y", "reference"} <= asked.keys()
    assert result.next == result.say  # it was run already
    assert "# Observed: y=?[k, d]|[d, k]" in (project / "kernels/k/kernel.yaml").read_text()

    said = init_project("k.cu", answers=["x=[k, d]", "y", "reference=mine"])

    assert said.to_fill == ()
    assert load_kernel(str(project / "kernels/k")).kernel.outputs[0].shape == ("k", "d")


def test_an_order_of_the_text_that_fills_the_memory_comes_alone(project, make_program):
    (project / "k.cu").write_text(
        "#define AT(width, x, y) ((y) * (width) + (x))\n"
        "__global__ void heat(const float* x, float* y, int wide, int high) {\n"
        "  int at, i = threadIdx.x, j = blockIdx.x;\n"
        "  for (; j >= 1 && j < high - 1; j += gridDim.x)\n"
        "    for (; i >= 1 && i < wide - 1; i += blockDim.x) {\n"
        "      at = AT(wide, i, j);\n      y[at] = x[at];\n    }\n}\n"
    )
    text = init_project("k.cu").to_fill
    run = init_launches("k.cu", make_program("_Z4heatPKfPfii", "8844", "-DROWS=4")).to_fill
    asked = {line.partition("=")[0]: line for line in run}
    drafted = (project / "kernels/k/kernel.yaml").read_text()

    assert any(line.startswith("y=[high, wide]  # a guess") for line in text)
    assert [*asked] == ["y.role", "reference"]
    assert asked["y.role"].startswith("y.role=both")
    assert re.findall(r"name: (\w), shape: (\[.*?\])", drafted) == [
        ("x", "[high, wide]"),
        ("y", "[high, wide]"),
    ]


def test_a_driver_that_tells_no_sizes_of_arguments_leaves_them_to_be_said(project, make_program):
    (project / "k.cu").write_text(KERNEL)
    result = init_launches("k.cu", make_program(TWICE, ""))

    assert any("the driver does not tell sizes" in each for each in result.warnings)
    assert [line.partition("=")[0] for line in result.to_fill] == [
        *("x", "y", "n", "a", "reference")
    ]


def test_a_program_that_fails_or_launches_another_kernel_is_refused(project, make_program):
    command = make_program(TWICE, "8844")
    (project / "k.cu").write_text(KERNEL.replace("twice", "thrice"))
    with pytest.raises(BadValueError, match="never launched thrice; it launched "):
        init_launches("k.cu", command)
    (project / "k.cu").write_text(KERNEL)
    with pytest.raises(BadValueError, match=r"\./app 1 failed: "):
        init_launches("k.cu", f"{command} 1")
    assert not (project / "kernels").exists()


def test_a_library_that_looks_for_the_next_symbol_still_finds_it(
    project, make_program, monkeypatch, tmp_path
):
    (project / "next.cpp").write_text(
        "#include <dlfcn.h>\n#include <cstdlib>\n"
        'extern "C" int atoi(const char* text) noexcept {\n'
        "  static int depth = 0;\n  if (++depth > 1) std::abort();\n"
        '  auto next = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_NEXT, "atoi"));\n'
        "  int found = next(text);\n  --depth;\n  return found + 1;\n}\n"
    )
    shared = ["g++", "-shared", "-fPIC", "next.cpp", "-o", "libnext.so", "-ldl"]
    subprocess.run(shared, cwd=project, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(project / "libnext.so"))
    command = make_program(TWICE, "8844", "-DUSES_ATOI")
    launches = record_launches(command, "twice", tmp_path)

    assert len(launches) == 2


def test_the_command_line_takes_a_file_and_a_program(project, make_program, capsys):
    (project / "k.cu").write_text(KERNEL)
    command = make_program(TWICE, "8844")
    status = main(["init", "k.cu", "--from", command, "--set", "reference=mine"])

    assert status == 0
    assert "next: kb variant add k changed --from mine" in capsys.readouterr().out


GATHER = """
__global__ void gather(const int* x, float* y, int n, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
void run(const int* x, float* y, int n, float a) { gather<<<(n + 255) / 256, 256>>>(x, y, n, a); }
"""


@pytest.mark.parametrize(
    ("value", "drawn", "lost"),
    [
        ("(i * 7919) % (n / 4)", "fill: integers, scale: 250}", ""),
        ("i % 2 ? n - 1 : 0", "fill: integers, scale: n}", ""),
        ("0", "fill: zeros}", ""),
        ("1", "fill: ones}", ""),
        ("i == n - 1 ? n : i - i % 3", "fill: offsets, scale: n}", ""),
        ("i / 3", "fill: integers, scale: 334}", "ascend"),
        ("2 * (n - 1 - i)", "fill: integers, scale: 1999}", "all differ"),
        ("(i * 7919) % n", "fill: permutation}", ""),
        ("i", "fill: permutation}", "ascend"),
        ("97 + (i * 7919) % 26", "fill: integers, scale: 123, low: 97}", ""),
        ("(i * 7919) % 26 - 5", "fill: integers, scale: 21, low: -5}", ""),
        ("-1 - i % 3", "fill: integers, scale: 32}", "are -3 to -1"),
    ],
)
def test_values_of_integers_are_drawn_as_a_run_had_them(project, make_program, value, drawn, lost):
    (project / "k.cu").write_text(GATHER)
    command = make_program("_Z6gatherPKiPfif", "8844", f"-DVALUE={value}")

    result = init_launches("k.cu", command, answers=["reference"])

    text = (project / "kernels/k/kernel.yaml").read_text()
    assert f"name: x, shape: [n], dtype: int32, {drawn}" in text
    told = f"x: in the run its values {lost}; drawn ones {'are' if 'are' in lost else 'do'} not"
    own = [each[: len(told)] for each in result.warnings if "its values" in each]
    assert own == ([told] if lost else [])
    told = [each for each in result.warnings if "its values" in each]
    cures = ["--set 'x.fill=offsets " in each for each in told]
    assert cures == ([lost == "ascend"] if lost else [])
    assert load_kernel(str(project / "kernels/k")).kernel.inputs[0].name == "x"


def test_values_are_not_read_while_a_graph_is_recorded(project, make_program, monkeypatch):
    (project / "k.cu").write_text(GATHER)
    monkeypatch.setenv("FAKE_GRAPH", "1")

    init_launches("k.cu", make_program("_Z6gatherPKiPfif", "8844", "-DVALUE=1"))

    text = (project / "kernels/k/kernel.yaml").read_text()
    assert "dtype: int32, fill: integers, scale: 32}" in text


def test_how_values_are_drawn_may_be_said(project):
    (project / "k.cu").write_text(GATHER)
    init_project("k.cu", answers=["a=1.0f", "reference", "x.fill=integers n"])
    text = (project / "kernels/k/kernel.yaml").read_text()
    init_project("k.cu", answers=["a=1.0f", "x.fill=integers 123 from 97"])
    again = (project / "kernels/k/kernel.yaml").read_text()

    assert "dtype: int32, fill: integers, scale: n}  # fill said" in text
    assert "dtype: int32, fill: integers, scale: 123, low: 97}  # fill said" in again


@pytest.mark.parametrize("fill", ["sorted 3", "?", "normally"])
def test_what_is_no_way_to_draw_values_is_no_answer(project, fill):
    (project / "k.cu").write_text(GATHER)
    kinds = "normal, uniform, integers, offsets, permutation, ones, zeros"
    with pytest.raises(BadValueError, match=kinds):
        init_project("k.cu", answers=[f"x.fill={fill}"])


def test_launches_that_pass_null_for_an_array_are_left_out(project, make_program):
    (project / "k.cu").write_text(GATHER)
    command = make_program("_Z6gatherPKiPfif", "8844", "-DNULL_ABOVE=2000")

    result = init_launches("k.cu", command, answers=["reference"])

    kernel = load_kernel(str(project / "kernels/k")).kernel
    assert kernel.workloads == {"observed-1": {"n": 1000}}
    told = "1 of 3 launches, with other types, grids or blocks, or null pointers, are left out"
    assert told in result.warnings


def test_values_belong_to_the_launch_that_found_them(project, make_program, monkeypatch):
    """The rarest launch came first, and the others were not read."""
    (project / "k.cu").write_text(GATHER)
    command = make_program("_Z6gatherPKiPfif", "8844", "-DVALUE=i == n - 1 ? n : i - i % 3")
    read = observe._read_contents
    monkeypatch.setattr(
        observe,
        "_read_contents",
        lambda file, argument, places: read(file, argument, places) if argument[0] == 0 else {},
    )

    init_launches("k.cu", command, answers=["reference"])

    text = (project / "kernels/k/kernel.yaml").read_text()
    assert "observed-1: {n: 1000}" in text
    assert "dtype: int32, fill: offsets, scale: n}" in text


SCALED = """
template <typename T> struct Scale { T* by; float factor; int place(int i) { return i; } T of[2]; };
template <typename SCALE> __global__ void scaled(SCALE scale, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[scale.place(i)];
}
"""


def launch_scaled(elements=1000, memory=()):
    """Return one launch of ``scaled``: its object has pointers at some places of its bytes."""
    at = dict.fromkeys(memory, (4 * elements, 0))
    arguments = (
        LaunchArgument(bytes(24), at),
        LaunchArgument(bytes(8), {0: (4 * elements, 0)}),
        LaunchArgument(bytes(8), {0: (4 * elements, 0)}),
        LaunchArgument(elements.to_bytes(4, "little"), {}),
    )
    name = "void scaled<Scale<float>>(Scale<float>, float const*, float*, int)"
    return SeenLaunch(name, (4, 1, 1), (256, 1, 1), 0, arguments, 1)


def test_a_template_argument_answers_no_parameter_of_its_name_in_another_case(project, monkeypatch):
    (project / "k.cu").write_text(SCALED)
    monkeypatch.setattr(
        "kernelkb.actions.init.init_project.record_launches", lambda *_: [launch_scaled()]
    )
    result = init_launches("k.cu", "./app", answers=["reference=mine"])
    launcher = (project / "kernels/k/launch.cu").read_text()

    assert [line.partition("=")[0] for line in result.to_fill] == ["scale"]
    assert "scaled<Scale<float>><<<" in launcher

    said = init_project("k.cu", answers=["scale=Scale<float>{nullptr, 2.0f}"])
    launcher = (project / "kernels/k/launch.cu").read_text()

    assert said.to_fill == ()
    assert "scaled<Scale<float>><<<" in launcher
    assert "Scale<float>{nullptr, 2.0f}" in launcher


def test_pointers_of_an_object_that_is_passed_by_value_are_told(project, monkeypatch):
    (project / "k.cu").write_text(SCALED)
    monkeypatch.setattr(
        "kernelkb.actions.init.init_project.record_launches",
        lambda *_: [launch_scaled(memory=(0, 8))],
    )
    result = init_launches("k.cu", "./app", answers=["reference=mine"])

    assert (
        "scale: an object passed by value, in the run with 2 pointers to memory (4000 and 4000 "
        "bytes): no array of kernel.yaml stands for them; allocate and fill them in launch.cu"
    ) in result.warnings


MERGE = """
__global__ void merge(const int* a, const int* b, int* c, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[rank_of(i)] = i < n ? a[rank_of(i)] : b[rank_of(i - n)];
}
"""


def launch_sizes(name, arrays, numbers, *, calls=1):
    """Return a launch of blocks of 256 threads with arrays of 4-byte elements, then numbers.

    Args:
        name: With the types of the kernel's arguments.
        arrays: Elements behind each pointer, and before it.
        numbers: Integers.
        calls: How many were alike.
    """
    memory = [LaunchArgument(bytes(8), {0: (4 * left, 4 * first)}) for left, first in arrays]
    plain = [LaunchArgument(number.to_bytes(4, "little"), {}) for number in numbers]
    return SeenLaunch(name, (4, 1, 1), (256, 1, 1), 0, (*memory, *plain), calls)


def init_seen(project, monkeypatch, text, launches, answers=("reference=mine",)):
    """Draft a kernel of a text with launches that were recorded elsewhere."""
    (project / "k.cu").write_text(text)
    monkeypatch.setattr(
        "kernelkb.actions.init.init_project.record_launches", lambda *_: [*launches]
    )
    return init_launches("k.cu", "./app", answers=[*answers])


@pytest.mark.parametrize(
    ("elements", "shape", "asked"),
    [
        (170, "[n + m]", []),
        (7000, "[n, m]", ["c"]),  # in either order
        (1000, "[1000]", []),
    ],
)
def test_memory_that_a_sum_of_sizes_fills_has_that_shape(
    project, monkeypatch, elements, shape, asked
):
    name = "merge(int const*, int const*, int*, int, int)"
    launch = launch_sizes(name, [(100, 0), (70, 0), (elements, 0)], [100, 70])
    result = init_seen(project, monkeypatch, MERGE, [launch])
    text = (project / "kernels/k/kernel.yaml").read_text()

    assert [line.partition("=")[0] for line in result.to_fill] == asked
    if asked:
        assert result.to_fill[0].startswith(f"c={shape}")
    else:
        assert f"name: c, shape: {shape}" in text


ROWS = """
__global__ void rows(int across, const int down, int* field, int* seen) {
  int at;
  if (threadIdx.y < down && threadIdx.x < down) {
    at = threadIdx.y * across + threadIdx.x;
    field[at] += 1;
  }
  if (blockIdx.y < down) {
    at = blockIdx.y * across + threadIdx.x;
    seen[at] = field[at];
  }
}
"""
SQUARE = ("field", "seen")
MIDDLES = """
__global__ void middles(const int* points, const int* middles, int* sums, int n, int wide, int k) {
  extern __shared__ int all[];
  int* near = all;
  int* own = &near[k * wide];
  int tid = threadIdx.x, best = -1;
  if (tid < k * wide) near[tid] = middles[tid];
  for (int c = 0; c < k; ++c)
    for (int i = 0; i < wide; ++i)
      if (points[i + tid * wide] < near[i + c * wide]) best = c;
  for (int i = 0; i < wide; i++) atomicAdd(&own[i + best * wide], points[i + tid * wide]);
  if (tid < k * wide) atomicAdd(&sums[tid], own[tid]);
}
"""


@pytest.mark.parametrize(
    ("text", "name", "elements", "numbers", "shapes"),
    [
        (
            ROWS,
            "rows",
            [5120, 5120],
            [128, 40],
            {"field": "[down, across]", "seen": "[down, across]"},
        ),
        (
            MIDDLES,
            "middles",
            [600, 12, 12],
            [150, 4, 3],
            {"middles": "[k, wide]", "sums": "[k, wide]"},
        ),
        (
            MIDDLES.replace("&own[i + best * wide]", "&own[0]"),
            "middles",
            [600, 12, 12],
            [150, 4, 3],
            {"middles": "[k, wide]", "sums": "[k, wide] or [wide, k]"},
        ),
    ],
)
def test_the_order_of_axes_is_that_of_an_index_of_the_text(
    project, monkeypatch, text, name, elements, numbers, shapes
):
    """Also of one that a local variable holds, and of a copy that is made element by element."""
    launch = launch_sizes(name, [(n, 0) for n in elements], numbers)
    if name == "rows":
        launch = launch._replace(arguments=(*launch.arguments[2:], *launch.arguments[:2]))
    launch = launch._replace(name=f"{name}({'int*, ' * len(elements)}int)")
    result = init_seen(project, monkeypatch, text, [launch])
    drafted = (project / "kernels/k/kernel.yaml").read_text()

    for array, shape in shapes.items():
        first, *more = shape.split(" or ")
        if more:
            assert [w for w in result.to_fill if w.startswith(f"{array}={first}  # or {more[0]}")]
        else:
            assert re.search(rf"name: {array}(_start)?, shape: {re.escape(first)}", drafted)
            assert not [line for line in result.to_fill if line.startswith(f"{array}=")]


NEAR = """
__global__ void near(const float* x, int* found, int* counts, const int n, float reach) {
  int count = 0, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  for (int j = 0; j < n; ++j) {
    float gap = x[j] - x[i];
    if (gap * gap < reach) found[(count++) * n + i] = j;
  }
  counts[i] = count;
}
"""


def test_memory_that_rows_of_a_known_length_fill_is_as_many_rows(project, monkeypatch):
    name = "near(float const*, int*, int*, int, float)"
    launch = launch_sizes(name, [(300, 0), (3000, 0), (300, 0)], [300, 0])
    init_seen(project, monkeypatch, NEAR, [launch])

    text = (project / "kernels/k/kernel.yaml").read_text()
    assert re.search(r"# Observed: found=\[10, n\]", text)


@pytest.mark.parametrize("is_run", [True, False])
def test_an_output_that_a_count_of_the_values_indexes_is_told(project, monkeypatch, is_run):
    launch = launch_sizes(
        "near(float const*, int*, int*, int, float)",
        [(300, 0), (3000, 0), (300, 0)],
        [300, 0],
    )
    warnings = []
    for text in (NEAR, NEAR.replace("if (gap", "if (count < 10 && gap")):
        shutil.rmtree(project / "kernels/k", ignore_errors=True)
        if is_run:
            warnings.append(init_seen(project, monkeypatch, text, [launch]).warnings)
        else:
            (project / "k.cu").write_text(text)
            warnings.append(init_project("k.cu").warnings)

    told = [[each for each in own if each.startswith("found: how far")] for own in warnings]
    assert told == [
        [
            "found: how far it is written depends on the values of x, line 7: "
            "found[(count++) * n + i] = j; give them as the program has them, --set x.fill=..., "
            "or a larger array, --set 'found=[...]'"
        ],
        [],
    ]


BLOCKS = """
__global__ void blocks(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&y[rank_of(i)], x[i]);
}
void run(const int* x, int* y, int n) { blocks<<<(n + 255) / 256, 256>>>(x, y, n); }
"""


def test_memory_with_an_element_for_each_block_is_a_quotient_or_a_number(project, monkeypatch):
    name = "blocks(int const*, int*, int)"
    few = launch_sizes(name, [(1000, 0), (4, 0)], [1000], calls=2)
    many = launch_sizes(name, [(3000, 0), (12, 0)], [3000])
    one = init_seen(project, monkeypatch, BLOCKS, [few])
    asked = next(line for line in one.to_fill if line.startswith("y="))

    assert asked.startswith("y=[(n + 255) // 256]  # or [4]; ")

    shutil.rmtree(project / "kernels")
    init_seen(project, monkeypatch, BLOCKS, [few, many])
    text = (project / "kernels/k/kernel.yaml").read_text()

    assert "name: y, shape: [(n + 255) // 256]" in text


STENCIL = """
#define REACH 3
__global__ void spread(const int* x, int* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  if (threadIdx.x < REACH) sum = x[i];
  for (int k = -REACH; k <= REACH; ++k) sum += x[i + k];
  y[i] = sum;
}
void run(const int* x, int* y) { spread<<<4, 256>>>(x, y); }
"""


def test_a_pointer_into_its_memory_is_told_and_the_rest_of_it_is_asked_for(project, monkeypatch):
    launch = launch_sizes("spread(int const*, int*)", [(1027, 3), (1027, 3)], [])
    result = init_seen(project, monkeypatch, STENCIL, [launch])
    asked = {line.partition("=")[0]: line for line in result.to_fill}

    assert asked["x"].startswith("x=[1027]")
    assert asked["y"].startswith("y=[1027]")
    assert any(
        text.startswith("x: the program passes a pointer 3 elements into memory of 1030; ")
        for text in result.warnings
    )


def test_memory_of_an_array_that_is_only_written_may_be_more_than_it_needs(project, monkeypatch):
    text = BLOCKS.replace("atomicAdd(&y[rank_of(i)], x[i])", "y[rank_of(i)] = x[i]")
    launch = launch_sizes("blocks(int const*, int*, int)", [(100, 0), (100, 0)], [100])
    result = init_seen(project, monkeypatch, text, [launch])

    assert (
        "y: [n] is the memory behind it, 100 elements; where the kernel writes fewer, say so "
        "with --set 'y=[...]'"
    ) in result.warnings


STEPS = """
__global__ void fold(int* data, int step, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && i >= step) data[i] += step;
}
void run(int* data, int step, int n) { fold<<<(n + 255) / 256, 256>>>(data, step, n); }
"""


def test_a_number_that_varies_and_sizes_no_array_is_one_of_those_seen(project, monkeypatch):
    name = "fold(int*, int, int)"
    rows = [(1, 64, 3), (2, 64, 5), (2, 96, 2), (4, 64, 5), (8, 64, 1)]
    launches = [launch_sizes(name, [(n, 0)], [step, n], calls=c) for step, n, c in rows]
    answers = ["reference=mine", "data.fill=integers 9"]
    result = init_seen(project, monkeypatch, STEPS, launches, answers)
    kernel = load_kernel(str(project / "kernels/k")).kernel

    assert kernel.workloads == {"observed-1": {"n": 64}, "observed-2": {"n": 96}}
    assert "const int step = 2;  // observed" in (project / "kernels/k/launch.cu").read_text()
    assert (
        "step: 4 sets of values in the run, and no size of an array; step=2 is kept, and 9 of 16 "
        "launches with others are left out; say others, as --set step=1"
    ) in result.warnings


def test_launches_of_sizes_that_are_no_workload_are_counted(project, monkeypatch):
    name = "fold(int*, int, int)"
    sizes = [64 * k for k in range(1, 9)]
    launches = [launch_sizes(name, [(n, 0)], [3, n], calls=9 - n // 64) for n in sizes]
    answers = ["reference=mine", "data.fill=integers 9"]
    result = init_seen(project, monkeypatch, STEPS, launches, answers)

    assert len(load_kernel(str(project / "kernels/k")).kernel.workloads) == 6
    text = "3 of 36 launches, with other sizes, are left out; 6 sizes are workloads"
    assert text in result.warnings


def test_of_sizes_that_are_as_frequent_the_largest_is_the_first_workload(project, monkeypatch):
    name = "fold(int*, int, int)"
    rows = [(64, 2), (128, 1), (4096, 2), (256, 2)]
    launches = [launch_sizes(name, [(n, 0)], [3, n], calls=calls) for n, calls in rows]
    answers = ["reference=mine", "data.fill=integers 9"]
    init_seen(project, monkeypatch, STEPS, launches, answers)

    workloads = load_kernel(str(project / "kernels/k")).kernel.workloads
    assert [sizes["n"] for sizes in workloads.values()] == [4096, 256, 64, 128]


def test_every_launch_of_a_program_with_many_sets_of_values_is_counted(
    project, make_program, tmp_path
):
    command = make_program(TWICE, "8844", "-DMANY=300")
    launches = record_launches(command, "twice", tmp_path)

    assert len(launches) == 256
    assert sum(each.calls for each in launches) + sum(each.others for each in launches) == 303


SPARSE = """
__global__ void sparse(const int* begin, const int* column, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int j = begin[i]; j < begin[i + 1]; ++j) sum += x[column[j]];
  y[i] = sum;
}
"""


def launch_sparse(lengths, column):
    """Return a launch of ``sparse`` on rows of some lengths, given the column of an element."""
    count, rows, total = len(lengths), [0], sum(lengths)
    for length in lengths:
        rows.append(rows[-1] + length)
    columns = [column(i, j) for i, length in enumerate(lengths) for j in range(length)]
    launch = launch_sizes(
        "sparse(int const*, int const*, float const*, float*, int)",
        [(count + 1, 0), (total, 0), (count, 0), (count, 0)],
        [count],
    )
    values = [struct.pack(f"<{len(own)}i", *own) for own in (rows, columns)]
    filled = [
        each._replace(contents={0: content})
        for each, content in zip(launch.arguments, values, strict=False)
    ]
    return launch._replace(arguments=(*filled, *launch.arguments[2:]))


@pytest.mark.parametrize(
    ("lengths", "told"),
    [
        (
            [4, *[7] * 998, 4],
            "begin: in the run its rows have 4 to 7 entries, none empty; drawn ones have 0 to "
            "about 48, about 7% of them empty",
        ),
        (
            [7 * (i % 2) for i in range(1000)],
            "begin: in the run its rows have 0 to 7 entries, 50% of them empty; drawn ones have 0 "
            "to about 24, about 13% of them empty",
        ),
    ],
)
def test_the_lengths_of_rows_that_are_lost_are_told(project, monkeypatch, lengths, told):
    launch = launch_sparse(lengths, lambda i, j: (i * 7919 + j * 131) % 1000)
    result = init_seen(project, monkeypatch, SPARSE, [launch])

    assert "fill: offsets" in (project / "kernels/k/kernel.yaml").read_text()
    assert [each for each in result.warnings if each.startswith(told)] != []


@pytest.mark.parametrize(
    ("column", "is_told"),
    [(lambda i, j: min(i + j, 999), True), (lambda i, j: (i * 7919 + j * 131) % 1000, False)],
)
def test_columns_that_lie_near_each_other_are_told(project, monkeypatch, column, is_told):
    launch = launch_sparse([5] * 1000, column)
    result = init_seen(project, monkeypatch, SPARSE, [launch])

    told = [each for each in result.warnings if each.startswith("column: in the run its values")]
    assert len(told) == is_told
    text = "column: in the run its values are near their neighbours, half of them at most 1 away"
    assert not told or told[0].startswith(text)


def test_launches_beyond_those_that_are_kept_are_told(project, monkeypatch):
    first, *rest = (launch_sizes("fold(int*, int, int)", [(n, 0)], [3, n]) for n in (64, 128))
    result = init_seen(project, monkeypatch, STEPS, [first._replace(others=46), *rest])

    text = "46 of 48 launches, after the first 2 different ones, are not looked at"
    assert text in result.warnings


def test_bytes_that_span_nearly_all_are_drawn_as_all_of_them(project, monkeypatch):
    text = "__global__ void gray(const unsigned char* x, unsigned char* y, int n) {"
    text += " int i = threadIdx.x; if (i < n) y[i] = x[i] / 2; }\n"
    values = bytes(240 - i % 241 for i in range(500)) + b"\xf0"
    pointers = [LaunchArgument(bytes(8), {0: (501, 0)}, {0: values}) for _ in range(2)]
    number = LaunchArgument((501).to_bytes(4, "little"), {})
    name = "gray(unsigned char const*, unsigned char*, int)"
    launch = SeenLaunch(name, (1, 1, 1), (512, 1, 1), 0, (*pointers, number), 1)
    init_seen(project, monkeypatch, text, [launch])

    assert "fill: integers, scale: 256}" in (project / "kernels/k/kernel.yaml").read_text()


SLIDE = """
__global__ void slide(const int* x, int* y, int rows, int planes, int wide, int reach, int hop) {
  int out = (wide - reach) / hop + 1;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int p = blockIdx.z % planes, r = blockIdx.z / planes;
  if (i >= out || r >= rows) return;
  y[r * planes * out + p * out + i] = x[r * wide + i * hop];
}
void run(const int* x, int* y, int rows, int planes, int wide, int reach, int hop) {
  int out = (wide - reach) / hop + 1;
  slide<<<dim3((out + 255) / 256, 1, rows * planes), 256>>>(x, y, rows, planes, wide, reach, hop);
}
"""


def test_a_shape_that_fills_memory_by_chance_is_no_guess(project, monkeypatch):
    name = "slide(int const*, int*, int, int, int, int, int)"
    launch = launch_sizes(name, [(26, 0), (12, 0)], [1, 2, 26, 4, 3])
    asked = init_seen(project, monkeypatch, SLIDE, [launch]).to_fill
    guesses = [line.partition("  # ")[0] for line in asked if line.startswith("y=")]

    assert guesses == ["y=?"]


def test_an_output_of_which_a_launch_writes_the_beginning_is_asked_for(
    project, make_program, monkeypatch
):
    monkeypatch.setenv("FAKE_WRITTEN", "4")
    (project / "k.cu").write_text(KERNEL)
    result = init_launches("k.cu", make_program(TWICE, "8844"), answers=["reference"])
    asked = {line.partition("=")[0]: line for line in result.to_fill}

    assert asked["y"].startswith("y=[(n + 255) // 256]  # or [4], [n]")
    assert not any(text.startswith("y:") for text in result.warnings)


def test_an_output_that_launches_write_to_its_end_is_not_doubted(
    project, make_program, monkeypatch
):
    monkeypatch.setenv("FAKE_WRITTEN", "1000")
    (project / "k.cu").write_text(KERNEL)
    result = init_launches("k.cu", make_program(TWICE, "8844"), answers=["reference"])

    assert result.to_fill == ()
    assert not any(text.startswith("y:") for text in result.warnings)


def test_an_output_that_launches_leave_in_parts_may_be_read_and_written(
    project, make_program, monkeypatch
):
    monkeypatch.setenv("FAKE_WRITTEN", "1000")
    monkeypatch.setenv("FAKE_STEP", "3")
    (project / "k.cu").write_text(KERNEL)
    result = init_launches("k.cu", make_program(TWICE, "8844"), answers=["reference"])

    (told,) = [text for text in result.warnings if text.startswith("y:")]
    assert "666 of its" in told
    assert "--set y.role=both" in told


@pytest.mark.parametrize(("written", "is_asked"), [(100, False), (10, True)])
def test_memory_beyond_what_the_text_and_the_run_write_is_no_doubt(
    project, monkeypatch, written, is_asked
):
    text = "__global__ void twice(const int* x, int* y, int n) { int i = threadIdx.x;"
    text += " if (i < n) y[i] = 2 * x[i]; }\nvoid run(const int* x, int* y, int n)"
    text += " { twice<<<1, n>>>(x, y, n); }\n"
    launch = launch_sizes("twice(int const*, int*, int)", [(100, 0), (130, 0)], [100])
    contents = {0: bytes(520)}
    output = launch.arguments[1]._replace(contents=contents, written={0: (4 * written,)})
    arguments = (launch.arguments[0], output, *launch.arguments[2:])
    result = init_seen(project, monkeypatch, text, [launch._replace(arguments=arguments)])

    assert any(line.startswith("y=") for line in result.to_fill) == is_asked


SUMS = """
__global__ void sums(int* in, int* blockSums, int n) {
  extern __shared__ int s[];
  int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
  s[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  if (threadIdx.x == 0) blockSums[blockIdx.x] = s[0];
}
void run(int* in, int* blockSums, int n) {
  sums<<<(n + 511) / 512, 256, 1024>>>(in, blockSums, n);
}
"""


def test_an_answer_to_a_question_outranks_what_was_observed_whatever_its_case(project, monkeypatch):
    launch = launch_sizes("sums(int*, int*, int)", [(100_000, 0), (196, 0)], [100_000])
    asked = init_seen(project, monkeypatch, SUMS, [launch], answers=())
    (shape,) = [line for line in asked.to_fill if line.startswith("blocksums=")]
    answers = [shape.partition("  #")[0], "reference=mine"]

    assert init_seen(project, monkeypatch, SUMS, [launch], answers=answers).to_fill == ()


def test_rows_of_which_only_the_grid_tells_how_many_there_are_proposed(project, monkeypatch):
    text = "__global__ void halve(const float* x, float* y, int d) {"
    text += (
        " const float* row = x + (size_t)blockIdx.x * d; float* to = y + (size_t)blockIdx.x * d;"
    )
    text += " for (int i = threadIdx.x; i < d; i += blockDim.x) to[i] = row[i] / 2; }\n"
    launch = launch_sizes("halve(float const*, float*, int)", [(3000, 0), (3000, 0)], [1000])
    launch = launch._replace(grid=(3, 1, 1))
    result = init_seen(project, monkeypatch, text, [launch])

    assert [line.partition("  #")[0] for line in result.to_fill] == ["x=[3, d]", "y=[3, d]"]


def test_a_launch_of_which_the_text_does_not_show_all_is_taken_from_the_run(project, monkeypatch):
    text = "#include <cstdlib>\n__global__ void halve(const float* x, float* y, int n) {"
    text += " int step = gridDim.x * blockDim.x;"
    text += " for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)"
    text += " y[i] = x[i] / 2; }\nint main(int count, char** words) {"
    text += " int blocks = atoi(words[1]), threads = atoi(words[2]), n = 3000; float *x, *y;"
    text += (
        " cudaMalloc(&x, 4 * n); cudaMalloc(&y, 4 * n); halve<<<blocks, threads>>>(x, y, n); }\n"
    )
    launch = launch_sizes("halve(float const*, float*, int)", [(3000, 0), (3000, 0)], [3000])
    result = init_seen(project, monkeypatch, text, [launch._replace(grid=(3, 1, 1))])

    assert result.to_fill == ()
    assert "<<<dim3(3, 1, 1), dim3(256, 1, 1)" in (project / "kernels/k/launch.cu").read_text()


def test_a_grid_that_the_text_counts_in_steps_is_a_quotient_for_all_sizes(project, monkeypatch):
    text = "__global__ void halve(const float* x, float* y, int n) {"
    text += " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] / 2; }\n"
    text += "int main(int count, char** words) { int n = atoi(words[1]); float *x, *y;"
    text += " unsigned int threads = 256, blocks = n / threads; if (n % threads) blocks += 1;"
    text += " halve<<<blocks, threads>>>(x, y, n); }\n"
    name = "halve(float const*, float*, int)"
    launches = [
        launch_sizes(name, [(n, 0), (n, 0)], [n])._replace(grid=(-(-n // 256), 1, 1))
        for n in (3000, 300, 4096)
    ]
    result = init_seen(project, monkeypatch, text, launches)
    launch = (project / f"kernels/{result.kernel}/launch.cu").read_text()

    assert result.to_fill == ()
    assert "<<<dim3((n + 255) / 256, 1, 1), dim3(256, 1, 1)" in launch
    assert "blocks" not in launch.partition("extern")[2]


def test_memory_that_may_be_a_pool_is_a_guess_with_the_shape_of_one_as_large(project, monkeypatch):
    text = "__global__ void flip(const float* x, const float* w, float* y) {"
    text += " int i = blockIdx.x * 256 + threadIdx.x; float s = 0;"
    text += " for (int k = 0; k < 1024; ++k) s += x[(i + k) % 1048576] * w[i]; y[i] = s; }\n"
    text += "int main() { float *x, *w, *y; flip<<<4096, 256>>>(x, w, y); }\n"
    sizes = [(2**20, 0), (2**20, 0), (2**20, 0)]
    launch = launch_sizes("flip(float const*, float const*, float*)", sizes, [])
    result = init_seen(project, monkeypatch, text, [launch._replace(grid=(4096, 1, 1))])

    asked = [line.partition("  #")[0] for line in result.to_fill]
    assert asked == ["w=[1048576]", "y=[1048576]"]


def test_a_structure_of_vectors_and_numbers_of_one_type_is_rows_of_them(project, monkeypatch):
    text = "struct Body { float3 place; float3 speed; float mass; };\n"
    text += "__global__ void fall(const Body* before, Body* after) {"
    text += " int i = threadIdx.x; if (i < 40) { after[i].mass = before[i].mass;"
    text += " after[i].place.x = before[i].place.x + before[i].speed.x; } }\n"
    text += "int main() { Body *x, *y; fall<<<1, 64>>>(x, y); }\n"
    arguments = tuple(LaunchArgument(bytes(8), {0: (40 * 28, 0)}) for _ in range(2))
    launch = SeenLaunch("fall(Body const*, Body*)", (1, 1, 1), (64, 1, 1), 0, arguments, 1)
    result = init_seen(project, monkeypatch, text, [launch])

    assert not any("driver" in line for line in result.warnings)
    drafted = (project / f"kernels/{result.kernel}/kernel.yaml").read_text()
    assert "name: before, shape: [40, 7], dtype: float32" in drafted
    assert "name: after, shape: [40, 7], dtype: float32" in drafted


INNER = """
#include <cstdio>
__global__ void inner(const int* x, int* y, int n, int gap) {
  int i = threadIdx.x;
  if (i >= gap && i < n - gap) y[i] = x[i] + 1;
}
int main() {
  int *x, *y, host[200];
  for (int i = 0; i < 200; ++i) host[i] = 7 * i % 11;
  cudaMalloc(&x, sizeof host), cudaMalloc(&y, 4 * sizeof host);
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemset(y, 0, 4 * sizeof host);
  inner<<<1, 256>>>(x, y, 200, 25);
  return std::printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize())) < 0;
}
"""


@pytest.mark.gpu
def test_on_a_gpu_what_a_launch_changes_is_compared(project, tmp_path):
    (project / "k.cu").write_text(INNER)
    subprocess.run(["nvcc", "-arch=native", "k.cu", "-o", "app"], cwd=project, check=True)
    (launch,) = record_launches("./app", "inner", tmp_path)

    assert launch.arguments[1].written == {0: (4 * 175, *launch.arguments[1].written[0][1:])}
    assert launch.arguments[1].written[0][3] == 800 - 150
    result = init_launches("k.cu", "./app", answers=["reference=mine"])
    assert any(line.startswith(("y=", "y.role=")) for line in result.to_fill)
