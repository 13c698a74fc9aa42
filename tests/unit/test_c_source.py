"""What a kernel's text says of how it is called; where it does not say, that must show."""

import pytest

from kernelkb.actions.init.init_source import summarize_source
from kernelkb.scaffold.python.source import list_skipped


def parse_single_function(text, name="k.cu"):
    """Return the one function that a file holds."""
    (function,) = summarize_source(name, text).functions
    return function


def parameter_roles(function):
    return {one.name: one.role for one in function.parameters}


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void __launch_bounds__(256) k",
        "__global__ __launch_bounds__(256, 2) void k",
        "__global__ void __launch_bounds__(32 * (4 + 4)) __cluster_dims__(2, 1, 1) k",
        'extern "C" __global__ void k',
        "static __global__ void k",
    ],
)
def test_attributes_between_global_and_the_name_are_skipped(head):
    function = parse_single_function(head + "(const float* x, float* y, int n) { y[0] = x[0]; }")

    assert function.name == "k"
    assert function.is_kernel
    assert parameter_roles(function) == {"x": "input", "y": "output", "n": "size"}


def test_a_literal_launch_bound_is_known():
    text = "__global__ void __launch_bounds__({}) k(float* y) {{ y[0] = 1; }}"

    assert parse_single_function(text.format(128)).max_threads == "128"
    assert parse_single_function(text.format("BLOCK")).max_threads == "BLOCK"


def test_a_declaration_is_not_a_second_kernel():
    text = "__global__ void k(float* y, int n);\n__global__ void k(float* y, int n) { y[0] = n; }"

    assert parse_single_function(text).name == "k"


@pytest.mark.parametrize(
    "body",
    [
        "y[idx[i]] = x[i];",
        "y[i]++;",
        "--y[i];",
        "reinterpret_cast<float4*>(y)[i] = v;",
        "((float4*)y)[i] = v;",
        "float* p = y + i; *p = x[i];",
        "store(y, i, x[i]);",
        "*y = x[i];",
        "y[i].x = x[i];",
        "atomicAdd(y, x[i]);",
        "atomicAdd(&y[i], x[i]);",
        "y[i] <<= 2;",
    ],
)
def test_an_array_that_may_be_written_is_an_output(body):
    function = parse_single_function(
        f"__global__ void k(float* x, int* idx, float* y, int i) {{ {body} }}"
    )

    assert parameter_roles(function)["y"] == "output"


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = x[i];",
        "y[i] = 2 * x[idx[i]] + x[i + 1];",
        "if (x[i] == 3 && x[i] <= 4 && x[i] != 5) y[i] = 1;",
        "y[i] = __ldg(&x[i]) + __ldg(x + i);",
        "float4 v = reinterpret_cast<const float4*>(x)[i]; y[i] = v.x;",
        "y[i] = *x;",
    ],
)
def test_an_array_that_is_only_read_is_an_input(body):
    function = parse_single_function(
        f"__global__ void k(float* x, const int* idx, float* y, int i) {{ {body} }}"
    )

    assert parameter_roles(function)["x"] == "input"


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("y[i] = x[i];", False),
        ("y[i] = x[i] + y[i];", True),
        ("y[i] += x[i];", True),
        ("y[i]++;", True),
        ("atomicAdd(y, x[i]);", True),
        ("atomicExch(&y[i], x[i]);", False),
        ("reinterpret_cast<float4*>(y)[i] = v;", False),
    ],
)
def test_reads_of_an_output_are_detected(body, read):
    function = parse_single_function(f"__global__ void k(float* x, float* y, int i) {{ {body} }}")

    assert function.parameters[1].is_read is read


def test_an_output_that_is_passed_on_is_not_sure():
    function = parse_single_function("__global__ void k(float* x, float* y) { y[0] = 1; load(x); }")

    assert [one.is_certain for one in function.parameters] == [False, True]


def test_a_const_pointer_is_not_a_pointer_to_const():
    function = parse_single_function(
        "__global__ void k(float const* __restrict__ x, float* const y) { y[0] = x[0]; }"
    )

    assert parameter_roles(function) == {"x": "input", "y": "output"}


def test_parameters_that_have_brackets_defaults_or_no_name():
    function = parse_single_function(
        'extern "C" int k(float x[], std::array<int, 2> a, const float*, float*, unsigned int, '
        "std::int64_t n = (1), void*) { return 0; }",
        "k.cpp",
    )

    assert [(one.name, one.type, one.role) for one in function.parameters] == [
        ("x", "float", "output"),
        ("a", "array<int, 2>", "number"),
        ("x0", "float", "input"),
        ("y0", "float", "output"),
        ("n0", "unsigned int", "size"),
        ("n", "int64_t", "size"),
        ("stream", "void", "stream"),
    ]


