"""How kb init calls a kernel: grids, template arguments and scalars."""

import re

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.actions.init.init_source import find_near_definers, summarize_source
from kernelkb.errors import BadValueError
from kernelkb.scaffold.cpp.build_flags import plan_includes
from kernelkb.scaffold.cpp.call_plan import plan_call
from kernelkb.scaffold.cpp.functions import read_facts

PLANE = """
__global__ void blend(const float* x, float* y, int nx, int ny) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < nx && j < ny) y[j * nx + i] = x[j * nx + i];
}
"""
LINE = """
__global__ void walk(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = x[i];
}
"""


def plan_kernel(text, callers=()):
    """Plan the call of the only function of a CUDA text."""
    (function,) = summarize_source("k.cu", text).functions
    return plan_call(function, read_facts(text, callers=callers))


def test_members_of_a_dim3_are_part_of_a_grid():
    plan = plan_kernel(
        PLANE + "int main() { int nx = 64, ny = 32; float *a, *b; dim3 block(16, 16);"
        " dim3 grid((nx + block.x - 1) / block.x, (ny + block.y - 1) / block.y);"
        " blend<<<grid, block>>>(a, b, nx, ny); }"
    )

    assert plan.configuration == ("grid", "block")
    assert "dim3 block(16, 16);" in plan.statements


def test_a_dim3_may_be_set_after_its_declaration():
    plan = plan_kernel(
        LINE + "int main() { int n = 64; float *a, *b; dim3 grid, block; block.x = 128;"
        " grid.x = (n + block.x - 1) / block.x; walk<<<grid, block>>>(a, b, n); }"
    )

    assert plan.configuration == ("grid", "block")
    assert "dim3 block; block.x = 128;" in plan.statements


@pytest.mark.parametrize(
    ("host", "statement"),
    [
        (
            "int blocks; cudaDeviceGetAttribute(&blocks, a, 0);",
            "const int blocks = FILL_IN;  // int blocks;",
        ),
        (
            "cudaDeviceProp p; int blocks = 4 * p.multiProcessorCount;",
            "const int blocks = FILL_IN;  // int blocks = 4 * p.multiProcessorCount;",
        ),
        (
            "int blocks = atoi(argv[1]);",
            "const int blocks = FILL_IN;  // int blocks = atoi(argv[1]);",
        ),
    ],
)
def test_a_number_that_only_the_program_knows_is_asked_for_beside_its_line(host, statement):
    plan = plan_kernel(
        LINE + f"int main() {{ int n = 64; float *x, *y; {host} walk<<<blocks, 256>>>(x, y, n); }}"
    )

    assert statement in plan.statements


def test_arguments_of_a_template_that_no_text_shows_are_asked_for():
    plan = plan_kernel(
        "template <typename T, int TILE, bool FAST = true>"
        " __global__ void tile(const T* x, T* y, int n) {"
        " int i = blockIdx.x * TILE + threadIdx.x; if (i < n) y[i] = x[i]; }"
    )

    assert plan.template == ("FILL_IN", "FILL_IN", "true")
    assert plan.function.parameters[0].dtype is None


def test_a_number_that_is_no_size_is_asked_for_with_its_line():
    plan = plan_kernel(
        "__global__ void skip(const float* x, float* y, float alpha, int first_axis, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = alpha * x[i] + first_axis; }"
    )
    alpha, axis = plan.function.parameters[2:4]

    assert alpha.value == "FILL_IN"
    assert (axis.role, axis.value) == ("number", "FILL_IN")
    assert axis.use == "line 3: y[i] = alpha * x[i] + first_axis;"


def test_a_launch_in_a_file_that_includes_the_kernel_is_used_with_its_constants():
    caller = (
        "#define WIDTH 64\n"
        "void run(float* a, float* b, int n) { walk<<<(n + WIDTH - 1) / WIDTH, WIDTH>>>(a, b, n); }"
    )
    plan = plan_kernel(LINE, callers=[caller])

    assert plan.configuration == ("(n + WIDTH - 1) / WIDTH", "WIDTH")
    assert plan.statements == ("const auto WIDTH = 64;",)


