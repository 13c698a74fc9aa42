"""kb init in a project that is not ours."""

import json
import shutil
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from kernelkb.actions.init import draft_run, init_project
from kernelkb.cli import main

TUTORIAL = """\
#include <cstdio>
__global__
void add(int n, float *x, float *y)
{
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  int stride = blockDim.x * gridDim.x;
  for (int i = index; i < n; i += stride)
    y[i] = x[i] + y[i];
}
int main(void)
{
  int n = 1 << 20;
  float *x, *y;
  add<<<(n + 255) / 256, 256>>>(n, x, y);
}
"""

OWN_TYPE = """\
struct Pair { float a; float2 b; };
__global__ void own(const Pair* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i].a;
}
"""

TRITON = """\
import torch
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pass

def add(x: torch.Tensor, y: torch.Tensor):
    out = torch.empty_like(x)
    add_kernel[(1,)](x, y, out, x.numel(), BLOCK=1024)
    return out
"""

EXTENSION = """\
#include <torch/extension.h>
torch::Tensor twice(torch::Tensor x) { return x * 2; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
"""

TASK = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(64, 32)]

def get_init_inputs():
    return []
"""

CANDIDATE = """\
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0)
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A project of somebody else's, with a source folder, entered."""
    (tmp_path / "mine" / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def test_inputs_and_outputs_of_a_tutorial_kernel_are_recognised(repository, capsys):
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    asked = main(["init"])
    said = capsys.readouterr().out
    code = main(["init", "src/add.cu", "--set", "reference=mine"])
    text = (repository / "kernels" / "add" / "kernel.yaml").read_text()

    assert (asked, code) == (1, 0)
    assert said.count("\nsay ") == 1
    assert "next: kb init src/add.cu --set reference=mine\n" in said
    assert "{name: x, shape: [n], dtype: float32, fill: normal}" in text
    assert "{name: y, shape: [n], dtype: float32, starts_as: y_start}" in text
    assert "say" not in capsys.readouterr().out


def test_an_unfilled_placeholder_is_an_error_at_its_line(repository, capsys):
    (repository / "src" / "own.cu").write_text(OWN_TYPE)
    main(["init"])
    refused = main(["show", "own"])
    path = repository / "kernels" / "own" / "kernel.yaml"
    text = path.read_text().replace("reference: FILL_IN", "reference: {variant: mine}")
    path.write_text(text.replace("shape: [FILL_IN]", "shape: [n, 2]").replace("FILL_IN", "float32"))
    accepted = main(["show", "own"])

    assert (refused, accepted) == (2, 0)
    assert "kernel.yaml:12:" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_the_launcher_compiles_with_the_source_as_it_stands(repository):
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    main(["init"])
    argv = ["nvcc", "-gencode", "arch=compute_90a,code=sm_90a", "-cubin", "-o", "/dev/null"]
    done = subprocess.run([*argv, "kernels/add/launch.cu"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_nothing_that_exists_is_written_over(repository, capsys):
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    (repository / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}')
    main(["init"])
    yaml = repository / "kernels" / "add" / "kernel.yaml"
    yaml.write_text("mine")
    capsys.readouterr()
    main(["init", "src/add.cu"])
    servers = json.loads((repository / ".mcp.json").read_text())["mcpServers"]

    assert yaml.read_text() == "mine"
    assert set(servers) == {"other", "kernelkb"}
    assert "kept  kernels/add/kernel.yaml" in capsys.readouterr().out


def test_several_kernels_are_named_and_one_is_asked_for(repository, capsys):
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    (repository / "src" / "more.py").write_text(TRITON)
    code = main(["init"])

    assert code == 2
    assert "name one: kb init FILE (src/add.cu, src/more.py)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "language", "binding"),
    [
        ("add.py", TRITON, "language: triton", "returns: true"),
        ("twice.cpp", EXTENSION, "language: c++", "binding: torch-extension"),
    ],
)
def test_other_kinds_get_a_draft_of_their_own(repository, name, text, language, binding):
    (repository / "src" / name).write_text(text)
    main(["init", f"src/{name}"])
    written = (repository / "kernels" / name.partition(".")[0] / "kernel.yaml").read_text()

    assert language in written
    assert binding in written


@pytest.mark.slow
def test_a_pair_of_kernelbench_needs_nothing_filled_in_and_works_from_any_folder(
    repository, monkeypatch, capsys
):
    (repository / "src" / "relu.py").write_text(TASK)
    (repository / "src" / "mine.py").write_text(CANDIDATE)
    made = main(["init", "src/relu.py", "--candidate", "src/mine.py", "--target", "cpu"])
    monkeypatch.chdir(repository / "src")
    timed = main(["bench", "relu", "--target", "cpu", "--budget", "1"])

    assert (made, timed) == (0, 0)
    assert "candidate" in capsys.readouterr().out


def test_a_project_without_a_kernel_is_reported(repository, capsys):
    code = main(["init"])

    assert code == 2
    assert "no kernel found below" in capsys.readouterr().err


def test_the_repository_root_is_the_project_from_any_subfolder(repository, monkeypatch):
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    monkeypatch.chdir(repository / "src")
    main(["init", "add.cu"])

    assert (repository / "kernels" / "add" / "kernel.yaml").is_file()
    assert sorted(path.name for path in (repository / "src").iterdir()) == ["add.cu"]


def run_init(repository, name, text, *argv):
    """Write a source, begin with it; return the code and what its folder holds, by name."""
    (repository / "src" / name).write_text(text)
    code = main(["init", f"src/{name}", *argv])
    folders = [one.parent for one in (repository / "kernels").glob("*/kernel.yaml")]
    return code, {one.name: one.read_text() for folder in folders for one in folder.iterdir()}


def compile_launcher(repository, folder, file="launch.cu"):
    """Return what nvcc complains of, as far as the front end goes."""
    argv = ["nvcc", "-arch=compute_90", "--ptx", "-o", "/dev/null"]
    done = subprocess.run(
        [*argv, str(repository / "kernels" / folder / file)], capture_output=True, text=True
    )
    return done.stderr if done.returncode else ""


def test_nothing_is_written_outside_the_repository(repository, monkeypatch):
    (repository.parent / "sessions").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    monkeypatch.chdir(repository / "src")
    main(["init", "add.cu"])

    assert (repository / "kernels" / "add" / "kernel.yaml").is_file()
    assert sorted(path.name for path in repository.parent.iterdir()) == ["mine", "sessions"]


def test_commands_below_a_folder_of_sources_called_kernels_see_the_project(
    repository, monkeypatch, capsys
):
    (repository / "csrc" / "kernels").mkdir(parents=True)
    (repository / "csrc" / "kernels" / "add.cu").write_text(TUTORIAL)
    main(["init", "--set", "reference"])
    monkeypatch.chdir(repository / "csrc")

    assert main(["show", "add"]) == 0


ABI = """\
#include <cstdint>
extern "C" int scale(const float* x, float* y, std::int64_t n, void*) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
  return 0;
}
"""


def test_a_source_with_our_own_interface_is_used_as_it_stands(repository):
    code, files = run_init(repository, "scale.cpp", ABI, "--set", "reference=mine")
    path = repository / "kernels" / "scale"
    built = main(["build", "scale", "--target", "cpu"])

    assert (code, built) == (0, 0)
    assert not (path / "reference.py").exists()
    assert files["launch.cpp"] == '#include "../../src/scale.cpp"\n'
    assert "entry: scale\n" in files["kernel.yaml"]
    assert "target: cpu\n    language: c++\n" in files["kernel.yaml"]


def test_another_c_function_for_a_cpu_gets_a_launcher_without_cuda(repository):
    text = 'extern "C" void twice(const float* in, float* out, int n) { out[0] = in[n - 1]; }\n'
    _, files = run_init(repository, "twice.cpp", text, "--target", "cpu")
    argv = ["c++", "-fsyntax-only", str(repository / "kernels" / "twice" / "launch.cpp")]
    done = subprocess.run(argv, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "cuda" not in files["launch.cpp"].lower()


@pytest.mark.parametrize(("name", "text"), [("add.cu", TUTORIAL), ("add.py", TRITON)])
def test_a_target_that_a_source_cannot_have_is_refused(repository, capsys, name, text):
    code, files = run_init(repository, name, text, "--target", "cpu")

    assert (code, files) == (2, {})
    assert "leave --target cpu out" in capsys.readouterr().err


def test_a_pair_without_a_target_uses_the_hardware_of_the_machine(repository, monkeypatch):

    environment = init_project.validate_machine
    monkeypatch.setattr(init_project, "validate_machine", lambda: environment("cpu"))
    (repository / "src" / "mine.py").write_text(CANDIDATE)
    code, files = run_init(repository, "relu.py", TASK, "--candidate", "src/mine.py")

    assert code == 0
    assert "target: cpu" in files["kernel.yaml"]


GATHER = """\
__global__ void gather(const int* idx, float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[idx[i]] = in[i];
}
void go() { int n = 64; int* a; float* b; gather<<<(n + 127) / 128, 128>>>(a, b, b, n); }
"""
KEYWORD = """\
__global__ void twice(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
"""
TILED = """\
template <typename T>
__global__ void tiled(const T* a, T* b, int N, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  if (i < n && j < N) b[j * n + i] = a[j * n + i];
}
"""


def test_names_that_python_keeps_for_itself_get_another(repository):
    _, files = run_init(repository, "gather.cu", GATHER)
    _, others = run_init(repository, "twice.cu", KEYWORD)

    assert "{name: in_, shape: [n], dtype: float32, fill: normal}" in others["kernel.yaml"]
    assert "{name: in_, shape: [n], dtype: float32, fill: normal}" in files["kernel.yaml"]
    assert "{name: idx, shape: [n], dtype: int32, fill: integers, scale: 32}" in files[
        "kernel.yaml"
    ]  # fmt: skip


def test_a_template_without_a_launch_is_asked_for_and_names_that_differ_in_case_are_told_apart(
    repository,
):
    _, files = run_init(repository, "tiled.cu", TILED)

    assert "tiled<FILL_IN><<<" in files["launch.cu"]
    assert "{name: a, shape: [n, n_], dtype: FILL_IN" in files["kernel.yaml"]
    assert "axes: [n, n_]" in files["kernel.yaml"]


def test_a_kernel_without_an_output_that_can_be_seen_is_marked(repository):
    text = "__global__ void k(const float* x, int n) { if (x[0] > n) __trap(); }\n"
    _, files = run_init(repository, "k.cu", text)

    assert "outputs:\n  - {name: FILL_IN" in files["kernel.yaml"]


def test_an_array_of_unknown_use_is_reported(repository):
    text = "__global__ void k(float* x, float* y, int n) { y[0] = load(x, n); }\n"
    _, files = run_init(repository, "k.cu", text)

    assert "  - FILL_IN  # x.role: one of input, output, both\n" in files["kernel.yaml"]


def test_of_several_kernels_one_is_asked_for_and_the_call_is_printed(repository, capsys):
    refused, files = run_init(repository, "two.cu", TUTORIAL + GATHER)
    said = capsys.readouterr().err
    code = main(["init", "src/two.cu", "--kernel", "gather"])
    unknown = main(["init", "src/two.cu", "--kernel", "scatter"])

    assert (refused, files, code, unknown) == (2, {}, 1, 2)
    assert "line 3: add (kernel)" in said
    assert "line 16: gather (kernel)" in said
    assert "kb init src/two.cu --kernel add" in said
    assert (repository / "kernels" / "gather" / "kernel.yaml").is_file()


def test_a_python_file_of_any_name_can_be_loaded(repository):
    text = "class triton:\n    jit = staticmethod(lambda f: f)\n"
    text += "@triton.jit\ndef kernel(x):\n    pass\n"
    text += "def add(x):\n    kernel[(1,)](x)\n    return x.contiguous()\n"
    _, files = run_init(repository, "01-vector-add.py", text)
    path = repository / "kernels" / "k_01_vector_add" / "launch.py"
    argv = [
        sys.executable,
        "-c",
        f"import runpy; print(runpy.run_path({str(path)!r})['kb_k_01_vector_add'])",
    ]
    done = subprocess.run(argv, capture_output=True, text=True)

    assert "<function kb_k_01_vector_add" in done.stdout, done.stderr
    assert "FILL_IN" not in files["launch.py"]


def test_what_a_python_file_runs_when_it_is_loaded_is_left_out(repository):
    text = "class triton:\n    jit = staticmethod(lambda f: f)\n"
    text += "@triton.jit\ndef kernel(x):\n    pass\n"
    text += "def add(x):\n    kernel[(1,)](x)\n    return x.clone()\n"
    text += "shown = add(3)\nassert shown == 4\n"
    _, files = run_init(repository, "add.py", text)
    argv = [sys.executable, str(repository / "kernels" / "add" / "launch.py")]
    done = subprocess.run(argv, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "shown = add(3)" in files["launch.py"]


def test_a_second_source_of_the_same_name_is_refused_and_may_have_another_name(repository, capsys):
    (repository / "other").mkdir()
    (repository / "other" / "add.cu").write_text(GATHER)
    run_init(repository, "add.cu", TUTORIAL)
    refused = main(["init", "other/add.cu"])
    said = capsys.readouterr().err
    again = main(["init", "src/add.cu"])
    named = main(["init", "other/add.cu", "--name", "other_add"])

    assert (refused, again, named) == (2, 1, 1)
    assert "kernels/add exists" in said
    assert "--name other_add" in said
    assert "id: other_add" in (repository / "kernels/other_add/kernel.yaml").read_text()


@pytest.mark.slow
def test_a_changed_candidate_is_not_taken_for_the_one_that_is_there(repository, capsys):
    (repository / "src" / "mine.py").write_text(CANDIDATE)
    argv = ["--candidate", "src/mine.py", "--target", "cpu"]
    run_init(repository, "relu.py", TASK, *argv)
    (repository / "src" / "mine.py").write_text(CANDIDATE.replace("min=0", "min=0.0"))
    refused = main(["init", "src/relu.py", *argv])
    named = main(["init", "src/relu.py", *argv, "--name", "relu_2"])

    assert (refused, named) == (2, 0)
    assert "kernels/relu exists" in capsys.readouterr().err
    assert "id: relu_2\n" in (repository / "kernels" / "relu_2" / "kernel.yaml").read_text()


def test_a_name_that_no_kernel_has_is_refused_with_one_that_it_may_have(repository, capsys):
    code, _ = run_init(repository, "add.cu", TUTORIAL, "--name", "My-Add")

    assert code == 2
    assert "try --name my_add" in capsys.readouterr().err


def test_shadowing_a_shipped_kernel_is_reported(repository, capsys):
    run_init(repository, "gemm.cu", TUTORIAL)

    assert "warning: kernels/gemm hides the kernel gemm" in capsys.readouterr().out


def run_init_beside_other_files(repository):
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    code = main(["init", "src/add.cu", "--set", "reference=mine"])
    return code, {path.name for path in (repository / "kernels" / "add").iterdir()}


def test_kb_init_leaves_unrelated_files_alone(repository):
    folder = repository / "kernels" / "add"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "notes.txt").write_bytes(b"\xff\xfe caf\xe9")
    (folder / "reference.py").write_text("def add(x, y):\n    return x + y\n")
    code, files = run_init_beside_other_files(repository)

    assert code == 0
    assert "kernel.yaml" in files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{ // mine\n}", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"mcpServers": []}', None),
        (b'{"mcpServers": ["x"]}', "has mcpServers that are not a JSON object"),
        (b'{"mcpServers": null}', None),
    ],
)
def test_the_client_config_is_extended_or_the_failure_is_reported(repository, capsys, text, said):
    (repository / ".mcp.json").write_bytes(text)
    run_init(repository, "add.cu", TUTORIAL)
    shown = capsys.readouterr().out
    left = (repository / ".mcp.json").read_bytes()

    if said is None:
        assert "wrote .mcp.json" in shown
        assert json.loads(left)["mcpServers"]["kernelkb"]["command"] == "kb-mcp"
    else:
        assert left == text
        assert f"kb-mcp is not in .mcp.json, which {said}" in shown
        assert "claude mcp add kernelkb -- kb-mcp" in shown


def test_a_file_in_place_of_a_folder_is_reported(repository, capsys):
    (repository / "kernels").write_text("mine")
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    code = main(["init", "src/add.cu"])

    assert code == 2
    assert "cannot write" in capsys.readouterr().err


def test_the_readme_of_sessions_names_a_command_that_there_is(repository):
    run_init(repository, "add.cu", TUTORIAL)
    text = (repository / "sessions" / "README.md").read_text()

    assert "kb session list" in text
    assert main(["session", "list"]) == 0


BINDING = """\
#include <torch/extension.h>
torch::Tensor add_cuda(torch::Tensor x);
torch::Tensor add(torch::Tensor x) { return add_cuda(x); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add", &add); }
"""


def test_the_sources_that_an_extension_needs_besides_are_named_beside_it(repository):
    (repository / "src" / "add_kernel.cu").write_text(
        "#include <torch/types.h>\ntorch::Tensor add_cuda(torch::Tensor x) { return x; }\n"
    )
    (repository / "src" / "unrelated.cu").write_text(TUTORIAL)
    _, files = run_init(repository, "add.cpp", BINDING)

    assert "also: [src_add_kernel.cu]" in files["kernel.yaml"]
    assert "target: cuda" in files["kernel.yaml"]
    assert files["src_add_kernel.cu"] == '#include "../../src/add_kernel.cu"\n'


def test_a_missing_extension_source_gets_a_placeholder(repository):
    _, files = run_init(repository, "add.cpp", BINDING)

    assert "also: [FILL_IN]" in files["kernel.yaml"]
    assert "add_cuda" in files["kernel.yaml"]


def test_an_extension_with_several_functions_needs_a_choice(repository, capsys):
    several = EXTENSION.replace(
        "PYBIND11", "torch::Tensor other(torch::Tensor x) { return x; }\nPYBIND11"
    ).replace("m.def", 'm.def("other", &other); m.def')
    code, _ = run_init(repository, "twice.cpp", several)

    assert code == 2
    assert "line 3: other (launcher)" in capsys.readouterr().err


def test_an_unfinished_draft_blocks_no_other_kernel_and_is_listed(repository, capsys):
    run_init(repository, "own.cu", OWN_TYPE)
    run_init(repository, "scale.cpp", ABI, "--set", "reference=mine")
    capsys.readouterr()
    codes = [main(["check"]), main(["show", "kernels"])]
    codes.append(main(["build", "scale", "--target", "cpu"]))

    assert codes == [0, 0, 0]
    assert (
        "unfinished draft kernels/own (kernel.yaml:12, kernel.yaml:17)" in capsys.readouterr().out
    )


@pytest.mark.parametrize("reference", ["mine", "x + y_start"])
@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_draft_that_fails_where_it_runs_is_no_success(
    repository, monkeypatch, capsys, is_wrong, reference
):
    """Stands for a GPU, on which finished drafts run once; their own reference compares nothing."""
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    wrong = SimpleNamespace(status="incorrect", detail="3 of 12 elements", sanitized=())
    right = SimpleNamespace(status="correct", detail=None, sanitized=("memcheck",))
    finding = SimpleNamespace(tool="memcheck", error_count=3, message="of 12 elements")
    report = SimpleNamespace(
        reason=None, findings=[finding] * is_wrong, finished_tools=("memcheck",)
    )
    built = SimpleNamespace(error=None)
    monkeypatch.setattr(draft_run, "check_variant", lambda *_: wrong if is_wrong else right)
    monkeypatch.setattr(draft_run, "prepare", lambda *_: MagicMock())
    monkeypatch.setattr(draft_run, "build_prepared", lambda *_: built)
    monkeypatch.setattr(draft_run, "lock_device", lambda _: nullcontext())
    monkeypatch.setattr(draft_run, "sanitize", lambda *_: report)
    ended = main(["init", "src/add.cu", "--set", f"reference={reference}"])

    assert ended == int(is_wrong)
    said, last = capsys.readouterr().out.splitlines()[-2:]  # the next step follows from the run
    assert (
        "not usable yet: " if is_wrong else "ran once under compute-sanitizer (memcheck)"
    ) in said
    assert ("of 12 elements" in said) == is_wrong
    assert ("nothing checks what it computes" in said) == (reference == "mine" and not is_wrong)
    assert last.startswith("next: correct the shapes" if is_wrong else "next: kb ")


MACRO_LAUNCHER = """\
#include <torch/extension.h>
__global__ void sum_kernel(float* a, float* b, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(y, a[i] * b[i]);
}
#define LAUNCHER(name)                                                                          \\
  torch::Tensor name(torch::Tensor a, torch::Tensor b) {                                        \\
    auto y = torch::zeros({1}, a.options());                                                    \\
    const int rows = a.size(0);                                                                 \\
    const int columns = a.size(1);                                                              \\
    name##_kernel<<<rows, columns>>>(reinterpret_cast<float*>(a.data_ptr()),                    \\
        reinterpret_cast<float*>(b.data_ptr()), y.data_ptr<float>(), rows * columns);           \\
    return y;                                                                                   \\
  }
LAUNCHER(sum)
"""


def test_a_question_without_a_line_says_so(repository, capsys):
    (repository / "src" / "sum.cu").write_text(MACRO_LAUNCHER)
    main(["init", "src/sum.cu"])
    asked = [line for line in capsys.readouterr().out.splitlines() if line.startswith("say ")]
    drafted = (repository / "kernels" / "sum" / "kernel.yaml").read_text()

    assert asked[:2] == [
        "say a=[rows, columns]  # a guess; no line tells it",
        "say b=?  # no line tells it",
    ]
    assert "fill: normal}  # perhaps [rows, columns]; fill assumed\n" in drafted
