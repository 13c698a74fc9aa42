"""A kernel.yaml for somebody's own kernel, with marks where only they can know."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.loading.signatures import Function, Parameter, Seen

MARK = "FILL_IN"
_FLAT, _SMALL, _LARGE = 2**12, 64, 1024

_REFERENCE = '''\
"""What {name} computes, in torch: the definition that it is judged by."""

import torch


def {name}({arguments}):
    raise NotImplementedError("say in torch what {name} computes; then name it in kernel.yaml")
'''


def cuda_files(name: str, seen: Seen, include: str) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a launcher for a CUDA file.

    Args:
        name: The kernel's id.
        seen: What the file holds.
        include: The file, as the launcher's folder sees it.
    """
    function = seen.functions[0]
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    sizes = [p.name.lower() for p in function.parameters if p.role == "size"]
    outputs = [p for p in arrays if p.role == "output"]
    inputs = [p for p in arrays if p.role == "input"] + [_start(p) for p in outputs if p.read]
    text = _head(name, sizes or [MARK], "cuda")
    text += "inputs:\n" + "".join(_array(p, sizes) for p in inputs)
    text += "" if inputs else f"  - {{name: {MARK}, shape: [{MARK}], dtype: float32}}\n"
    text += "outputs:\n" + "".join(_output(p, sizes) for p in outputs)
    text += _tail(f"kb_{name}")
    kernels = [f.name for f in seen.functions if f.is_kernel]
    text += f"    language: cuda\n    source: launch.cu\n    kernels: [{', '.join(kernels)}]\n"
    text += f"    summary: {function.name} as it stands in {include.rpartition('/')[2]}\n"
    arguments = ", ".join(p.name.lower() for p in inputs)
    return {
        "kernel.yaml": text,
        "reference.py": _REFERENCE.format(name=name, arguments=arguments),
        "launch.cu": _launcher(name, function, include, main=seen.has_main),
    }


def python_files(name: str, function: Function, include: str) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a wrapper for a Triton file."""
    text = _head(name, [MARK], "cuda")
    text += "inputs:\n"
    for one in function.parameters:
        text += f"  - {{name: {one.name.lower()}, shape: [{MARK}], dtype: {MARK}}}\n"
    text += f"outputs:\n  - {{name: out, shape: [{MARK}], dtype: {MARK}}}\n"
    text += _tail(function.name)
    text += "    language: triton\n    source: launch.py\n    returns: true\n"
    text += f"    summary: {function.name} as it stands in {include.rpartition('/')[2]}\n"
    arguments = ", ".join(p.name.lower() for p in function.parameters)
    return {
        "kernel.yaml": text,
        "reference.py": _REFERENCE.format(name=name, arguments=arguments),
        "launch.py": _python_launcher(function, include),
    }


def extension_files(name: str, function: Function, include: str) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a source for a torch extension."""
    text = _head(name, [MARK], "cuda")
    text += f"inputs:\n  - {{name: {MARK}, shape: [{MARK}], dtype: {MARK}}}\n"
    text += f"outputs:\n  - {{name: out, shape: [{MARK}], dtype: {MARK}}}\n"
    text += _tail(function.name)
    source = "launch.cu" if include.endswith(".cu") else "launch.cpp"
    text += f"    language: cuda\n    binding: torch-extension\n    source: {source}\n"
    text += f"    returns: true\n    summary: {function.name} of a torch extension\n"
    return {
        "kernel.yaml": text,
        "reference.py": _REFERENCE.format(name=name, arguments="x"),
        source: f'#include "{include}"\n',
    }


def _head(name: str, axes: Sequence[str], target: str) -> str:
    small = ", ".join(f"{a}: {_FLAT if len(axes) == 1 else _SMALL}" for a in axes)
    large = ", ".join(f"{a}: {_FLAT * 4096 if len(axes) == 1 else _LARGE}" for a in axes)
    odd = ", ".join(f"{a}: {n}" for a, n in zip(axes, (33, 17, 5, 3, 2), strict=False))
    return f"""\
# Written by kb init. Replace every {MARK}; kb refuses the file until none is left.
# kb show row_softmax prints a finished one.
id: {name}
title: {name.replace("_", " ")}
axes: [{", ".join(axes)}]
workloads:
  small: {{{small}}}
  large: {{{large}}}
default_workload: {{{target}: large}}
check_workloads:
  - {{{odd}}}
"""


def _array(one: Parameter, sizes: Sequence[str]) -> str:
    shape = sizes[0] if len(sizes) == 1 else MARK
    fill = ", fill: normal" if one.role == "input" else ""
    dtype = one.dtype or MARK
    return f"  - {{name: {one.name.lower()}, shape: [{shape}], dtype: {dtype}{fill}}}\n"


def _start(one: Parameter) -> Parameter:
    """Return the input that an array which is read and written starts as."""
    return one._replace(name=f"{one.name}_start", role="input")


def _output(one: Parameter, sizes: Sequence[str]) -> str:
    text = _array(one, sizes)
    if not one.read:
        return text
    return text.replace("}\n", f", starts_as: {one.name.lower()}_start}}\n")


def _tail(entry: str) -> str:
    return f"""\
# Write reference.py, then put its function's name here.
reference: {{file: reference.py, function: {MARK}}}
# Bytes and operations that any right kernel needs, as expressions of the axes; it may be left out.
# cost: {{bytes: "8 * n", flops: "2 * n"}}
entry: {entry}
variants:
  - id: mine
    target: cuda
"""


def _launcher(name: str, function: Function, include: str, *, main: bool) -> str:
    outputs = [p for p in function.parameters if p.role == "output"]
    arrays = [p for p in function.parameters if p.role == "input"]
    arrays += [*(_start(p) for p in outputs if p.read), *outputs]
    sizes = [p for p in function.parameters if p.role == "size"]
    taken = [f"{'const ' if p.role == 'input' else ''}{p.type}* {p.name}" for p in arrays]
    taken += [f"std::int64_t {p.name}" for p in sizes] + ["void* stream"]
    given = ", ".join(map(_argument, function.parameters))
    hidden = "#define main kb_hidden_main\n" if main else ""
    shown = "#undef main\n" if main else ""
    if function.is_kernel:
        across = sizes[0].name if sizes else MARK
        call = f"""\
  const int threads = 256;
  const unsigned blocks = static_cast<unsigned>(({across} + threads - 1) / threads);
  {function.name}<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>({given});
  return static_cast<int>(cudaGetLastError());"""
    else:
        call = f"  {function.name}({given});\n  return static_cast<int>(cudaGetLastError());"
    return f"""\
// Calls {function.name} the way that kernel.yaml says: inputs, outputs, sizes, a stream.
// kb init guessed grid and block; make them those that your own code uses.
#include <cuda_runtime.h>

#include <cstdint>

{hidden}#include "{include}"
{shown}
extern "C" int kb_{name}({", ".join(taken)}) {{
{call}
}}
"""


def _argument(one: Parameter) -> str:
    if one.role == "size":
        return f"static_cast<{one.type}>({one.name})"
    if one.role == "stream":
        return "static_cast<cudaStream_t>(stream)"
    if one.role == "input":
        return (
            f"const_cast<{one.type}*>({one.name})"  # many a kernel takes its inputs without const
        )
    return MARK if one.role == "number" else one.name


def _python_launcher(function: Function, include: str) -> str:
    folder, _, file = include.rpartition("/")
    return f'''\
"""Loads {function.name} from where it stands."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "{folder or "."}"))

from {re.sub(r"[.]py$", "", file)} import {function.name}  # noqa: E402

__all__ = ["{function.name}"]
'''