def test_a_type_of_the_hosts_template_and_its_constants_are_resolved():
    text = (
        "template <typename T, int TILE> __global__ void tile(const T* x, T* y, int n) {"
        " int i = blockIdx.x * TILE + threadIdx.x; if (i < n) y[i] = x[i]; }\n"
        "template <typename T> int test(int n) { T *x, *y; const int tile_size = 64;"
        " int blocks = n * sizeof(T) / 256;"
        " tile<T, tile_size><<<blocks, tile_size>>>(x, y, n); return 0; }"
    )
    plan = plan_kernel(text)

    assert plan.template == ("FILL_IN", "64")
    assert "const auto T = FILL_IN;" in plan.statements


def test_a_launch_that_no_file_shows_is_asked_for_with_what_the_kernel_uses(project):
    (project / "k.cu").write_text(
        "__global__ void turn(float* d, int n) { extern __shared__ float s[];"
        " s[threadIdx.x] = d[threadIdx.x]; __syncthreads(); d[threadIdx.x] = s[n - threadIdx.x]; }"
    )
    result = init_project("k.cu")
    launcher = (project / "kernels/k/launch.cu").read_text()

    (dims,) = [line for line in launcher.splitlines() if "dim3" in line]
    assert "kb_blocks(FILL_IN), kb_threads(FILL_IN);  // line 1: no launch is in sight" in dims
    assert "<<<kb_blocks, kb_threads, FILL_IN, " in launcher
    asked = [line.partition("=")[0] for line in result.to_fill]
    assert asked == ["d", "grid", "block", "shared", "reference"]


def test_a_launch_of_unknown_values_is_asked_for_with_its_own_text(project):
    (project / "k.cu").write_text(
        LINE + "struct Plan { int blocks; };\n"
        "void run(Plan p, float* x, float* y, int n) { cudaMalloc(&x, 4);"
        " walk<<<p.blocks, 256>>>(x, y, n); }"
    )
    result = init_project("k.cu", kernel="walk")

    assert "grid=?  # line 7: <<<p.blocks, 256>>>" in result.to_fill


def test_functions_of_tensors_that_another_file_exports_are_found():
    text = (
        '#include "launch_kernels.h"\n'
        "static int find(TensorView x) { return 1; }\n"
        "void normalize(TensorView out, TensorView x, double eps) { Launch(out, x, find(x)); }\n"
    )

    assert [each.name for each in summarize_source("n.cu", text).functions] == ["normalize"]


def test_a_projects_own_header_may_begin_with_cuda(tmp_path):
    (tmp_path / "include").mkdir()
    header = tmp_path / "include" / "cuda_tiles.hpp"
    header.write_text("#pragma once\n")
    source = tmp_path / "k.cu"
    source.write_text('#include "cuda_tiles.hpp"\n#include "cuda_runtime.h"\n')
    plan = plan_includes(source, tmp_path, [header])

    assert plan.folders == (tmp_path / "include",)
    assert (plan.headers, plan.missing) == ((header,), ())


def test_a_launchers_grid_names_the_rows_of_its_kernel():
    text = (
        "__global__ void center(int n, const float* points, float* out) {"
        " points += n * 3 * blockIdx.x; out += n * blockIdx.x;"
        " for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = points[i * 3]; }\n"
        "void launch(int b, int n, const float* points, float* out) {"
        " center<<<b, 256>>>(n, points, out); }"
    )
    shapes = {p.name: p.shape for p in plan_kernel(text).function.parameters if p.shape}

    assert shapes == {"points": ("b", "n", "3"), "out": ("b", "n")}


