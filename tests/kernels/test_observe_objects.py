"""kb init --from on methods of modules, on configurations, and on compiled extensions."""

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from kernelkb.actions.init.init_observed import init_observed
from kernelkb.actions.kernels.measure_variant import check_variant
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel

PARTS = """
import torch

class Gain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(1) * 3)

    def forward(self, x):
        return x * self.gain

def twice(x):
    return 2 * x
"""
PROGRAM = """
from dataclasses import dataclass

import torch
from torch import nn

import parts

@dataclass
class Options:
    heads: int = 4
    source: object = None

class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options, self.eps = options, 1e-5
        self.mix = nn.Linear(32, 32)
        self.layers = nn.Sequential(nn.GELU(), parts.Gain())
        self.register_buffer("shift", torch.ones(32))

    def forward(self, x, scale=0.5):
        heads = self.mix(x).unflatten(-1, (self.options.heads, -1)).softmax(-1)
        return self.layers(heads.flatten(-2)) * scale + self.shift + self.eps

def rotate(x, options):
    return parts.twice(x).roll(options.heads, -1)

class Counter:
    def __len__(self):
        return 3

def count(x, counter):
    return x * len(counter)

options = Options(source=print)
block = Block(options)
for rows in (8, 8, 12):
    block(torch.randn(rows, 32)).sum().backward()
    rotate(torch.randn(rows, 32), options)
    count(torch.randn(rows, 32), Counter())
"""
EXTENSION = """
#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

at::Tensor blend(const at::Tensor& x, const at::Tensor& y, double alpha) { return x + alpha * y; }
void negate(at::Tensor out, const at::Tensor& x) { out.copy_(-x); }
void shift(at::Tensor x) { x.add_(1); }

TORCH_LIBRARY(mylib, m) {
  m.def("blend(Tensor x, Tensor y, float alpha) -> Tensor");
  m.def("shift(Tensor(a!) x) -> ()");
}
TORCH_LIBRARY_IMPL(mylib, CPU, m) { m.impl("blend", blend); m.impl("shift", shift); }
PYBIND11_MODULE(myext, m) { m.def("negate", &negate); }
"""
EXTENSION_PROGRAM = """
import torch

import myext

def negative(x):
    out = torch.empty_like(x)
    myext.negate(out, x)
    return out

for rows in (8, 8, 12):
    x = torch.randn(rows, 32)
    torch.ops.mylib.blend(x, negative(x), 0.5)
    torch.ops.mylib.shift(x)
    myext.negate(torch.empty_like(x), x)
"""
COMMAND = shlex.join([sys.executable, "train.py"])


@pytest.fixture
def program(project):
    (project / "parts.py").write_text(PARTS)
    (project / "train.py").write_text(PROGRAM)
    return COMMAND


@pytest.mark.slow
def test_parameters_of_a_module_are_inputs_of_its_method(project, program):
    result = init_observed(program, "train:Block")
    kernel = load_kernel("block_").kernel
    names = {each.name for each in kernel.inputs}

    assert result.warnings == ()
    assert names == {"mix_weight", "mix_bias", "layers_1_gain", "shift", "x", "scale"}
    assert kernel.reference.is_torch
    assert "Block.forward(_build_module(Block, {" in (
        (project / "kernels" / "block_" / "observed.py").read_text()
    )


@pytest.mark.slow
def test_an_object_of_plain_attributes_is_written_into_the_call(program):
    init_observed(program, "train:rotate")
    checked = check_variant("rotate", "observed", target="cpu")

    assert checked.status == "correct", checked.detail


@pytest.mark.slow
def test_an_object_that_is_more_than_its_attributes_is_named(program):
    with pytest.raises(BadValueError, match=r"has no len\(\)"):
        init_observed(program, "train:count")


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extension")
    (folder / "myext.cpp").write_text(EXTENSION)
    root = Path(torch.__file__).parent
    headers = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include"]
    headers.append(sysconfig.get_paths()["include"])
    libraries = ["-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python", f"-L{root / 'lib'}"]
    argv = ["g++", "-shared", "-fPIC", "-O0", "-std=c++20", *(f"-I{each}" for each in headers)]
    argv += [folder / "myext.cpp", "-o", folder / "myext.so", *libraries]
    subprocess.run(argv, check=True)
    return folder / "myext.so"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "name", "inputs", "outputs"),
    [
        ("mylib::blend", "blend", ["x", "y", "alpha"], ["out"]),
        ("torch.ops.mylib.shift", "shift", ["x"], ["x_after"]),
        ("myext:negate", "negate", ["arg1"], ["arg0"]),
        ("train:negative", "negative", ["x"], ["out"]),
    ],
)
def test_an_operation_of_an_extension_is_recorded(
    project, extension, operation, name, inputs, outputs
):
    (project / "myext.so").symlink_to(extension)
    (project / "train.py").write_text(EXTENSION_PROGRAM)
    init_observed(COMMAND, operation)
    kernel = load_kernel(name).kernel
    checked = check_variant(name, "observed", target="cpu")

    assert [each.name for each in kernel.inputs] == inputs
    assert [each.name for each in kernel.outputs] == outputs
    assert kernel.reference.recorded
    assert checked.status == "correct", checked.detail


@pytest.mark.slow
def test_an_output_that_held_its_result_before_the_call_is_found(project, extension):
    (project / "myext.so").symlink_to(extension)
    (project / "train.py").write_text(
        "import torch\nimport myext\n\nx = torch.randn(8, 32)\nout = -x\nmyext.negate(out, x)\n"
    )
    init_observed(COMMAND, "myext:negate")
    kernel = load_kernel("negate").kernel

    assert [each.name for each in kernel.inputs] == ["arg1"]
    assert [each.name for each in kernel.outputs] == ["arg0"]


@pytest.mark.slow
def test_functions_of_an_extension_that_may_be_meant_are_named(project, extension):
    (project / "myext.so").symlink_to(extension)
    (project / "train.py").write_text(EXTENSION_PROGRAM)

    with pytest.raises(BadValueError, match=r"its extensions have [^;]*\bmyext:negate\b"):
        init_observed(COMMAND, "negated")
