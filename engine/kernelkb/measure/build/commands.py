"""Command lines of nvcc and g++ for a variant, by target and binding (C, tvm-ffi, torch)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import EnvironmentGapError, format_pip_command
from kernelkb.measure.machine.cached_facts import read_cache, write_cache
from kernelkb.measure.process.worker_jobs import worker_python
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.measurement import Machine

REPORT_NAME = "vectorization.txt"
LIBRARY_NAME = "kernel.so"
_SPLIT_COMPILE_SINCE = (12, 2)
"""First nvcc release with ``--split-compile``."""
_LEFT_TO_TORCH = (
    "HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_CONVERSIONS", "HALF2_OPERATORS"
)  # fmt: skip
"""Of ``COMMON_NVCC_FLAGS`` in torch/utils/cpp_extension.py, torch 2.11."""

_LAYOUT_SCRIPT = """
import importlib.util, json, sysconfig
def folder(name):
    spec = importlib.util.find_spec(name)
    return list(spec.submodule_search_locations)[0] if spec else None
print(json.dumps({"python": sysconfig.get_paths()["include"], "torch": folder("torch"),
                  "tvm_ffi": folder("tvm_ffi")}))
"""


class CompilerCommands(NamedTuple):
    """Commands that compile and link one variant, without the names of inputs and outputs."""

    device: list[str]
    """Compiles a .cu file."""
    host: list[str]
    """Compiles any other file."""
    link: list[str]
    """Links the objects to a library."""
    libraries: list[str]
    """Arguments that follow the inputs."""

    @property
    def read_folders(self) -> set[str]:
        """Folders that the compilers read in addition to the system's."""
        tools = {command[0] for command in (self.device, self.host, self.link) if command}
        paths = [Path(shutil.which(tool) or tool).resolve() for tool in tools]
        words = [*self.device, *self.host, *self.libraries]
        explicit = {word[2:] for word in words if word.startswith(("-I/", "-L/"))}
        return explicit | {str(path.parents[1]) for path in paths if len(path.parts) > 3}


def make_compiler_commands(
    variant: Variant, machine: Machine, host: str, defines: Sequence[str]
) -> CompilerCommands:
    """Return the compilers' command lines for a variant.

    Args:
        variant: What to compile.
        machine: Where it will run; its compiler is nvcc for a GPU, a C++ compiler for a CPU.
        host: The C++ compiler.
        defines: Macros of this configuration, as ``NAME=VALUE``.

    Raises:
        EnvironmentGapError: The variant needs torch's or tvm-ffi's headers and there are none.
    """
    includes, libraries = _binding_flags(variant, machine)
    macros = [f"-D{define}" for define in defines]
    linked = [flag for flag in variant.flags if flag.startswith(("-l", "-L"))]
    libraries = [*linked, *libraries]  # behind the source: a linker drops what nothing needs yet
    own = [flag for flag in variant.flags if flag not in linked]
    flags = [*_list_torch_macros(variant), *own, *macros, *includes]
    # In a torch extension for the GPU, host code only calls torch; -O3 would compile 4 s longer.
    host_only_binds = variant.binding == "torch-extension" and variant.target == "cuda"
    common = ["-O1" if host_only_binds else "-O3", "-std=c++17", *flags]
    cpp = [host, "-fPIC", *common]
    if variant.target == "cpu":
        cpp[1:1] = ["-march=native", "-fopenmp", "-g1", *_vectorization_report_flags(machine)]
        return CompilerCommands([], cpp, [host, "-shared", "-fopenmp"], libraries)
    toolkit = Path(machine.compiler).resolve().parents[1]
    sm = _format_sm_arch(machine.cc or "")
    arch = ["-gencode", f"arch=compute_{sm},code=sm_{sm}"]  # the shorthand -arch compiles twice
    nvcc = [machine.compiler, *arch, *_split_compile_flags(machine, defines)]
    device = [*nvcc, "-Xcompiler", "-fPIC", "-lineinfo", "-Xptxas", "-v", *common]
    link = [machine.compiler, *arch, "-shared", *_cuda_runtime_flags(toolkit)]
    return CompilerCommands(device, cpp, link, libraries)


