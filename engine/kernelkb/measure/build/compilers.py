"""The compilers of a variant: command lines of nvcc and g++, and what their output says.

A command line depends on target and binding (C, tvm-ffi, torch). The output tells the first error,
(un)vectorised loops, registers and spills.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import EnvironmentGapError, format_pip_command
from kernelkb.measure.machine.cached_facts import read_cache, write_cache
from kernelkb.measure.process.worker_jobs import worker_python
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.measurement import KernelResources, Loop, Machine

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
        link = [host, "-shared", "-fopenmp", *_whole_library_flags(variant)]
        return CompilerCommands([], cpp, link, libraries)
    toolkit = _find_toolkit(machine.compiler)
    sm = _format_sm_arch(machine.cc or "")
    arch = ["-gencode", f"arch=compute_{sm},code=sm_{sm}"]  # the shorthand -arch compiles twice
    nvcc = [machine.compiler, *arch, *_split_compile_flags(machine, defines)]
    device = [*nvcc, "-Xcompiler", "-fPIC", "-lineinfo", "-Xptxas", "-v", *common]
    link = [machine.compiler, *arch, "-shared", *_cuda_runtime_flags(toolkit)]
    link += [f"-Xlinker={each}" for each in _whole_library_flags(variant)]
    host_code = [
        *_drop_flags_of_nvcc(cpp),
        f"-I{toolkit}/include",
    ]  # nvcc adds the folder of its headers itself
    return CompilerCommands(device, host_code, link, libraries)


def _find_toolkit(nvcc: str) -> Path:
    """Return the folder of the CUDA toolkit: where its headers are, also where nvcc is a script."""
    own = Path(nvcc).resolve().parents[1]
    folders = (own, Path("/usr/local/cuda"))
    return next((each for each in folders if (each / "include/cuda_runtime.h").is_file()), own)


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


_FLAG_OF_NVCC = re.compile(
    r"--(?!std=)|-(?:rdc|dc|dlto|arch|code|gencode|maxrregcount|lineinfo|use_fast_math|ftz|prec-"
    r"|fmad|expt-|extended-|extra-device-|threads|split-compile|default-stream|restrict$|G$|X[a-z])"
)
_PASSES_ON = ("-Xptxas", "-Xcompiler", "-Xlinker", "-gencode", "-arch", "--ptxas-options")


def _drop_flags_of_nvcc(words: Sequence[str]) -> list[str]:
    """Return a command of the C++ compiler without the options that only nvcc takes."""
    pairs = zip(["", *words], words, strict=False)
    return [
        word for last, word in pairs if last not in _PASSES_ON and not _FLAG_OF_NVCC.match(word)
    ]


def _whole_library_flags(variant: Variant) -> list[str]:
    """Return the linker's option that refuses a library which lacks a function it calls.

    Such a library cannot be loaded. A binding's own libraries are loaded before, and those of a
    sanitizer with the program.
    """
    is_open = variant.binding != "c" or any("-fsanitize" in flag for flag in variant.flags)
    return [] if is_open else ["-Wl,-z,defs" if variant.target == "cpu" else "-z,defs"]


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
        flags += ["-DWITH_CUDA"]
        if variant.source.endswith(".cu"):
            flags += ["--expt-relaxed-constexpr"]
    return flags, [f"-L{root}/lib", *(f"-l{name}" for name in names)]


def require_cuda_torch(variant: Variant, machine: Machine) -> None:
    """Check that a CUDA extension can be linked, before minutes are spent on compiling it.

    Raises:
        EnvironmentGapError: The worker's torch is one for CPUs only.
    """
    if variant.binding != "torch-extension" or machine.target != "cuda":
        return
    root = _find_package_layout()["torch"]
    if root is not None and not any(Path(root, "lib").glob("*torch_cuda.*")):
        gap = f"{worker_python()} has a torch for CPUs only, and {variant.source} is a CUDA "
        cure = "install torch for CUDA, or set KB_PYTHON to the interpreter that has it"
        raise EnvironmentGapError(f"{gap}extension, which cannot be linked with it", cure)


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


_ERROR = re.compile(
    r"^(?P<place>[^\s:(][^:(]*[:(]\d+\)?(?::\d+)?): "
    r"(?:fatal |catastrophic )?[Ee]rror\s*(?:#[\w-]+)?: (?P<text>.+)$"
)
_ANY_ERROR = re.compile(
    r"(?:^|: )(?:[Ff]atal )?[Ee]rror\s*: .+|undefined reference.+"
    r"|(?:ptxas|nvlink|nvcc) +(?:fatal|error).+"
    r"|(?:^|[/\w-])ld(?:\.\w+)?: (?!warning|.*: in function |.*skipping incompatible ).+"
)
_RESULT_OF_AN_ERROR = re.compile(r"collect2: |ninja: |make(?:\[\d+\])?: \*\*\*|final link failed")
"""Lines of a tool whose part failed, which said why before."""
_GCC_LINE = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+):\d+: +(?P<kind>missed|optimized): +(?P<text>.+)$"
)
_CLANG_LINE = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+):\d+: remark: (?P<text>.+?) "
    r"\[-Rpass(?:-missed)?=loop-vectorize\]$"
)
_PTXAS_KERNEL = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_PTXAS_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<store>\d+) bytes spill stores, "
    r"(?P<load>\d+) bytes spill loads"
)
_PTXAS_USED = re.compile(r"Used (?P<registers>\d+) registers(?:.*?, (?P<smem>\d+) bytes smem)?")
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
_HALF_REGISTER_BYTES = 8
"""Half of an SSE or NEON register, the narrowest vector that gcc reports."""
_LOOP_HEAD = re.compile(r"\b(?:for|while)\s*\(")


def find_first_error(output: str) -> str:
    """Return the first error as ``file:line: text``; else the last line printed."""
    for line in output.splitlines():
        error = _ERROR.match(line.strip())
        if error:
            place = re.sub(r"\((\d+)\)", r":\1", error["place"])
            return f"{Path(place).name}: {error['text']}"
    for line in output.splitlines():
        if _ANY_ERROR.search(line) and not _RESULT_OF_AN_ERROR.search(line):
            return line.strip()
    lines = [line for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("ninja: ")] or lines
    return lines[-1].strip() if lines else "the compiler failed and printed nothing"


_UNDEFINED = re.compile(
    r"undefined reference to [`'](.+?)'|[Uu]nresolved extern function '(\w+)'", re.IGNORECASE
)


def list_undefined_symbols(output: str) -> list[str]:
    """Return the symbols that a linker missed, as C++ names: ``Grid::resize(int)``."""
    found = [one or other for one, other in _UNDEFINED.findall(output)]
    return list(dict.fromkeys(map(_demangle, found)))


def _demangle(symbol: str) -> str:
    """Return the qualified name of a symbol, as nvlink and ptxas print it: ``_ZN4GridC1Ei``."""
    match = re.match(r"_ZN?K?(?=\d)", symbol)
    names, at = list[str](), match.end() if match else len(symbol)
    while length := re.compile(r"\d+").match(symbol, at):
        at = length.end() + int(length[0])
        names.append(symbol[length.end() : at])
    end = re.match(r"(C[123])?E", symbol[at:])  # else an operator, or a template
    return "::".join([*names, *(names[-1:] if end[1] else ())]) if end and names else symbol


def parse_loops(report: str, source: Path) -> tuple[Loop, ...]:
    """Return the innermost loops of a source that a vectorisation report mentions.

    A remark may point at a loop's head, its pragma or its body; it is assigned to the smallest loop
    around it. A loop with one vectorised remark counts as vectorised, since its scalar remarks are
    about its tail. Vectors of half a register, which gcc uses for strided loads and for sums in
    strict order, do not count. Outer loops never vectorise and are left out; only the source, not
    the report, tells them from inner loops.
    """
    loops = _find_loops(source.read_text(encoding="utf-8", errors="replace"))
    results: dict[int, Loop] = {}
    lines = report.splitlines()
    for index, line in enumerate(lines):
        remark = _GCC_LINE.match(line) or _CLANG_LINE.match(line)
        if remark is None or Path(remark["file"]).name != source.name:
            continue
        text, head = remark["text"], _find_enclosing_loop(loops, int(remark["line"]))
        if head is None:
            continue
        if text.startswith(("loop vectorized", "vectorized loop")):
            if _uses_narrow_vectors(text):
                results.setdefault(head, Loop(line=head, vectorized=False, reason=text))
            elif head not in results or not results[head].vectorized:
                results[head] = Loop(line=head, vectorized=True, reason=text)
        elif text.startswith("couldn't vectorize loop"):
            reason = _parse_missed_reason(lines[index + 1 : index + 2])
            results.setdefault(head, Loop(line=head, vectorized=False, reason=reason))
        elif text.startswith("loop not vectorized"):
            results.setdefault(head, Loop(line=head, vectorized=False, reason=text))
    return tuple(results[line] for line in sorted(results))


def _uses_narrow_vectors(text: str) -> bool:
    width = re.search(r"using (\d+) byte vectors", text)
    return width is not None and int(width[1]) <= _HALF_REGISTER_BYTES


def _parse_missed_reason(following: list[str]) -> str:
    remark = _GCC_LINE.match(following[0]) if following else None
    if remark is None:
        return "no reason given"
    text = remark["text"].removeprefix("not vectorized: ").rstrip(".")
    call = re.search(r"clobbers memory: .*?(?:__builtin_)?(\w+) \(", text)
    return f"it calls {call[1]}, which has no vector form here" if call else text


class _LoopSpan(NamedTuple):
    """A loop in the source, by line numbers from 1; ``first`` includes a pragma above its head."""

    first: int
    head: int
    last: int
    innermost: bool


def _find_loops(text: str) -> list[_LoopSpan]:
    """Return every loop of a source; a loop that calls a function with loops is not innermost."""
    bare = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    heads = [m.start() for m in _LOOP_HEAD.finditer(bare)]
    looping = _find_looping_functions(bare, heads)
    rows = bare.splitlines()
    spans: list[_LoopSpan] = []
    for start in heads:
        end = _find_statement_end(bare, start)
        body = bare[start:end]
        inner = any(start < other < end for other in heads)
        calls = any(re.search(rf"\b{name}\s*\(", body) for name in looping)
        head = bare.count("\n", 0, start) + 1
        above = head > 1 and rows[head - 2].lstrip().startswith("#pragma")
        last = bare.count("\n", 0, end) + 1
        spans.append(_LoopSpan(head - above, head, last, innermost=not (inner or calls)))
    return spans


def _find_enclosing_loop(loops: list[_LoopSpan], line: int) -> int | None:
    """Return the head line of the innermost loop around a line; None outside of such loops."""
    around = [span for span in loops if span.first <= line <= span.last]
    smallest = min(around, key=lambda span: span.last - span.first, default=None)
    return smallest.head if smallest and smallest.innermost else None


def _find_statement_end(text: str, head: int) -> int:
    """Return where the statement that starts at ``head`` ends: its closing brace or semicolon."""
    depth, in_block = 0, False
    for index in range(head, len(text)):
        char = text[index]
        if char in "({":
            depth += 1
            in_block = in_block or char == "{"
        elif char in ")}":
            depth -= 1
            if depth == 0 and char == "}":
                return index
        elif char == ";" and depth == 0 and not in_block:
            return index
    return len(text)


def _find_looping_functions(text: str, heads: Iterable[int]) -> set[str]:
    """Return the names of functions whose bodies contain loops."""
    names: set[str] = set()
    for function in re.finditer(r"\b(\w+)\s*\([^;{}()]*\)\s*(?:noexcept\s*)?\{", text):
        if function[1] not in ("for", "while", "if", "switch"):
            end = _find_statement_end(text, function.start())
            if any(function.start() < head < end for head in heads):
                names.add(function[1])
    return names


def parse_resources(log: str, kernels: tuple[str, ...]) -> tuple[KernelResources, ...]:
    """Return the registers, stack, spills and static shared memory that ``ptxas -v`` prints.

    Args:
        log: Output of nvcc with ``-Xptxas -v``.
        kernels: Plain names of kernels; an entry function whose mangled name contains one is
            reported under it, any other under its mangled name.
    """
    resources: list[KernelResources] = []
    name, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if entry := _PTXAS_KERNEL.search(line):
            name, frame = entry["name"], (0, 0, 0)
        elif sizes := _PTXAS_FRAME.search(line):
            frame = (int(sizes["stack"]), int(sizes["store"]), int(sizes["load"]))
        elif name and (used := _PTXAS_USED.search(line)):
            resources.append(
                KernelResources(
                    kernel=next((k for k in kernels if k in name), name),
                    registers=int(used["registers"]),
                    stack_bytes=frame[0],
                    spill_store_bytes=frame[1],
                    spill_load_bytes=frame[2],
                    static_smem_bytes=int(used["smem"] or 0),
                )
            )
            name = ""
    return tuple(resources)
