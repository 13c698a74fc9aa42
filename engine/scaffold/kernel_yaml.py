"""A kernel.yaml for somebody's own kernel, with marks where only they can know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import PurePosixPath

from kernelkb.loading.kernel_files import MARK, snake
from kernelkb.model.base import Target
from kernelkb.scaffold.call_signature import Function, Parameter, Seen
from kernelkb.scaffold.launchers import (
    c_launcher,
    fields,
    included,
    python_launcher,
    reference,
    started,
)

_FLAT, _SMALL, _LARGE = 2**12, 64, 1024
_ODD = (33, 17, 5, 3, 2)
_BELOW = 32
"""Integers are drawn below this, so that one that chooses an element of the only axis exists."""


def chosen(seen: Seen) -> Function:
    """Return the function that is drafted: one with our interface, else the first launcher."""
    return next((one for one in seen.functions if one.is_variant), seen.functions[0])


def c_files(name: str, seen: Seen, include: str, target: Target) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a launcher for a C or CUDA file.

    Args:
        name: The kernel's id.
        seen: What the file holds.
        include: The file, as the launcher's folder sees it.
        target: Where it runs.
    """
    function = chosen(seen)
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    outputs = [p for p in arrays if p.role == "output"]
    inputs = [p for p in arrays if p.role == "input"] + [started(p) for p in outputs if p.read]
    sizes = [p.name for p in function.parameters if p.role == "size"]
    named = fields([p.name for p in (*inputs, *outputs)] + sizes)
    axes = [named[one] for one in sizes]
    nothing = f"  - {{name: {MARK}, shape: [{MARK}], dtype: {MARK}}}\n"
    source = "launch.cu" if target == "cuda" else "launch.cpp"
    text = _head(name, axes or [MARK], target, include)
    text += "inputs:\n" + ("".join(_input(p, axes, named) for p in inputs) or nothing)
    text += "outputs:\n" + ("".join(_output(p, axes, named) for p in outputs) or nothing)
    text += _tail(function.name if function.is_variant else f"kb_{name}", target)
    text += f"    language: {_language(target)}\n    source: {source}\n"
    kernels = ", ".join(f.name for f in seen.functions if f.is_kernel)
    text += f"    kernels: [{kernels}]\n    summary: {_summary(function, include)}\n"
    taken = included(include, has_main=seen.has_main)
    launcher = taken if function.is_variant else c_launcher(name, function, taken, target)
    return {
        "kernel.yaml": text,
        "reference.py": reference(name, (named[p.name] for p in inputs)),
        source: launcher,
    }