def test_only_the_last_void_pointer_of_a_launcher_is_a_stream():
    launcher = parse_single_function('extern "C" void k(const void* x, void* y, void* stream) {}')

    assert parameter_roles(launcher) == {"x": "input", "y": "output", "stream": "stream"}


def test_template_parameters_are_known():
    text = "template <typename T, int N>\n__global__ void k(const T* x, T* y) { y[0] = x[0]; }"

    assert parse_single_function(text).template == ("T", "N")
    assert (
        parse_single_function("template <typename T> T f();\n__global__ void k(int* y) {}").template
        == ()
    )


@pytest.mark.parametrize(
    ("text", "abi"),
    [
        ("int k(const float*, float*, std::int64_t n, void*)", True),
        ("int k(const int* x, float* y, int64_t n, int64_t m, cudaStream_t s)", True),
        ("void k(const float* x, float* y, std::int64_t n, void* stream)", False),
        ("int k(const float* x, float* y, int n, void* stream)", False),
        ("int k(float* y, const float* x, std::int64_t n, void* stream)", False),
        ("int k(const float* x, float* y, std::int64_t n)", False),
        ("int k(const float* x, float* y, float a, std::int64_t n, void* stream)", False),
    ],
)
def test_the_abi_of_a_variant_is_recognised(text, abi):
    assert parse_single_function(f'extern "C" {text} {{ return 0; }}', "k.cpp").is_variant is abi


def test_only_the_functions_of_an_extern_c_block_are_listed():
    seen = summarize_source(
        "k.cpp", 'extern "C" {\nint a(int* y) { if (y) { b(y); } return 0; }\nint c(int);\n}'
    )

    assert [one.name for one in seen.functions] == ["a"]


@pytest.mark.parametrize(
    "head",
    [
        "C10_LAUNCH_BOUNDS_1(256) __global__ void k",
        "__global__ void MY_LAUNCH_BOUNDS(256, 4) k",
        "EXPORT __global__ static\n__launch_bounds__(256)\nvoid k",
        "__global__\n#ifdef BOUND\nvoid __launch_bounds__(256)\n#else\nvoid\n#endif\nk",
    ],
)
def test_macros_around_the_head_hide_neither_the_kernel_nor_its_bound(head):
    function = parse_single_function(head + "(const float* x, float* y, int n) { y[0] = x[0]; }")

    assert (function.name, function.max_threads) == ("k", "256")


def test_a_bound_that_is_an_expression_of_types_does_not_hide_the_kernel():
    decltype = "__global__ __launch_bounds__(decltype(size(L{}))::value) void k(float* y) {}"
    template = "__global__ __launch_bounds__(Most<A, B>::value) void k(float* y) {}"

    assert parse_single_function(decltype).max_threads == "decltype(size(L{}))::value"
    assert parse_single_function(template).max_threads == "FILL_IN"


def test_parameters_between_preprocessor_lines_are_listed():
    function = parse_single_function(
        "__global__ void k(const float* x,\n#if SCALED  // see config.h\nfloat scale,\n#endif\n"
        "float* y) {\n#if FAST\ny[0] = x[0];\n#else\ny[1] = x[1];\n#endif\n}"
    )

    assert list(parameter_roles(function)) == ["x", "scale", "y"]


def test_branches_that_split_a_condition_do_not_hide_the_rest_of_the_file():
    text = """
    __global__ void a(float* y, int n) {
    #ifdef EXACT
      if (n == 4) {
    #else
      if (n <= 4) {
    #endif
        y[0] = 1; } }
    __global__ void b(float* y) { y[0] = 1; }
    """

    assert [one.name for one in summarize_source("k.cu", text).functions] == ["a", "b"]


def test_comments_and_strings_that_look_like_code_are_ignored():
    text = """
    // __global__ void no(float* y) { y[0] = 1; }
    const char* source = R"(__global__ void neither(float* y) { y[0] = 1; })";
    const char* mark = "/* no comment";
    /*
     # not a directive */
    __global__ void k(float* y /* the result; } */, int n) { y[0] = '}'; printf("y[0] = %d;", n); }
    """

    assert [one.name for one in summarize_source("k.cu", text).functions] == ["k"]


def test_nested_templates_are_parsed():
    function = parse_single_function("""
    template <typename T, template <typename, int> class Tile, int N = (4 >> 1), typename... Rest>
    __global__ void k(const Tile<std::pair<T, int>, N>* x, typename Tile<T, N>::type* y) {
      reinterpret_cast<Vec<T, 4>*>(y)[0] = *reinterpret_cast<const Vec<T, 4>*>(x);
    }""")

    assert function.template == ("T", "Tile", "N", "Rest")
    assert parameter_roles(function) == {"x": "input", "y": "output"}


def test_a_comment_between_template_parameters_is_no_parameter():
    text = "template <int N,  // of a block\ntypename T>\n__global__ void k(T* y) { y[0] = 1; }"

    assert parse_single_function(text).template == ("N", "T")


