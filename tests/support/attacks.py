"""Kernels that try to pass a check or a bench without doing the work."""

from pathlib import Path

from broken_kernels import CORRECT_BODY

from kernelkb.model.records.measurement import Bench

CPU_HEAD = """\
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <vector>

static void honest(const float* x, float* y, std::int64_t rows, std::int64_t cols) {
@RIGHT@}

extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
  const std::size_t bytes = rows * cols * sizeof(float);
  (void)bytes;
""".replace("@RIGHT@", CORRECT_BODY)

CUDA_HEAD = """\
#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>
#include <unistd.h>
#include <vector>

__global__ void rows_kernel(const float* x, float* y, int cols) {
  const float* a = x + std::int64_t(blockIdx.x) * cols;
  float* b = y + std::int64_t(blockIdx.x) * cols;
  __shared__ float part[32];
  auto reduce = [&](float v, bool top) {
    for (int o = 16; o; o /= 2) {
      const float w = __shfl_xor_sync(~0u, v, o);
      v = top ? fmaxf(v, w) : v + w;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int i = 1; i < blockDim.x / 32; ++i) v = top ? fmaxf(v, part[i]) : v + part[i];
    return v;
  };
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) top = fmaxf(top, a[i]);
  top = reduce(top, true);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(a[i] - top);
  sum = reduce(sum, false);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) b[i] = expf(a[i] - top) / sum;
}

static void honest(const float* x, float* y, std::int64_t rows, std::int64_t cols, cudaStream_t s) {
  rows_kernel<<<rows, 256, 0, s>>>(x, y, int(cols));
}

extern "C" int softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void* at) {
  const std::size_t bytes = rows * cols * sizeof(float);
  cudaStream_t stream = static_cast<cudaStream_t>(at);
  (void)bytes;
"""

YAML = """\
id: attacked
title: Softmax, for candidates that are not to be trusted
axes: [rows, cols]
workloads:
  small: {{rows: 64, cols: 256}}
  middle: {{rows: 2048, cols: 1024}}
  large: {{rows: 16384, cols: 4096}}
default_workload: {{cpu: small, cuda: middle}}
check_workloads: [{{rows: 3, cols: 33}}]
inputs:
  - {{name: x, shape: [rows, cols], dtype: float32, fill: normal, scale: 2.0}}
outputs:
  - {{name: y, shape: [rows, cols], dtype: float32}}
reference: {{file: reference.py, function: softmax}}
cost: {{bytes: "8 * rows * cols", flops: "5 * rows * cols"}}
entry: softmax
variants:
  - id: candidate
    target: {target}
    language: {language}
    source: {source}
    returns: {returns}
    flags: {flags}
    summary: what an attacker would hand in
"""

REFERENCE = """\
import torch


def softmax(x):
    return torch.softmax(x, dim=-1)
"""


def write_attack(
    project: Path,
    body: str,
    *,
    python: bool = False,
    returns: bool = False,
    cuda: bool = False,
) -> str:
    """Write a kernel with one candidate into a project; return the kernel's name.

    Args:
        project: The project's folder.
        body: The body of the C function after ``CPU_HEAD``, or a whole Python file.
        python: Whether ``body`` is a Python file.
        returns: Whether the candidate returns its output; for Python functions.
        cuda: Whether the candidate is for a GPU; its body then follows ``CUDA_HEAD``.
    """
    folder = project / "kernels" / "attacked"
    folder.mkdir(parents=True, exist_ok=True)
    source = "candidate.py" if python else f"candidate.{'cu' if cuda else 'cpp'}"
    head = CUDA_HEAD if cuda else CPU_HEAD
    (folder / source).write_text(body if python else f"{head}{body}\n  return 0;\n}}\n")
    (folder / "reference.py").write_text(REFERENCE)
    language = "python" if python else "cuda" if cuda else "c++"
    flags = "[-pthread]" if language == "c++" else "[]"
    text = YAML.format(
        target="cuda" if cuda else "cpu",
        language=language,
        source=source,
        returns=str(returns).lower(),
        flags=flags,
    )
    (folder / "kernel.yaml").write_text(text)
    return "attacked"


def is_cpu_contended(found: Bench) -> bool:
    """Return whether other work made times vary, which leaves the bench undecided."""
    return found.disturbed_by in ("cpu-contention", "unsteady-times")
