"""kb init in a project that is not ours."""

import json
import shutil
import subprocess

import pytest

from engine.cli import main

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
int main(void) { return 0; }
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

NEW = """\
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


def test_a_tutorials_kernel_is_found_and_what_it_writes_is_told_from_what_it_reads(
    repository, capsys
):
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    code = main(["init"])
    text = (repository / "kernels" / "add" / "kernel.yaml").read_text()

    assert code == 1
    assert "{name: x, shape: [n], dtype: float32, fill: normal}" in text
    assert "{name: y, shape: [n], dtype: float32, starts_as: y_start}" in text
    assert "fill in kernel.yaml:" in capsys.readouterr().out


def test_a_mark_is_refused_at_its_place_until_it_is_filled_in(repository, capsys):
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    main(["init"])
    refused = main(["show", "add"])
    path = repository / "kernels" / "add" / "kernel.yaml"
    path.write_text(path.read_text().replace("function: FILL_IN", "function: add"))
    accepted = main(["show", "add"])

    assert (refused, accepted) == (2, 0)
    assert "kernel.yaml:18:" in capsys.readouterr().err


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
        ("twice.cpp", EXTENSION, "language: cuda", "binding: torch-extension"),
    ],
)
def test_other_kinds_get_a_draft_of_their_own(repository, name, text, language, binding):
    (repository / "src" / name).write_text(text)
    code = main(["init", f"src/{name}"])
    written = (repository / "kernels" / name.partition(".")[0] / "kernel.yaml").read_text()

    assert code == 1
    assert language in written
    assert binding in written


def test_a_pair_of_kernelbench_needs_nothing_filled_in_and_works_from_any_folder(
    repository, monkeypatch, capsys
):
    (repository / "src" / "relu.py").write_text(TASK)
    (repository / "src" / "mine.py").write_text(NEW)
    made = main(["init", "src/relu.py", "--candidate", "src/mine.py", "--target", "cpu"])
    monkeypatch.chdir(repository / "src")
    timed = main(["bench", "relu", "--target", "cpu", "--budget", "1"])

    assert (made, timed) == (0, 0)
    assert "candidate" in capsys.readouterr().out


def test_a_project_without_a_kernel_is_told_what_was_looked_for(repository, capsys):
    code = main(["init"])

    assert code == 2
    assert "no kernel below" in capsys.readouterr().err


def test_the_repository_is_the_project_from_whichever_folder_it_begins(repository, monkeypatch):
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    (repository / "src" / "add.cu").write_text(TUTORIAL)
    monkeypatch.chdir(repository / "src")
    main(["init", "add.cu"])

    assert (repository / "kernels" / "add" / "kernel.yaml").is_file()
    assert sorted(path.name for path in (repository / "src").iterdir()) == ["add.cu"]