@pytest.mark.parametrize(
    ("body", "role", "read", "certain"),
    [
        ("float* row = x + i * 4; row[0] = 1;", "output", False, True),
        ("float* row; row = &x[i]; row[0] += 1;", "output", True, True),
        ("auto row = x + i; y[i] = row[0];", "input", False, True),
        ("if (x != nullptr) y[i] = 1;", "input", False, True),
        ("y[i] = x ? x[i] : 0.f;", "input", False, True),
        ("x += i; y[i] = *x;", "input", False, True),
        ("*x++ = 1;", "output", False, True),
        ("__stcs(x + i, 1.f);", "output", False, True),
        ("y[i] = (T)(x[i]) + T(1);", "input", False, True),
        ("View view(x, 4); view.set(1);", "output", False, False),
        ("auto& element = x[i]; element = 1;", "output", False, False),
        ("swap(x[i], y[i]);", "output", False, False),
    ],
)
def test_local_pointers_tests_and_calls_show_how_an_array_is_used(body, role, read, certain):
    function = parse_single_function(f"__global__ void k(float* x, float* y, int i) {{ {body} }}")
    x = function.parameters[0]

    assert (x.role, x.is_read, x.is_certain) == (role, read, certain)


def test_names_that_an_extension_binds_but_does_not_define_are_missing():
    text = """
    #include <torch/extension.h>
    torch::Tensor add_cuda(torch::Tensor x, torch::Tensor y);
    torch::Tensor add(torch::Tensor x, torch::Tensor y) { return add_cuda(x, y); }
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", &add); m.def("sub", &sub_cuda); }
    """
    seen = summarize_source("ext.cpp", text)

    assert seen.missing_functions == ("add_cuda", "sub_cuda")
    assert [one.name for one in seen.functions] == ["add", "sub_cuda"]


@pytest.mark.parametrize(
    ("name", "text", "target"),
    [
        ("k.cu", 'extern "C" int k(float* y, std::int64_t n, void*) { return 0; }', "cuda"),
        ("k.cpp", 'extern "C" int k(float* y, std::int64_t n, void*) { return 0; }', "cpu"),
        ("k.cpp", 'extern "C" int k(float* y, cudaStream_t s) { return 0; }', "cuda"),
        ("k.cpp", "PYBIND11_MODULE(N, m) { m.def(\"a\", [](at::Tensor x) { return x; }); }", "cpu"),
        ("k.cpp", "PYBIND11_MODULE(N, m) { m.def(); m.def(\"a\", &a); }", "cpu"),
        ("k.cpp", "#include <c10/cuda/CUDAStream.h>\nPYBIND11_MODULE(N, m) { m.def(\"a\", &a); }",
         "cuda"),
    ],
)  # fmt: skip
def test_the_text_says_where_it_runs(name, text, target):
    assert summarize_source(name, text).target == target


PYTHON = """\
import torch
import triton

@triton.jit
def k(x_ptr):
    pass

def add(x):
    k[(1,)](x)
    return x

torch.manual_seed(0)
{rest}
if __name__ == "__main__":
    add(torch.rand(3))
"""


@pytest.mark.parametrize(
    ("rest", "skipped"),
    [
        ("", []),
        ("block = triton.next_power_of_2(5)", []),
        ("print(add(torch.rand(3)))", ["print(add(torch.rand(3)))"]),
        ("out = add(torch.rand(3))\nlast = out", ["out = add(torch.rand(3))", "last = out"]),
        ("for n in range(3):\n    add(n)", ["for n in range(3):"]),
        ("assert add(1) == 1", ["assert add(1) == 1"]),
    ],
)
def test_code_that_runs_when_a_file_is_loaded_is_found(rest, skipped):
    assert list_skipped(PYTHON.format(rest=rest)) == skipped


def test_a_function_of_tensors_that_launches_through_a_macro_stands_before_its_kernel():
    text = """
#include <torch/extension.h>
template <typename T> __global__ void scale_kernel(const T* x, T* y, int n) { y[0] = x[0]; }
#define LAUNCH(T, x, y) scale_kernel<T><<<1, 256>>>(x.data_ptr<T>(), y.data_ptr<T>(), 4)
void check(const at::Tensor& x) { TORCH_CHECK(x.is_cuda()); }
at::Tensor scale(const at::Tensor& x, at::Tensor& y) { check(x); LAUNCH(float, x, y); return y; }
"""
    seen = summarize_source("k.cu", text)

    assert (seen.kind, [one.name for one in seen.functions]) == ("torch-extension", ["scale"])


def test_the_kernels_of_a_launcher_that_takes_a_structure_are_listed():
    text = """
__global__ void scale(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }
struct State { float* x; float* y; };
void run(State* s, int n) { scale<<<1, 32>>>(s->x, s->y, n); }
"""
    names = [one.name for one in summarize_source("k.cu", text).functions]

    assert sorted(names) == ["run", "scale"]
