"""The files beside a drafted kernel.yaml: what calls the kernel, and a reference to write."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from kernelkb.loading.kernel_files import MARK, snake
from kernelkb.model.base import Target
from kernelkb.scaffold.call_signature import Function, Parameter

_NO_NAMES = frozenset({*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null"})
_THREADS = 256


def field(text: str) -> str:
    """Return a name that both kernel.yaml and Python take, for one that C took."""
    name = snake(text)
    return f"{name}_" if name in _NO_NAMES else name


def fields(names: Iterable[str]) -> dict[str, str]:
    """Return a name of its own for each of a function's parameters; C tells ``N`` from ``n``."""
    found: dict[str, str] = {}
    for name in names:
        one = field(name)
        while one in found.values():
            one += "_"
        found[name] = one
    return found


def reference(name: str, arguments: Iterable[str]) -> str:
    """Return reference.py, to be written by a person."""
    return f'''\
"""What {name} computes, in torch: the definition that it is judged by."""

import torch


def {name}({", ".join(arguments)}):
    raise NotImplementedError("say in torch what {name} computes; then name it in kernel.yaml")
'''


def started(one: Parameter) -> Parameter:
    """Return the input that an array which is read and written starts as."""
    return one._replace(name=f"{one.name}_start", role="input")


def included(include: str, *, has_main: bool = False) -> str:
    """Return the lines that take a source in as it stands, without its own program."""
    if not has_main:
        return f'#include "{include}"\n'
    return f'#define main kb_hidden_main\n#include "{include}"\n#undef main\n'


def c_launcher(name: str, function: Function, source: str, target: Target) -> str:
    """Return a C function that kernel.yaml describes and that calls somebody's own.

    Args:
        name: The kernel's id.
        function: What it calls.
        source: The lines that take the function's file in.
        target: Where it runs; without CUDA nothing of it is named.
    """
    outputs = [p for p in function.parameters if p.role == "output"]
    arrays = [p for p in function.parameters if p.role == "input"]
    arrays += [*(started(p) for p in outputs if p.read), *outputs]
    sizes = [p for p in function.parameters if p.role == "size"]
    taken = [
        f"{'const ' if p.role == 'input' else ''}{_type(p, function)}* {p.name}" for p in arrays
    ]
    taken += [f"std::int64_t {p.name}" for p in sizes] + ["void* kb_stream"]
    given = ", ".join(_argument(p, function) for p in function.parameters)
    called = f"{function.scope}{function.name}"
    if function.template:
        called += f"<{', '.join([MARK] * len(function.template))}>"
    call = _launch(function, sizes, called, given) if function.is_kernel else f"{called}({given});"
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


def _launch(function: Function, sizes: Sequence[Parameter], called: str, given: str) -> str:
    """Launch a kernel; where its text does not show grid and block, leave them to a person."""
    shared = MARK if function.takes_shared else "0"
    how = f"<<<kb_blocks, kb_threads, {shared}, static_cast<cudaStream_t>(kb_stream)>>>"
    if not function.is_flat or len(sizes) != 1:
        return f"""\
// Grid and block do not show in the kernel's text: give those that your own code launches with.
  const dim3 kb_blocks({MARK}), kb_threads({MARK});
  {called}{how}({given});"""
    return f"""\
// kb init guessed grid and block; make them those that your own code uses.
  const int kb_threads = {_threads(function)};
  const unsigned kb_blocks =
      static_cast<unsigned>(({sizes[0].name} + kb_threads - 1) / kb_threads);
  {called}{how}({given});"""


def _threads(function: Function) -> str:
    most = function.most_threads
    if most is None or most.isdecimal():
        return str(min(_THREADS, int(most or _THREADS)))
    return _known(most, function)


def _known(text: str, function: Function) -> str:
    """Mark what only a template's user can say."""
    if not function.template:
        return text
    return re.sub(rf"\b(?:{'|'.join(function.template)})\b", MARK, text)


def _type(one: Parameter, function: Function) -> str:
    return _known(one.type, function)


def _argument(one: Parameter, function: Function) -> str:
    if one.role == "size":
        return f"static_cast<{_type(one, function)}>({one.name})"
    if one.role == "stream":
        return "static_cast<cudaStream_t>(kb_stream)" if one.type != "void" else "kb_stream"
    if one.role == "input":  # many a kernel takes its inputs without const
        return f"const_cast<{_type(one, function)}*>({one.name})"
    return MARK if one.role == "number" else one.name


def python_launcher(name: str, function: Function, include: str, runs: Sequence[int]) -> str:
    """Return a module that loads a function from a file of any name.

    Args:
        name: The kernel's id.
        function: What to load.
        include: The file, as this module's folder sees it.
        runs: Lines of the file that do something whenever it is loaded.
    """
    file = include.rpartition("/")[2]
    lines = f"{'line' if len(runs) == 1 else 'lines'} {', '.join(map(str, runs))}"
    said = f"{MARK}: {file} runs code whenever it is loaded ({lines}): "
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
{mark if runs else ""}_SPEC.loader.exec_module(_MODULE)
{function.name} = _MODULE.{function.name}
'''
