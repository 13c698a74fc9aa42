"""Writes kernels with one fault each, derived from row_softmax."""

import shutil
from pathlib import Path

from kernelkb.safety.paths import shipped_folder

HEAD = """\
// without cmath, which takes most of the time of compiling one of these
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
extern "C" int row_softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols, void*) {
"""

CORRECT_BODY = """\
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    float top = a[0], sum = 0;
    for (std::int64_t i = 1; i < cols; ++i) top = a[i] > top ? a[i] : top;
    for (std::int64_t i = 0; i < cols; ++i) sum += b[i] = __builtin_expf(a[i] - top);
    for (std::int64_t i = 0; i < cols; ++i) b[i] /= sum;
  }
"""

HUGE_ALLOCATION = (
    "  volatile char* p = (volatile char*)std::malloc((std::size_t)1 << 60);\n  p[0] = 1; return 0;"
)
WRONG_AFTER_30_CALLS = "  if (++calls > 30) std::memset(y, 0, rows * cols * 4);\n  return 0;"
FAILS_BESIDE_TORCH = """\
  char line[4096];
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  while (maps && std::fgets(line, sizeof line, maps)) if (std::strstr(line, "libtorch")) return 7;
  return maps ? std::fclose(maps) : 8;"""
WRITES_NAN = (
    '  for (std::int64_t i = 0; i < rows * cols; ++i) y[i] = __builtin_nanf("");\n  return 0;'
)
ONE_PERCENT_OFF = "  for (std::int64_t i = 0; i < rows * cols; ++i) y[i] *= 1.01f;\n  return 0;"

SCRATCH_ASSUMED_ZERO = (
    "  float* scratch = (float*)std::malloc(rows * cols * 4 + (1 << 20));\n"
    "  for (std::int64_t i = 0; i < rows * cols; ++i) scratch[i] += y[i];\n"
    "  std::memcpy(y, scratch, rows * cols * 4);\n  std::free(scratch);\n  return 0;"
)

BODIES = {
    "right": CORRECT_BODY + "  return 0;",
    "zeros": "  std::memset(y, 0, rows * cols * 4); return 0;",
    "one-percent-off": CORRECT_BODY + ONE_PERCENT_OFF,
    "last-element": CORRECT_BODY + "  y[rows * cols - 1] = __builtin_nanf(\"\"); return 0;",
    "nothing-written": "  return 0;",
    "nan": WRITES_NAN,
    "input-changed": CORRECT_BODY + "  const_cast<float*>(x)[0] = 0; return 0;",
    "odd-columns": CORRECT_BODY + "  if (cols == 33) y[0] += 0.5f;\n  return 0;",
    "fails-beside-torch": CORRECT_BODY + FAILS_BESIDE_TORCH,
    "scratch-assumed-zero": CORRECT_BODY + SCRATCH_ASSUMED_ZERO,
    "code-7": CORRECT_BODY + "  return 7;",
    "segfault": "  *(volatile int*)8 = 1; return 0;",
    "abort": "  std::abort();",
    "exit": "  std::exit(0);",
    "endless": "  volatile long n = 0; for (;;) n = n + 1;",
    "prints-a-result": CORRECT_BODY + '  std::puts("{\\"cases\\": []}"); return 0;',
    "too-much-memory": HUGE_ALLOCATION,
    "right-only-at-first": "  static int calls = 0;\n" + CORRECT_BODY + WRONG_AFTER_30_CALLS,
    "does-not-compile": "  int x = ;",
}  # fmt: skip

WORKLOADS = "{tiny: {rows: 16, cols: 128}, small: {rows: 64, cols: 256}}"


def make_broken_kernel(project: Path, fault: str, name: str = "broken") -> Path:
    """Write a kernel into a project; ``fault`` selects the body of its naive CPU variant."""
    folder = project / "kernels" / name
    shutil.copytree(Path(shipped_folder("kernels")) / "row_softmax", folder)
    (folder / "naive.cpp").write_text(HEAD + BODIES[fault] + "\n}\n")
    text = (folder / "kernel.yaml").read_text()
    start, end = text.index("workloads:"), text.index("default_workload:")
    text = text[:start] + f"workloads: {WORKLOADS}\n" + text[end:]
    text = text.replace("{cpu: large, cuda: xlarge}", "{cpu: small, cuda: small}")
    (folder / "kernel.yaml").write_text(text.replace("id: row_softmax", f"id: {name}"))
    return folder
