"""Makes mutants loadable: C++ and CUDA in batches of one library each, Python as a file each."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.mutants.mutant import Mutant
from benchmarks.mutants.plan import load_kernels

from kernelkb.measure.worker.shared.messages.specs import Code

_BATCH_SIZE = {"c++": 60, "cuda": 24}
_COMPILER_TIMEOUT_S = 900.0
_CPU_COMMAND = ("g++", "-O1", "-std=c++17", "-w", "-shared", "-fPIC", "-fmax-errors=0",
                "-ftrivial-auto-var-init=pattern")  # fmt: skip
"""A variable without a value gets a fixed pattern: else what it holds would be luck."""
_CUDA_COMMAND = ("nvcc", "-O1", "-std=c++17", "-w", "-shared", "-Xcompiler", "-fPIC")
_PRELUDE = r"""
#include <cstring>
#ifdef __CUDACC__
#include <cuda_fp16.h>
#define EACH template <typename T> __host__ __device__ inline T
EACH to_half(T value) { return T(__half2float(__float2half(float(value)))); }
#else
#define EACH template <typename T> inline T
EACH to_half(T value) { return T(float(_Float16(float(value)))); }
#endif
EACH to_bfloat16(T value) {
  float wide = float(value);
  unsigned bits;
  memcpy(&bits, &wide, 4);
  bits &= 0xffff0000u;
  memcpy(&wide, &bits, 4);
  return T(wide);
}
EACH without_nan(T value) { return value == value ? value : T(0); }
EACH finite(T value) {
  if (double(value) > 3e38) return T(3e38f);
  return double(value) < -3e38 ? T(-3e38f) : value;
}
EACH clipped(T value) { return value > T(100) ? T(100) : value; }
EACH flushed(T value) { return value < T(1e-20f) && value > T(-1e-20f) ? T(0) : value; }
"""
"""What mutations call; see ``c_operators``."""


class Built(NamedTuple):
    """A mutant and how to load it."""

    mutant: Mutant
    code: Code | None
    """None: it does not compile."""


def build_mutants(
    mutants: Sequence[Mutant], folder: Path, *, workers: int, arch: str = "native"
) -> list[Built]:
    """Build mutants, in their order.

    Args:
        mutants: What to build.
        folder: Where libraries and files go.
        workers: Compilers side by side.
        arch: nvcc's ``-arch``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    batches: list[tuple[int, list[tuple[int, Mutant]]]] = []
    for language, size in _BATCH_SIZE.items():
        numbered = [(i, mutant) for i, mutant in enumerate(mutants) if mutant.language == language]
        batches += [
            (len(batches), numbered[at : at + size]) for at in range(0, len(numbered), size)
        ]
    batches = [(number, batch) for number, (_, batch) in enumerate(batches)]
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(lambda one: _build_batch(folder, one[0], one[1], arch), batches)
        codes = dict(itertools.chain.from_iterable(results))
    for index, mutant in enumerate(mutants):
        if mutant.language in ("python", "triton"):
            code = write_python_candidate(folder, index, mutant)
            codes |= {index: code} if code else {}
    return [Built(mutant, codes.get(index)) for index, mutant in enumerate(mutants)]


def write_python_candidate(folder: Path, index: int, mutant: Mutant) -> Code | None:
    """Write a Python mutant to a file of its own; None where it does not parse."""
    try:
        compile(mutant.source, mutant.name, "exec")
    except SyntaxError:
        return None
    file = folder / f"mutant_{index}.py"
    file.write_text(mutant.source, encoding="utf-8")
    return {
        "kind": "python",
        "file": str(file),
        "entry": mutant.kernel,
        "returns": True,
        "use_out": False,
        "compile": False,
    }


def build_originals(
    languages: Iterable[str], folder: Path, arch: str = "native"
) -> dict[str, Code]:
    """Build the unchanged kernels of some languages the same way; by ``kernel/variant``."""
    folder.mkdir(parents=True, exist_ok=True)
    originals = [
        Mutant(name, variant.id, variant.language, "dropped term", "none", 0, 0,
               (found.folder / variant.source).read_text(encoding="utf-8"), "")
        for name, found in load_kernels().items()
        for variant in found.kernel.variants
        if variant.language in languages
    ]  # fmt: skip
    built = build_mutants(originals, folder, workers=2, arch=arch)
    missing = [one.mutant.kernel for one in built if one.code is None]
    if missing:
        raise RuntimeError(f"originals do not compile: {', '.join(missing)}")
    return {f"{one.mutant.kernel}/{one.mutant.variant}": one.code for one in built if one.code}


def _build_batch(
    folder: Path, number: int, batch: list[tuple[int, Mutant]], arch: str
) -> list[tuple[int, Code]]:
    """Compile one library; leave out mutants that the compiler rejects, and compile again."""
    is_cuda = batch[0][1].language == "cuda"
    source = folder / f"batch_{number}.{'cu' if is_cuda else 'cpp'}"
    library = source.with_suffix(".so")
    command = [*_CUDA_COMMAND, f"-arch={arch}"] if is_cuda else list(_CPU_COMMAND)
    left = dict(batch)
    while left:
        source.write_text(_join_sources(left), encoding="utf-8")
        argv = [*command, "-o", str(library), str(source)]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=_COMPILER_TIMEOUT_S
        )
        if done.returncode == 0:
            return [(index, _c_code(library, index, mutant)) for index, mutant in left.items()]
        rejected = {int(n) for n in re.findall(r"mutant_(\d+)[:(][^\n]*error", done.stderr)}
        if not rejected & set(left):
            raise RuntimeError(f"{source} does not compile: {done.stderr[-2000:]}")
        left = {index: mutant for index, mutant in left.items() if index not in rejected}
    return []


def _c_code(library: Path, index: int, mutant: Mutant) -> Code:
    return {"kind": "c", "library": str(library), "entry": f"{mutant.kernel}_{index}"}


def _join_sources(mutants: dict[int, Mutant]) -> str:
    """Return one source: each mutant in a namespace, its entry point under a name of its own."""
    includes: dict[str, None] = {}
    parts = []
    for index, mutant in mutants.items():
        lines = mutant.source.split("\n")
        includes |= dict.fromkeys(line for line in lines if line.startswith("#include"))
        body = "\n".join("" if line.startswith("#include") else line for line in lines)
        body = body.replace(
            f'extern "C" int {mutant.kernel}(', f'extern "C" int {mutant.kernel}_{index}('
        )
        parts.append(f'namespace mutant_{index} {{\n#line 1 "mutant_{index}"\n{body}\n}}\n')
    return "\n".join([*includes, _PRELUDE, *parts])