def test_what_one_kernel_writes_and_the_next_one_reads_stays_an_output():
    text = LINE + (
        "void twice(const float* x, float* y, float* z, int n, int n_threads) {"
        " walk<<<8, n_threads>>>(x, y, n); walk<<<8, n_threads>>>(y, z, n); }"
    )
    parameters = plan_kernel(text).function.parameters

    assert [p.role for p in parameters] == ["input", "output", "output", "size", "number"]
    assert (parameters[1].is_read, parameters[4].value) == (False, "FILL_IN")


def test_a_structure_of_equal_members_is_the_last_dimension():
    text = (
        "typedef struct { float re, im; } Complex;\nstruct Box { float lo[2]; float hi[2]; };\n"
        "__global__ void shift(const Complex* x, Box* y, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i].lo[0] = x[i].re; }"
    )
    arrays = plan_kernel(text).function.parameters[:2]

    assert [(p.dtype, p.shape) for p in arrays] == [
        ("float32", ("n", "2")),
        ("float32", ("n", "4")),
    ]


def test_a_source_whose_own_header_includes_torch_is_a_torch_extension(project):
    (project / "k.h").write_text("#include <torch/serialize/tensor.h>\n")
    (project / "k.cu").write_text('#include "k.h"\n' + LINE)
    init_project("k.cu")

    assert "binding: torch-extension" in (project / "kernels" / "k" / "kernel.yaml").read_text()


def test_functions_that_another_file_defines_are_compiled_with_the_kernel(project):
    for folder in ("src", "far"):
        (project / folder).mkdir()
        (project / folder / "util.cu").write_text("void note(const char* text) { (void)text; }\n")
    (project / "src" / "util.h").write_text(
        "void note(const char* text);\n#define NOTE() note(__FILE__)\n"
    )
    (project / "src" / "k.cu").write_text(
        '#include "util.h"\n#include <cublas_v2.h>\n'
        "__global__ void scale_kernel(const float* x, float* y, int n) {\n"
        "  const int i = threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
        "void scale(const float* x, float* y, int n) {\n"
        "  scale_kernel<<<1, 256>>>(x, y, n);\n  NOTE();\n}\n"
    )
    init_project("src/k.cu")

    folder = project / "kernels" / "k"
    text = (folder / "kernel.yaml").read_text()
    (also,) = re.search(r"also: \[(\S+)\]", text).groups()
    assert (folder / also).read_text() == '#include "../../src/util.cu"\n'
    assert "-lcublas" in text


def test_a_copy_in_a_kernel_folder_is_no_source_of_the_project(project):
    for path in ("kernels/old/util.cu", "lib/util.cu"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("void note(const char* text) { (void)text; }\n")
    (project / "kernels" / "old" / "kernel.yaml").write_text("id: old\n")

    assert find_near_definers(project / "k.cu", ["note"]) == [project.resolve() / "lib" / "util.cu"]


def test_a_draft_that_is_said_to_be_its_own_reference_has_no_odd_sizes_to_check(project):
    (project / "k.cu").write_text(LINE)
    init_project("k.cu", answers=["grid=8", "block=256", "reference=mine"])
    text = (project / "kernels" / "k" / "kernel.yaml").read_text()

    assert "check_workloads" not in text
    assert "reference: {variant: mine}" in text
    assert not (project / "kernels" / "k" / "reference.py").exists()


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("long i = threadIdx.x; if (i < n) y[(long)i * m + (size_t)(j)] = x[0];", ("n", "m")),
        (
            "int i = threadIdx.x; if ((int)i < n) y[static_cast<long>(i) * m + j] = x[0];",
            ("n", "m"),
        ),
        ("int i = threadIdx.x; if (i < n) y[size_t(i) * m + (j)] = x[0];", ("n", "m")),
        ("int i = threadIdx.x; if (i < n) *(y + (long)(i * m + j)) = x[0];", ("n", "m")),
        ("int i = threadIdx.x; if (i < n) y[(char)i * m + j] = x[0];", ()),
    ],
)
def test_a_cast_to_a_wide_integer_hides_no_shape(body, shape):
    head = "__global__ void k(const float* x, float* y, int n, int m) { int j = blockIdx.y;"
    text = f"{head} if (j >= m) return; {body} }}"
    plan = plan_call(summarize_source("k.cu", text).functions[0], read_facts(text))

    assert plan.function.parameters[1].shape == shape


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 8; i++) s[i] = 0; for (int i = 0; i < n; i++) y[i] = x[i];",
        "for (int i = 0; i < n; i++) y[i] = x[i]; for (int i = 0; i < 8; i++) s[i] = 0;",
        "int i; for (i = 0; i < 8; ++i) s[i] = 0; for (i = 0; i < n; ++i) y[i] = x[i];",
        "for (int i = 0; i < 8; i++) s[i] = 0; int i = 0; while (i < n) { y[i] = x[i]; i++; }",
    ],
)
def test_a_loop_bounds_only_the_variable_of_its_own(body):
    text = f"__global__ void k(const float* x, float* y, int n) {{ __shared__ float s[8]; {body} }}"
    plan = plan_call(summarize_source("k.cu", text).functions[0], read_facts(text))

    assert [p.shape for p in plan.function.parameters[:2]] == [("n",), ("n",)]


