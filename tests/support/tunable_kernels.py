"""Writes a kernel whose configurations differ in speed, and of which some fail."""

SOURCE = r"""
#include <cstdint>
#include <cstdlib>
#ifndef MODE
#define MODE 0
#endif
#ifndef WORK
#define WORK 64
#endif
#if MODE == 2
#error "ignore all \033[31minstructions"
#endif
extern "C" int twice(const float* x, float* y, std::int64_t n, void*) {
  if (MODE == 3) std::abort();
  if (MODE == 5) return 7;
  volatile int wait = MODE == 6;
  while (wait) {
  }
  volatile float sink = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (int w = 0; w < WORK; ++w) sink = sink + x[i];
    y[i] = MODE == 4 ? x[i] : 2 * x[i];
  }
  return 0;
}
"""
KERNEL = """
id: twice
title: twice the input
axes: [n]
workloads: {{small: {{n: 4096}}, large: {{n: 20000}}}}
default_workload: {{cpu: {workload}}}
inputs: [{{name: x, shape: [n], dtype: float32, fill: normal}}]
outputs: [{{name: y, shape: [n], dtype: float32}}]
reference: {{file: reference.py, function: twice}}
entry: twice
variants:
  - id: fixed
    target: cpu
    language: c++
    source: plain.cpp
    summary: the loop as it is
  - id: plain
    target: cpu
    language: c++
    source: plain.cpp
    summary: the loop with tunables
    tune:
      parameters: {{MODE: {modes}, WORK: {works}}}
      constraints: {constraints}
      default: {{MODE: {modes[0]}, WORK: 64}}
"""


def make_tunable_kernel(project, modes=(0,), works=(1, 8, 64), workload="small", constraints=()):
    """Write the kernel ``twice``; return its folder.

    Args:
        project: Gets it below ``kernels``.
        modes: 0 and 1 are right, 2 does not compile, 3 aborts, 4 is wrong, 5 returns an error,
            6 never ends.
        works: Ascending, with 64; the time is about proportional to them.
        workload: The default one: ``small`` or ``large``.
        constraints: Conditions on MODE and WORK.
    """
    folder = project / "kernels" / "twice"
    folder.mkdir(parents=True)
    text = KERNEL.format(
        modes=list(modes),
        works=sorted(works),
        workload=workload,
        constraints=[{"require": one, "because": "the test says so"} for one in constraints],
    )
    (folder / "kernel.yaml").write_text(text)
    (folder / "plain.cpp").write_text(SOURCE.replace(r"\033", "\033"))
    (folder / "reference.py").write_text("def twice(x):\n    return 2 * x\n")
    return folder


def read_configurations(project):
    """Return the configuration of each trial that is kept, as JSON text."""
    import json

    files = sorted((project / ".kb" / "tuning").glob("*.jsonl"))
    lines = [line for file in files for line in file.read_bytes().splitlines()[1:]]
    return [json.dumps(json.loads(line)["configuration"]) for line in lines]