def _list_torch_macros(variant: Variant) -> list[str]:
    """Return the macros under which torch compiles an extension's CUDA code.

    torch has operators of its own for half and bfloat16; beside those of cuda_fp16.h, an expression
    as ``a < b`` is ambiguous. A kernel that wants cuda_fp16.h's has ``-U`` flags, which follow.
    """
    if variant.binding != "torch-extension" or not variant.source.endswith(".cu"):
        return []
    return [f"-D__CUDA_NO_{name}__" for name in _LEFT_TO_TORCH]


def module_name(variant: Variant, digest: str) -> str | None:
    """Return the name that Python imports a torch extension by."""
    return f"kb_{digest}" if variant.binding == "torch-extension" else None


def _format_sm_arch(cc: str) -> str:
    """Return the real architecture: ``86``, ``90a``; "a" enables wgmma and its successors."""
    number = cc.replace(".", "")
    return f"{number}a" if number in ("90", "100", "103", "120", "121") else number


def _split_compile_flags(machine: Machine, defines: Sequence[str]) -> list[str]:
    """Return the flags that let nvcc optimise several kernels of one file in parallel.

    Files of several kernels compile in a quarter less time (nvcc 13.0, 4 cores). The machine code
    of every shipped kernel, and of those in ``benchmarks/kinds``, was identical. A sweep of
    configurations fills the cores without it.
    """
    release = re.search(r"release (\d+)\.(\d+)", machine.compiler_version)
    supported = release is not None and tuple(map(int, release.groups())) >= _SPLIT_COMPILE_SINCE
    return ["--split-compile", "0"] if supported and not defines else []


def _cuda_runtime_flags(toolkit: Path) -> list[str]:
    """Link the shared CUDA runtime where the toolkit has it: the static one links slower."""
    for name in ("lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"):
        if (toolkit / name / "libcudart.so").exists():
            return ["-cudart", "shared", "-Xlinker", f"-rpath={toolkit / name}"]
    return []


def _vectorization_report_flags(machine: Machine) -> list[str]:
    if "clang" in machine.compiler_version:
        return ["-Rpass=loop-vectorize", "-Rpass-missed=loop-vectorize"]
    return [f"-fopt-info-vec-optimized-missed={REPORT_NAME}"]


def _binding_flags(variant: Variant, machine: Machine) -> tuple[list[str], list[str]]:
    """Return a binding's compiler flags and its libraries."""
    if variant.binding == "c":
        return [], []
    layout = _find_package_layout()
    if variant.binding == "tvm-ffi":
        root = layout["tvm_ffi"]
        if root is None:
            gap = f"{worker_python()} has no tvm_ffi, which {variant.source} needs"
            cure = format_pip_command("apache-tvm-ffi", python=worker_python())
            raise EnvironmentGapError(gap, cure)
        return [f"-I{root}/include"], [f"-L{root}/lib", "-ltvm_ffi"]
    root = layout["torch"]
    if root is None:
        gap = f"{worker_python()} has no torch, which {variant.source} needs"
        raise EnvironmentGapError(gap, "set KB_PYTHON to the interpreter that has torch")
    includes = ["include", "include/torch/csrc/api/include"]
    names = ["c10", "torch_cpu", "torch", "torch_python"]
    flags = [*(f"-I{root}/{folder}" for folder in includes), f"-I{layout['python']}"]
    flags += ["-DTORCH_API_INCLUDE_EXTENSION_H", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    if machine.target == "cuda":
        names += ["c10_cuda", "torch_cuda"]
        flags += ["-DWITH_CUDA", f"-I{Path(machine.compiler).resolve().parents[1]}/include"]
        if variant.source.endswith(".cu"):
            flags += ["--expt-relaxed-constexpr"]
    return flags, [f"-L{root}/lib", *(f"-l{name}" for name in names)]


def _find_package_layout() -> dict[str, str | None]:
    """Return the folders of Python's headers, torch and tvm_ffi in the worker's interpreter."""
    python = worker_python()
    layout: dict[str, str | None] | None = read_cache("layout", python)
    if layout is None or any(f is not None and not Path(f).is_dir() for f in layout.values()):
        argv = [python, "-P", "-c", _LAYOUT_SCRIPT]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise EnvironmentGapError(f"{python} does not run: {last}", None)
        layout = json.loads(done.stdout)
        write_cache("layout", python, layout)
    return layout or {}