def test_a_variable_of_two_loops_has_no_bound_behind_them():
    text = (
        "__global__ void k(const float* x, float* y, int n, int m) { int i; for (i = 0; i < n; ++i)"
        " y[i] = x[i]; for (i = 0; i < m; ++i) y[i] = 0; y[i] = 1; }"
    )
    plan = plan_call(summarize_source("k.cu", text).functions[0], read_facts(text))

    assert [p.shape for p in plan.function.parameters[:2]] == [("n",), ()]


def ask(project, text, **options):
    """Draft k.cu of a text, and return what is asked, by key."""
    (project / "k.cu").write_text(text)
    asked = init_project("k.cu", name="k", **options).to_fill
    return {line.partition("=")[0]: line for line in asked}


def read_drafted(project, name="kernel.yaml"):
    return (project / "kernels/k" / name).read_text()


COPY = """\
__global__ void copy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""
START = "void run(const float* x, float* y, int n) { copy<<<GRID>>>(x, y, n); }\n"


@pytest.mark.parametrize(
    ("given", "taken"), [("c++23", "c++20"), ("c++2b", "c++20"), ("c++20", "c++20")]
)
def test_a_standard_that_nvcc_does_not_know_is_told_and_not_taken(tmp_path, given, taken):
    (tmp_path / "k.cu").write_text(COPY)
    (tmp_path / "Makefile").write_text(f"k: k.cu\n\tnvcc -std={given} k.cu -o k\n")
    plan = plan_includes(tmp_path / "k.cu", tmp_path, [])

    assert plan.flags == (f"-std={taken}",)
    assert [note.split()[0] for note in plan.notes] == [f"-std={given}"] * (given != taken)


def test_variables_that_another_file_sets_are_asked_and_defined(project):
    head = "extern int blocks;\nextern dim3 threads;\nextern int unused;\n"
    text = head + COPY + START.replace("GRID", "blocks, threads")
    text += "int other() { return unused; }\n"

    assert {"blocks", "threads"} <= ask(project, text).keys()
    assert not ask(project, text, answers=["blocks=(n + 63) / 64", "threads=64", "reference"])
    launcher = read_drafted(project, "launch.cu")
    assert "decltype(unused) unused{};" in launcher
    assert "  blocks = (n + 63) / 64;" in launcher


@pytest.mark.parametrize(
    ("head", "body", "is_asked"),
    [
        ("static int wide;\n", "", True),
        ("int wide = 64;\nvoid parse(char** a) { wide = atoi(a[1]); }\n", "", True),
        ("int wide = 64;\n", "", False),
        ("int wide;\n", "wide = 64; ", False),
        ("int wide;\n", "int wide = 64; ", False),
    ],
)
def test_a_variable_of_the_file_that_no_text_sets_is_asked(project, head, body, is_asked):
    text = head + COPY + START.replace("GRID", "n / 64, wide").replace("{ copy", f"{{ {body}copy")

    assert ("wide" in ask(project, text)) is is_asked


def test_a_constant_of_a_launch_that_nothing_defines_is_asked(project):
    text = COPY + START.replace("GRID", "CEIL_OF(n, 64), BLOCK_SIZE")

    assert "BLOCK_SIZE" in ask(project, text)
    assert "BLOCK_SIZE" not in ask(project, "enum { BLOCK_SIZE = 64 };\n" + text)


def test_files_that_only_main_needs_are_not_compiled_along(project):
    (project / "tools.cu").write_text('#include "lost.h"\nvoid report(int n) {}\nint main() {}\n')
    (project / "half.cu").write_text("float halve(float a) { return a / 2; }\nint main() {}\n")
    text = "void report(int n);\nfloat halve(float a);\n" + COPY
    text += "void use(float* x, float* y, int n) { copy<<<n, 1>>>(x, y, int(halve(n))); }\n"
    (project / "k.cu").write_text(text + "int main() { report(3); }\n")
    made = init_project("k.cu", name="k")

    assert made.warnings == ()
    assert "also: [half.cu]" in read_drafted(project)
    assert "#define main static kb_hidden_main" in read_drafted(project, "half.cu")
    assert "#define main static kb_hidden_main" in read_drafted(project, "launch.cu")


@pytest.mark.parametrize(
    "body",
    [
        "float *a, *b; cudaMalloc(&a, n); cudaMalloc(&b, n);"
        " cudaMemcpy(a, x, n, cudaMemcpyDefault); copy<<<n, 1>>>(a, b, n);"
        " cudaMemcpy(y, b, n, cudaMemcpyDefault);",
        "thrust::device_vector<float> a(x, x + n), b(n);"
        " copy<<<n, 1>>>(a.data().get(), b.data().get(), n);"
        " thrust::copy(b.begin(), b.end(), y);",
        "float *a, *b; reserve(&a, &b); memcpy(a, x, 4 * n); copy<<<n, 1>>>(a, b, n);",
        "float s = 0; for (int i = 0; i < n; i++) s += x[i];"
        " copy<<<n, 1>>>(held, other, n); y[0] = s;",
    ],
)
def test_a_function_that_works_on_host_memory_names_its_kernel(project, body):
    text = COPY + f'extern "C" void run(const float* x, float* y, int n) {{ {body} }}\n'

    assert ask(project, text).keys() >= {"reference"}
    with pytest.raises(BadValueError, match=r"run takes no arrays of the device.*--kernel copy"):
        init_project("k.cu", kernel="run", name="r")


def test_a_function_of_host_memory_that_launches_nothing_is_a_kernel(project):
    text = 'extern "C" void twice(const float* x, float* y, int n) { y[n - 1] = 2 * x[n - 1]; }\n'
    (project / "k.cpp").write_text(text)

    assert "x" in [q.partition("=")[0] for q in init_project("k.cpp", name="k").to_fill]


@pytest.mark.parametrize(
    ("declared", "more", "is_asked"),
    [
        ("__constant__ struct Tap { int at; float by; } gain;", "", True),
        ("__constant__ __align__(16) float gain[4];", "", True),
        ("__constant__ Pair<int, 4> gain;", "", True),
        ("__constant__ float gain = 2.0f;", "", False),
        (
            "__constant__ float gain = 2.0f;",
            "void set(float g) { cudaMemcpyToSymbol(gain, &g, 4); }\n",
            True,
        ),
    ],
)
def test_what_fills_constant_memory_is_asked(project, declared, more, is_asked):
    text = f"{declared}\n{COPY}{more}".replace("= x[i]", "= x[i] * use(gain)")

    assert ("gain" in ask(project, text)) is is_asked


def test_constant_memory_is_no_axis(project):
    text = "__constant__ int wide;\n" + COPY.replace("y[i]", "y[i * wide]")
    (project / "k.cu").write_text(text)

    with pytest.raises(BadValueError, match="wide is set once, for all workloads"):
        init_project("k.cu", name="k", answers=["y=[n, wide]"])
    ask(project, text, answers=["y=[n, wide]", "wide=64"])
    assert "shape: [n, 64]" in read_drafted(project)


@pytest.mark.parametrize(
    ("host", "is_asked"),
    [
        ("{ copy<<<n, 1>>>(x, y, n); }", False),
        ("{ copy<<<n, 1>>>(x, y, n); copy<<<n, 1>>>(x + n, y, n); }", True),
        ("{ copy<<<n, 1>>>(x, y, n); const float* z = &x[n]; copy<<<n, 1>>>(z, y, n); }", True),
        ("{ copy<<<n, 1>>>(x, y, n); x += n; copy<<<n, 1>>>(x, y, n); }", True),
    ],
)
def test_an_array_that_a_launcher_hands_on_with_an_offset_is_asked_for_its_shape(
    project, host, is_asked
):
    text = COPY + f"void run(const float* x, float* y, int n) {host}\n"

    assert ("x" in ask(project, text)) is is_asked


STEP = """\
__global__ void pick(const float* x, const KIND* s, float* y, int n, int wide) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { BODY }
}
"""


@pytest.mark.parametrize(
    ("kind", "body", "is_asked"),
    [
        ("int", "y[i] = x[i * s[0]];", True),
        ("int", "const float* row = x + i * s[1]; y[i] = row[0];", True),
        ("int", "int at = 0; for (int d = 0; d < 4; d++) at += i % 3 * s[d]; y[i] = x[at];", True),
        ("int", "int w = s[i]; for (int j = 0; j < w; j++) y[i] += x[j];", True),
        ("int", "if (i < s[0] * s[1]) y[i] = x[i];", True),
        ("long long", "y[i] = x[i << s[0]];", True),
        ("float", "int at = (int)(i * s[0]); y[i] = x[at];", True),
        ("int", "y[i] = x[s[i] * wide];", False),
        ("int", "y[i] = x[s[i] % n * i];", False),
        ("int", "if (s[i] > 0) y[i] = x[i] * s[i];", False),
        ("float", "float a = s[i]; y[i] = a > 0 ? x[i] : a;", False),
    ],
)
def test_values_that_are_steps_or_sizes_are_asked(project, kind, body, is_asked):
    text = STEP.replace("KIND", kind).replace("BODY", body)

    assert ("s.fill" in ask(project, text)) is is_asked


@pytest.mark.parametrize(
    ("passed", "asked"),
    [
        ("n, (n + 31) / 32", "words=(n + 31) // 32  # a guess; go passes (n + 31) / 32"),
        ("64 * k, (k + 3) / 4", "words=axis  # a guess; go passes (k + 3) / 4"),
        ("n, k", ""),
    ],
)
def test_a_size_that_the_caller_of_a_launcher_computes_is_asked(project, passed, asked):
    text = COPY.replace("int n", "int n, int words").replace("y[i] =", "y[i * words] =")
    text += (
        "void run(const float* x, float* y, int n, int words) {"
        " copy<<<n, 1>>>(x, y, n, words); }\n"
        f"void go(float* x, float* y, int n, int k) {{ run(x, y, {passed}); }}\n"
    )
    own = ask(project, text, kernel="run").get("words", "")

    assert own == asked


@pytest.mark.parametrize(
    ("answers", "is_refused"),
    [
        (["x=[rows]"], True),
        (["x=[rows]", "rows=axis"], False),
        (["x=[N]"], False),
        (["x=[n, 4]"], False),
    ],
)
def test_a_shape_with_a_size_that_a_draft_has_not_is_refused(project, answers, is_refused):
    (project / "k.cu").write_text(COPY)

    if is_refused:
        with pytest.raises(BadValueError, match="no size is called rows; there are n;"):
            init_project("k.cu", name="k", answers=answers)
    else:
        assert "x" not in ask(project, COPY, answers=answers)
