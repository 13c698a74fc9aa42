"""kb init --from on a program with Triton kernels: interpreted on a CPU, or on a GPU."""

import importlib.util
import shlex
import subprocess
import sys
from functools import cache

import pytest

from kernelkb.actions.init.init_observed import init_observed
from kernelkb.actions.kernels.measure_variant import check_variant
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.cli import main
from kernelkb.loading.kernels import load_kernel

PROGRAM = """
import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The interpreter has no clock of its own.
CLOCK = {} if DEVICE == "cuda" else {"do_bench": lambda call, quantiles: [call() or 1.0] * 3}

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], ["n"], **CLOCK)
@triton.jit
def fma_kernel(x, y, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = at < n
    tl.store(out + at, tl.load(x + at, kept) * factor + tl.load(y + at, kept), kept)

@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["cols"])})
@triton.jit
def softmax_kernel(out, x, stride, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * stride + at, at < cols, other=-float("inf"))
    e = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * stride + at, e / tl.sum(e, 0), at < cols)

def blend(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    fma_kernel.fn.warmup(x, y, out, n, 0.5, BLOCK=64, grid=(1,))
    fma_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 0.5)
    return out

def softmax(x):
    out = torch.empty_like(x)
    launch = softmax_kernel[(x.shape[0],)]
    launch(out, x, x.stride(0), x.shape[1])
    return out

class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return blend(x, y)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 0.5, gradient

for rows in (4, 4, 6):
    x = torch.randn(rows * (1 if DEVICE == "cpu" else 1000), 100, device=DEVICE)
    Blend.apply(softmax(x), x)
"""
COMMAND = shlex.join([sys.executable, "ops.py"])


@cache
def has_gpu():
    return validate_machine("cuda").machine is not None


@pytest.fixture
def program(project):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("no Triton")
    (project / "ops.py").write_text(PROGRAM)
    return COMMAND


@pytest.fixture
def interpreted_program(program, monkeypatch):
    if has_gpu():
        pytest.skip("the program would use the GPU")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return program


def read(project, name, file):
    return (project / "kernels" / name / file).read_text()


@pytest.mark.slow
def test_a_tuned_kernel_is_launched_as_in_the_end(project, interpreted_program):
    result = init_observed(interpreted_program, "fma_kernel")
    kernel = load_kernel("fma_kernel").kernel
    code = read(project, "fma_kernel", "observed.py")
    checked = check_variant("fma_kernel", "observed", target="cpu")

    assert [each.name for each in kernel.inputs] == ["x", "y", "factor"]
    assert [each.name for each in kernel.outputs] == ["out"]
    assert "((4, 100), (4, 100)): ((7,), {'BLOCK': 64" in code
    assert "autotune" not in code
    assert any("launches Triton kernels" in text for text in result.warnings)
    assert checked.status == "correct", checked.detail


@pytest.mark.slow
def test_a_launched_kernel_has_its_recorded_outputs_as_the_reference(project, interpreted_program):
    init_observed(interpreted_program, "softmax_kernel")
    kernel = load_kernel("softmax_kernel").kernel

    assert kernel.reference.recorded
    assert "cols=x.shape[1]" in read(project, "softmax_kernel", "observed.py")
    assert {each.target: each.language for each in kernel.variants} == {
        "cpu": "python",
        "cuda": "triton",
    }


@pytest.mark.slow
def test_a_function_that_launches_a_kernel_is_no_reference(project, interpreted_program):
    init_observed(interpreted_program, "ops:Blend")
    kernel = load_kernel("blend").kernel

    assert kernel.reference.recorded
    assert kernel.variants[-1].kernels == ("fma_kernel",)
    assert "Blend.apply(x, y)" in read(project, "blend", "observed.py")


@pytest.mark.gpu
def test_on_a_gpu_a_recorded_function_is_checked_against_its_recorded_outputs(project, program):
    if not has_gpu():
        pytest.skip("no GPU that torch sees, or no nvcc")
    result = init_observed(program, "ops:softmax")
    checked = check_variant(result.kernel, "observed", target="cuda")

    assert result.next == f"kb variant add {result.kernel} mine --from observed"
    assert checked.status == "correct", checked.detail


@pytest.mark.gpu
def test_on_a_gpu_a_recorded_launch_repeats_itself(project, program):
    if not has_gpu():
        pytest.skip("no GPU that torch sees, or no nvcc")
    init_observed(program, "fma_kernel")
    checked = check_variant("fma_kernel", "observed", target="cuda")

    assert checked.status == "correct", checked.detail


LEGACY = """
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int n) { twice<<<(n + 255) / 256, 256>>>(x, y, n); }
"""
CALLS_LEGACY = """
import ctypes
from pathlib import Path
import torch

library = ctypes.CDLL(str(Path(__file__).with_name("liblegacy.so")))

def twice(x):
    y = torch.empty_like(x)
    library.run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), x.numel())
    return y
"""


@pytest.mark.gpu
def test_on_a_gpu_a_kernel_of_the_default_stream_is_not_timed_in_an_empty_graph(project, capsys):
    """A recorded output is right whether a replay computes it or not."""
    if not has_gpu():
        pytest.skip("no GPU that torch sees, or no nvcc")
    (project / "legacy.cu").write_text(LEGACY)
    (project / "legacy.py").write_text(CALLS_LEGACY)
    (project / "train.py").write_text(
        "import torch, legacy\nlegacy.twice(torch.randn(1 << 20, device='cuda'))\n"
    )
    argv = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "legacy.cu", "-o", "liblegacy.so"]
    subprocess.run(argv, cwd=project, check=True)
    init_observed(shlex.join([sys.executable, "train.py"]), "legacy:twice")
    main(["variant", "add", "twice", "mine", "--from", "observed"])
    main(["bench", "twice", "--variant", "mine", "--against", "observed", "--budget", "1"])
    told = capsys.readouterr().out

    assert "timed call by call" in told
    assert "another stream than the given" in told
