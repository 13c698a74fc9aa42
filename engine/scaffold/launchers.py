"""The files beside a drafted kernel.yaml: what calls the kernel, and a reference to write."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from kernelkb.loading.kernel_files import FILL_IN_MARK, to_snake_case
from kernelkb.model.base import Target
from kernelkb.scaffold.call_signature import Function, Parameter

_RESERVED_NAMES = frozenset({*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null"})
_DEFAULT_THREADS = 256


def to_field_name(text: str) -> str:
    """Return a name that both kernel.yaml and Python take, for one that C took."""
    name = to_snake_case(text)
    return f"{name}_" if name in _RESERVED_NAMES else name


def assign_field_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name of its own for each of a function's parameters; C tells ``N`` from ``n``."""
    found: dict[str, str] = {}
    for name in names:
        one = to_field_name(name)
        while one in found.values():
            one += "_"
        found[name] = one
    return found


def draft_reference(name: str, arguments: Iterable[str]) -> str:
    """Return reference.py, to be written by a person."""
    return f'''\
"""What {name} computes, in torch: the definition that it is judged by."""

import torch


def {name}({", ".join(arguments)}):
    raise NotImplementedError("say in torch what {name} computes; then name it in kernel.yaml")
'''


def make_start_input(one: Parameter) -> Parameter:
    """Return the input that an array which is read and written starts as."""
    return one._replace(name=f"{one.name}_start", role="input")


def draft_include(include: str, *, has_main: bool = False) -> str:
    """Return the lines that take a source in as it stands, without its own program."""
    if not has_main:
        return f'#include "{include}"\n'
    return f'#define main kb_hidden_main\n#include "{include}"\n#undef main\n'


def draft_c_launcher(name: str, function: Function, source: str, target: Target) -> str:
    """Return a C function that kernel.yaml describes and that calls somebody's own.

    Args:
        name: The kernel's id.
        function: What it calls.
        source: The lines that take the function's file in.
        target: Where it runs; without CUDA nothing of it is named.
    """
    outputs = [p for p in function.parameters if p.role == "output"]
    arrays = [p for p in function.parameters if p.role == "input"]
    arrays += [*(make_start_input(p) for p in outputs if p.is_read), *outputs]
    sizes = [p for p in function.parameters if p.role == "size"]
    taken = [
        f"{'const ' if p.role == 'input' else ''}{_format_type(p, function)}* {p.name}"
        for p in arrays
    ]
    taken += [f"std::int64_t {p.name}" for p in sizes] + ["void* kb_stream"]
    given = ", ".join(_format_argument(p, function) for p in function.parameters)
    called = f"{function.scope}{function.name}"
    if function.template:
        called += f"<{', '.join([FILL_IN_MARK] * len(function.template))}>"
    call = (
        _draft_kernel_launch(function, sizes, called, given)
        if function.is_kernel
        else f"{called}({given});"
    )
    return f"""\
// Calls {function.name} the way that kernel.yaml says: inputs, outputs, sizes, a stream.
{"#include <cuda_runtime.h>" if target == "cuda" else ""}
#include <cstdint>

{source}
extern "C" int kb_{name}({", ".join(taken)}) {{
  {call}
  return {"static_cast<int>(cudaGetLastError())" if target == "cuda" else "0"};
}}
"""


def _draft_kernel_launch(
    function: Function, sizes: Sequence[Parameter], called: str, given: str
) -> str:
    """Launch a kernel; where its text does not show grid and block, leave them to a person."""
    shared = FILL_IN_MARK if function.takes_shared_memory else "0"
    how = f"<<<kb_blocks, kb_threads, {shared}, static_cast<cudaStream_t>(kb_stream)>>>"
    if not function.is_flat or len(sizes) != 1:
        return f"""\
// Grid and block do not show in the kernel's text: give those that your own code launches with.
  const dim3 kb_blocks({FILL_IN_MARK}), kb_threads({FILL_IN_MARK});
  {called}{how}({given});"""
    return f"""\
// kb init guessed grid and block; make them those that your own code uses.
  const int kb_threads = {_choose_block_threads(function)};
  const unsigned kb_blocks =
      static_cast<unsigned>(({sizes[0].name} + kb_threads - 1) / kb_threads);
  {called}{how}({given});"""


def _choose_block_threads(function: Function) -> str:
    most = function.max_threads
    if most is None or most.isdecimal():
        return str(min(_DEFAULT_THREADS, int(most or _DEFAULT_THREADS)))
    return _mark_template_names(most, function)


def _mark_template_names(text: str, function: Function) -> str:
    """Mark what only a template's user can say."""
    if not function.template:
        return text
    return re.sub(rf"\b(?:{'|'.join(function.template)})\b", FILL_IN_MARK, text)


def _format_type(one: Parameter, function: Function) -> str:
    return _mark_template_names(one.type, function)


def _format_argument(one: Parameter, function: Function) -> str:
    if one.role == "size":
        return f"static_cast<{_format_type(one, function)}>({one.name})"
    if one.role == "stream":
        return "static_cast<cudaStream_t>(kb_stream)" if one.type != "void" else "kb_stream"
    if one.role == "input":  # many a kernel takes its inputs without const
        return f"const_cast<{_format_type(one, function)}*>({one.name})"
    return FILL_IN_MARK if one.role == "number" else one.name


def draft_python_launcher(
    name: str, function: Function, include: str, side_effect_lines: Sequence[int]
) -> str:
    """Return a module that loads a function from a file of any name.

    Args:
        name: The kernel's id.
        function: What to load.
        include: The file, as this module's folder sees it.
        side_effect_lines: Lines of the file that do something whenever it is loaded.
    """
    file = include.rpartition("/")[2]
    noun = "line" if len(side_effect_lines) == 1 else "lines"
    lines = f"{noun} {', '.join(map(str, side_effect_lines))}"
    said = f"{FILL_IN_MARK}: {file} runs code whenever it is loaded ({lines}): "
    mark = f'''\
raise RuntimeError(
    "{said}"
    "put that below if __name__ == '__main__', then delete this raise"
)
'''
    return f'''\
"""Loads {function.name} from where it stands."""

import importlib.util
import sys
from pathlib import Path

_FILE = Path(__file__).resolve().parent / "{include}"
sys.path.insert(0, str(_FILE.parent))  # what it imports may stand beside it
_SPEC = importlib.util.spec_from_file_location("kb_source_{name}", _FILE)
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
{mark if side_effect_lines else ""}_SPEC.loader.exec_module(_MODULE)
{function.name} = _MODULE.{function.name}
'''
