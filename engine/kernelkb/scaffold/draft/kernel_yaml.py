"""The text of a drafted kernel.yaml, and the names and lines that every launcher needs."""

from __future__ import annotations

import json
import keyword
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK, to_snake_case
from kernelkb.model.base import Target
from kernelkb.model.kernels.languages import LanguageName
from kernelkb.scaffold.draft.call_signature import Parameter
from kernelkb.scaffold.draft.default_values import AXIS_SIZES

_RESERVED_NAMES = frozenset({*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null"})


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


def make_start_input(output: Parameter) -> Parameter:
    """Return an input that holds the initial values of an output that the kernel also reads."""
    return output._replace(name=f"{output.name}_start", role="input", is_certain=True)


def draft_include(include: str, *, has_main: bool = False) -> str:
    """Return the lines that include a source unchanged, its ``main`` renamed if it has one."""
    if not has_main:
        return f'#include "{include}"\n'
    return f'#define main kb_hidden_main\n#include "{include}"\n#undef main\n'


def name_including_file(path: str) -> str:
    """Return the name of the file beside kernel.yaml that includes another source."""
    words = "_".join(PurePosixPath(path).with_suffix("").parts).replace(".", "")
    return f"{to_snake_case(words)}{PurePosixPath(path).suffix}"


def draft_including_files(paths: Sequence[str]) -> dict[str, str]:
    """Return files that include other sources of a kernel, which are compiled with it."""
    return {name_including_file(path): draft_include(path) for path in paths}


def hide_module(include: str) -> str:
    """Return lines that include a source without the Python module that it may define."""
    return f"""\
// The source's own module, if it has one, is left out.
#pragma push_macro("PYBIND11_MODULE")
#undef PYBIND11_MODULE
#define PYBIND11_MODULE(name, variable) \\
  [[maybe_unused]] static void kb_hide_module(pybind11::module_& variable)
{include}#pragma pop_macro("PYBIND11_MODULE")
"""


_SMALL_SIZES, _LARGE_SIZES = (2**12, 64, 32, 16, 8, 6), (2**24, 1024, 256, 64, 24, 16)
"""Elements per axis of the drafted workloads, by the largest number of axes of one array."""
_PLANE_SIZE = 4096
"""Elements per axis of two axes that every array has."""
_INTEGER_BOUND = 32
"""Exclusive upper bound of drawn integers: below every size, so that subscripts stay in range."""


_UNUSED_INPUT = """\
  # The kernel reads no array; a kernel.yaml has at least one input.
  - {name: unused, shape: [1], dtype: float32, fill: zeros}
"""

_OWN_NOTE = "what the source computes as it stands is right; nothing checks it"
DRAFTED_VARIANT = "mine"
OWN_REFERENCE = f"reference: {{variant: {DRAFTED_VARIANT}}}"
"""The line of kernel.yaml that makes the drafted variant the reference."""
_OWN_REFERENCE_TEXT = f"""\
# Other variants are compared with {DRAFTED_VARIANT}. To check {DRAFTED_VARIANT}, too, write
# a reference in torch, {{file: reference.py, function: NAME}}, or in C++,
# {{function: "file.cpp:NAME"}}.
{OWN_REFERENCE}
"""


class DraftedVariant(NamedTuple):
    """The drafted variant of a kernel."""

    language: LanguageName
    source: str
    summary: str
    binding: str = ""
    """Empty for the language's default."""
    also: Sequence[str] = ()
    returns: bool = False
    flags: Sequence[str] = ()
    kernels: Sequence[str] = ()
    comment: str = ""


class Draft(NamedTuple):
    """A drafted kernel, before it is text."""

    name: str
    include: str
    """The source's path from the kernel's folder."""
    target: Target
    axes: Sequence[str]
    inputs: Sequence[Parameter]
    """Without those that hold an output's initial values."""
    outputs: Sequence[Parameter]
    fields: Mapping[str, str]
    """Field name of each array and axis, by its name in the source."""
    entry: str
    variant: DraftedVariant
    notes: Sequence[str] = ()
    """What was assumed, one sentence each."""


def list_all_inputs(draft: Draft) -> list[Parameter]:
    """Return the inputs, then those that hold the initial values of outputs."""
    return [*draft.inputs, *(make_start_input(p) for p in draft.outputs if p.is_read)]


def format_kernel_yaml(draft: Draft) -> str:
    """Return kernel.yaml."""
    unknown = f"  - {{name: {FILL_IN_MARK}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    inputs = "".join(_format_input(p, draft) for p in list_all_inputs(draft))
    outputs = "".join(_format_output(p, draft) for p in draft.outputs)
    if not inputs and outputs:
        inputs = _UNUSED_INPUT
    text = _format_head(draft)
    text += "inputs:\n" + (inputs or unknown) + "outputs:\n" + (outputs or unknown)
    return text + _format_tail(draft)


def _format_head(draft: Draft) -> str:
    axes = [draft.fields[axis] for axis in draft.axes]
    small, large = _choose_sizes(axes, [p.shape for p in (*draft.inputs, *draft.outputs)])
    notes = "".join(f"# Assumed: {note}.\n" for note in (_OWN_NOTE, *draft.notes))
    return f"""\
# Drafted by kb init from "{draft.include}". kb refuses the file while it holds {FILL_IN_MARK}.
# kb show row_softmax prints a complete example.
{notes}id: {draft.name}
title: {json.dumps(draft.name.replace("_", " ").strip())}
axes: [{", ".join(axes)}]
workloads:
  small: {{{small}}}
  large: {{{large}}}
default_workload: {{{draft.target}: large}}
"""


def _choose_sizes(axes: Sequence[str], shapes: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Return the sizes of the small and the large workload."""
    ranks = [sum(not dim.isdecimal() for dim in shape) if shape else len(axes) for shape in shapes]
    rank = min(max(ranks, default=1), len(_LARGE_SIZES)) or 1
    small, large = _SMALL_SIZES[rank - 1], _LARGE_SIZES[rank - 1]
    if rank == 2 and len(axes) == 2:
        large = _PLANE_SIZE
    named = AXIS_SIZES if rank > 2 else {}
    return (
        ", ".join(f"{axis}: {min(named.get(axis, small), small)}" for axis in axes),
        ", ".join(f"{axis}: {named.get(axis, large)}" for axis in axes),
    )


def _format_input(array: Parameter, draft: Draft) -> str:
    if array.dtype is None or array.dtype.startswith(("float", "bfloat")):
        return _format_array(array, draft, ", fill: normal")
    bound = "2" if array.dtype == "bool" else str(_INTEGER_BOUND)
    return _format_array(array, draft, f", fill: integers, scale: {bound}")


def _format_output(array: Parameter, draft: Draft) -> str:
    start = f", starts_as: {draft.fields[make_start_input(array).name]}" if array.is_read else ""
    return _format_array(array, draft, start)


def _format_array(array: Parameter, draft: Draft, options: str) -> str:
    dims = [draft.fields.get(dim, dim) for dim in array.shape] or [FILL_IN_MARK]
    name, dtype = draft.fields[array.name], array.dtype or FILL_IN_MARK
    entry = f"  - {{name: {name}, shape: [{', '.join(dims)}], dtype: {dtype}{options}}}"
    if not array.shape and array.candidate:
        perhaps = ", ".join(draft.fields.get(dim, dim) for dim in array.candidate)
        entry += f"  # perhaps [{perhaps}]{'; ' if array.use else ''}{array.use}"
    entry += "\n"
    if array.is_certain:
        return entry
    note = (
        f"  # kb init cannot see whether the kernel writes {name}. If it does not, move it to the\n"
    )
    return f"{note}  # inputs, and before the outputs in the launcher.\n{entry}"


def _format_tail(draft: Draft) -> str:
    variant = draft.variant
    lines = [f"    language: {variant.language}"]
    lines += [f"    binding: {variant.binding}"] if variant.binding else []
    lines += [f"    source: {variant.source}"]
    lines += [f"    also: [{', '.join(variant.also)}]"] if variant.also else []
    lines += ["    returns: true"] if variant.returns else []
    lines += [f"    flags: {json.dumps(list(variant.flags))}"] if variant.flags else []
    lines += [f"    kernels: [{', '.join(variant.kernels)}]"] if variant.kernels else []
    lines += [f"    summary: {json.dumps(variant.summary)}"]
    return (
        f"""\
{_OWN_REFERENCE_TEXT}\
# Bytes and operations that any correct kernel needs, as expressions of the axes. Optional.
# cost: {{bytes: "8 * n", flops: "2 * n"}}
entry: {draft.entry}
variants:
  - id: {DRAFTED_VARIANT}
    target: {draft.target}
{variant.comment}"""
        + "\n".join(lines)
        + "\n"
    )
