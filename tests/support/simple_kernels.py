"""Small CPU kernels that double their input, or fail to in one way."""

from pathlib import Path

KERNEL = """
id: {name}
title: twice the input
axes: [n]
workloads: {{small: {{n: 4096}}, large: {{n: 20000}}}}
default_workload: {{cpu: large, cuda: large}}
inputs: [{{name: x, shape: [n], dtype: float32, fill: normal}}]
outputs: [{{name: y, shape: [n], dtype: float32}}]
reference: {{file: reference.py, function: twice}}
entry: twice
variants:
  - {{id: plain, target: {target}, language: {language}, source: {source}, summary: a loop}}
"""
SOURCE = """
#include <cstdint>
#include <cstdlib>
extern "C" int twice(const float* x, float* y, std::int64_t n, void*) {
  for (std::int64_t i = 0; i < n; ++i) {
    BODY
  }
  return 0;
}
"""
BODIES = {
    "good": "y[i] = 2 * x[i];",
    "wrong": "y[i] = x[i];",
    "broken": "y[i] = nothing;",
    "aborts": "std::abort();",
}
REFERENCE = "def twice(x):\n    return 2 * x\n"
# The judge is a child of the worker that Dask started.
KILLING_REFERENCE = """
import os
import signal
from pathlib import Path


def twice(x):
    process = os.getpid()
    while process > 1:
        if b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 2 * x
"""
GPU_SOURCE = (
    '#include <cstdint>\nextern "C" int twice(const float*, float*, std::int64_t, void*);\n'
)


def write_kernel(project, name, body="good", *, reference=REFERENCE, is_cuda=False):
    """Write a kernel folder of that name and return its path."""
    folder = Path(project) / "kernels" / name
    folder.mkdir(parents=True)
    fields = ("cuda", "cuda", "plain.cu") if is_cuda else ("cpu", "c++", "plain.cpp")
    target, language, source = fields
    text = KERNEL.format(name=name, target=target, language=language, source=source)
    (folder / "kernel.yaml").write_text(text)
    (folder / "reference.py").write_text(reference)
    (folder / source).write_text(GPU_SOURCE if is_cuda else SOURCE.replace("BODY", BODIES[body]))
    return folder
