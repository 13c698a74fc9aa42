"""Text of the files beside a drafted kernel.yaml: the launcher and an empty reference.py."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from kernelkb.loading.kernel_files import FILL_IN_MARK, to_snake_case
from kernelkb.model.base import Target
from kernelkb.scaffold.call_signature import Function, Parameter

_RESERVED_NAMES = frozenset({*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null"})
_DEFAULT_THREADS = 256
"""Threads per block of a guessed launch: at most the launch bound, and allowed on every GPU."""


def to_field_name(text: str) -> str:
    """Return a C name as a lower-case identifier that neither Python nor YAML reserves."""
    name = to_snake_case(text)
    return f"{name}_" if name in _RESERVED_NAMES else name


def assign_field_names(names: Iterable[str]) -> dict[str, str]:
    """Map each C name to a distinct field name: C tells ``N`` from ``n``, kernel.yaml does not."""
    fields: dict[str, str] = {}
    for name in names:
        field = to_field_name(name)
        while field in fields.values():
            field += "_"
        fields[name] = field
    return fields


def draft_reference(name: str, arguments: Iterable[str]) -> str:
    """Return a reference.py whose function raises until its author writes it."""
    return f'''\
"""Torch reference of {name}: variants are checked against its outputs."""

import torch


def {name}({", ".join(arguments)}):
    raise NotImplementedError("write {name} in torch, then name this function in kernel.yaml")
'''


def make_start_input(output: Parameter) -> Parameter:
    """Return an input that holds the initial values of an output that the kernel also reads."""
    return output._replace(name=f"{output.name}_start", role="input", is_certain=True)


def draft_include(include: str, *, has_main: bool = False) -> str:
    """Return the lines that include a source unchanged, its ``main`` renamed if it has one."""
    if not has_main:
        return f'#include "{include}"\n'
    return f'#define main kb_hidden_main\n#include "{include}"\n#undef main\n'


def draft_c_launcher(name: str, function: Function, source: str, target: Target) -> str:
    """Return the source of an ``extern "C"`` function with KernelKB's interface around another one.

    Args:
        name: The kernel's id.
        function: The kernel or host function to call.
        source: The lines that include the function's file.
        target: For ``cpu`` the text names nothing of CUDA.
    """
    outputs = [p for p in function.parameters if p.role == "output"]
    arrays = [p for p in function.parameters if p.role == "input"]
    arrays += [*(make_start_input(p) for p in outputs if p.is_read), *outputs]
    sizes = [p for p in function.parameters if p.role == "size"]
    declared = [
        f"{'const ' if p.role == 'input' else ''}{_format_type(p, function)}* {p.name}"
        for p in arrays
    ]
    declared += [f"std::int64_t {p.name}" for p in sizes] + ["void* kb_stream"]
    arguments = ", ".join(_format_argument(p, function) for p in function.parameters)
    called = f"{function.scope}{function.name}"
    if function.template:
        called += f"<{', '.join([FILL_IN_MARK] * len(function.template))}>"
    call = (
        _draft_kernel_launch(function, sizes, called, arguments)
        if function.is_kernel
        else f"{called}({arguments});"
    )
    return f"""\
// Calls {function.name} with the arguments of kernel.yaml: inputs, outputs, sizes, a stream.
{"#include <cuda_runtime.h>" if target == "cuda" else ""}
#include <cstdint>

{source}
extern "C" int kb_{name}({", ".join(declared)}) {{
  {call}
  return {"static_cast<int>(cudaGetLastError())" if target == "cuda" else "0"};
}}
"""


def _draft_kernel_launch(
    function: Function, sizes: Sequence[Parameter], called: str, arguments: str
) -> str:
    """Return the launch statement; grid and block are marks unless the kernel is flat."""
    shared = FILL_IN_MARK if function.takes_shared_memory else "0"
    launch = f"<<<kb_blocks, kb_threads, {shared}, static_cast<cudaStream_t>(kb_stream)>>>"
    if not function.is_flat or len(sizes) != 1:
        return f"""\
// The kernel's text does not show its grid and block: copy them from your own launch.
  const dim3 kb_blocks({FILL_IN_MARK}), kb_threads({FILL_IN_MARK});
  {called}{launch}({arguments});"""
    return f"""\
// kb init guessed grid and block: replace them by those of your own launch.
  const int kb_threads = {_choose_block_threads(function)};
  const unsigned kb_blocks =
      static_cast<unsigned>(({sizes[0].name} + kb_threads - 1) / kb_threads);
  {called}{launch}({arguments});"""


def _choose_block_threads(function: Function) -> str:
    bound = function.max_threads
    if bound is None or bound.isdecimal():
        return str(min(_DEFAULT_THREADS, int(bound or _DEFAULT_THREADS)))
    return _mark_template_names(bound, function)


def _mark_template_names(text: str, function: Function) -> str:
    """Replace template parameters, which kb init cannot choose, by the mark."""
    if not function.template:
        return text
    return re.sub(rf"\b(?:{'|'.join(function.template)})\b", FILL_IN_MARK, text)


def _format_type(parameter: Parameter, function: Function) -> str:
    return _mark_template_names(parameter.type, function)


def _format_argument(parameter: Parameter, function: Function) -> str:
    name, type_name = parameter.name, _format_type(parameter, function)
    if parameter.role == "size":
        return f"static_cast<{type_name}>({name})"
    if parameter.role == "stream":
        return "static_cast<cudaStream_t>(kb_stream)" if type_name != "void" else "kb_stream"
    if parameter.role == "input":  # many kernels take their inputs without const
        return f"const_cast<{type_name}*>({name})"
    return FILL_IN_MARK if parameter.role == "number" else name


def draft_python_launcher(
    name: str, function: Function, include: str, side_effect_lines: Sequence[int]
) -> str:
    """Return a Python module that loads a function from a file of any name.

    Args:
        name: The kernel's id.
        function: The function to load.
        include: The path of the file, relative to the folder of this module.
        side_effect_lines: Lines of the file that run code when it is imported.
    """
    file = include.rpartition("/")[2]
    noun = "line" if len(side_effect_lines) == 1 else "lines"
    lines = f"{noun} {', '.join(map(str, side_effect_lines))}"
    reason = f"{FILL_IN_MARK}: {file} runs code when it is imported ({lines}): "
    mark = f'''\
raise RuntimeError(
    "{reason}"
    "move it below if __name__ == '__main__', then delete this raise"
)
'''
    return f'''\
"""Loads {function.name} from {file}."""

import importlib.util
import sys
from pathlib import Path

_FILE = Path(__file__).resolve().parent / "{include}"
sys.path.insert(0, str(_FILE.parent))  # for its own imports
_SPEC = importlib.util.spec_from_file_location("kb_source_{name}", _FILE)
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
{mark if side_effect_lines else ""}_SPEC.loader.exec_module(_MODULE)
{function.name} = _MODULE.{function.name}
'''