def python_files(name: str, seen: Seen, include: str) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a wrapper for a Triton file."""
    function = chosen(seen)
    named = fields(p.name for p in function.parameters)
    text = _head(name, [MARK], "cuda", include)
    text += "inputs:\n"
    for one in named.values():
        text += f"  - {{name: {one}, shape: [{MARK}], dtype: {MARK}}}\n"
    text += f"outputs:\n  - {{name: out, shape: [{MARK}], dtype: {MARK}}}\n"
    text += _tail(function.name, "cuda")
    text += "    language: triton\n    source: launch.py\n    returns: true\n"
    text += f"    summary: {_summary(function, include)}\n"
    return {
        "kernel.yaml": text,
        "reference.py": reference(name, named.values()),
        "launch.py": python_launcher(name, function, include, seen.runs),
    }


def extension_files(
    name: str, seen: Seen, include: str, others: Sequence[str], target: Target
) -> dict[str, str]:
    """Return kernel.yaml, reference.py and sources for a torch extension.

    Args:
        name: The kernel's id.
        seen: What the file that binds it holds.
        include: That file, as the sources' folder sees it.
        others: The files that define what it uses and does not define.
        target: Where it runs.
    """
    function = chosen(seen)
    names = " or ".join(one.name for one in seen.functions)
    text = _head(name, [MARK], target, include)
    text += f"inputs:\n  - {{name: {MARK}, shape: [{MARK}], dtype: {MARK}}}\n"
    text += f"outputs:\n  - {{name: out, shape: [{MARK}], dtype: {MARK}}}\n"
    several = len(seen.functions) > 1
    text += _tail(f"{MARK}  # {names}" if several else function.name, target)
    source = f"launch{PurePosixPath(include).suffix}"
    beside = {_beside(PurePosixPath(one)): one for one in others}
    text += f"    language: {_language(target)}\n    binding: torch-extension\n"
    text += f"    source: {source}\n"
    if beside:
        text += f"    also: [{', '.join(beside)}]\n"
    elif seen.missing:
        text += f"    also: [{MARK}]  # a file beside this one that includes what defines "
        text += f"{', '.join(seen.missing)}\n"
    said = "a torch extension" if several else f"{function.name} of a torch extension"
    text += f"    returns: true\n    summary: {said}\n"
    return {
        "kernel.yaml": text,
        "reference.py": reference(name, ["x"]),
        source: included(include),
        **{file: included(one) for file, one in beside.items()},
    }


def _beside(path: PurePosixPath) -> str:
    """Return the name of the file, next to kernel.yaml, that takes another one in."""
    words = "_".join(path.with_suffix("").parts).replace(".", "")
    return f"{snake(words)}{path.suffix}"


def _language(target: Target) -> str:
    return "cuda" if target == "cuda" else "c++"


def _summary(function: Function, include: str) -> str:
    return json.dumps(f"{function.name} as it stands in {include.rpartition('/')[2]}")


def _head(name: str, axes: Sequence[str], target: Target, include: str) -> str:
    small = ", ".join(f"{a}: {_FLAT if len(axes) == 1 else _SMALL}" for a in axes)
    large = ", ".join(f"{a}: {_FLAT * 4096 if len(axes) == 1 else _LARGE}" for a in axes)
    odd = ", ".join(f"{a}: {n}" for a, n in zip(axes, cycle(_ODD), strict=False))
    return f"""\
# Written by kb init from "{include}". Replace every {MARK}; kb refuses the file until none is left.
# kb show row_softmax prints a finished one.
id: {name}
title: {json.dumps(name.replace("_", " ").strip())}
axes: [{", ".join(axes)}]
workloads:
  small: {{{small}}}
  large: {{{large}}}
default_workload: {{{target}: large}}
check_workloads:
  - {{{odd}}}
"""


def _input(one: Parameter, axes: Sequence[str], named: Mapping[str, str]) -> str:
    if one.dtype is None or one.dtype.startswith(("float", "bfloat")):
        return _array(one, axes, named, ", fill: normal")
    below = "2" if one.dtype == "bool" else str(_BELOW)
    if one.indexes and len(axes) != 1:
        below = MARK
    return _array(one, axes, named, f", fill: integers, scale: {below}")


def _output(one: Parameter, axes: Sequence[str], named: Mapping[str, str]) -> str:
    return _array(one, axes, named, f", starts_as: {named[started(one).name]}" if one.read else "")


def _array(one: Parameter, axes: Sequence[str], named: Mapping[str, str], more: str) -> str:
    shape = axes[0] if len(axes) == 1 else MARK
    name = named[one.name]
    doubt = f"  # kb init cannot see how {name} is used: should it be among the inputs, it goes\n"
    doubt += "  # before the outputs in the launcher too.\n"
    entry = f"  - {{name: {name}, shape: [{shape}], dtype: {one.dtype or MARK}{more}}}\n"
    return entry if one.sure else doubt + entry


def _tail(entry: str, target: Target) -> str:
    return f"""\
# Write reference.py, then put its function's name here.
reference: {{file: reference.py, function: {MARK}}}
# Bytes and operations that any right kernel needs, as expressions of the axes; it may be left out.
# cost: {{bytes: "8 * n", flops: "2 * n"}}
entry: {entry}
variants:
  - id: mine
    target: {target}
"""
