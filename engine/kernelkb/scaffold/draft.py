"""A draft of kernel.yaml: the call, the values of its axes and arguments, and its text."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK, to_snake_case
from kernelkb.model.base import Target
from kernelkb.model.kernels.languages import LanguageName

SourceKind = str
"""cuda, torch-extension, tvm-ffi; embedded: CUDA text in strings of a Python file; kernelbench,
candidate; else the name of one of the languages in ``kernelkb.scaffold.python_source``."""
ParameterRole = Literal["input", "output", "size", "number", "stream"]
CallStyle = Literal["pointers", "torch", "tvm-ffi", "python", "bound"]
"""How a function takes its arrays. bound: a module exports it, and its text is in another file."""
_ROLE_ORDER = ("input", "output", "size", "stream")

_OPTION = re.compile(
    r"\w*(?:threads?|tpb|bdim)\w*|\w*(?:block|group)_?size\w*|warp_?size"
    r"|\w*(?:mode|flag|type|kind|offset|start\w*|begin|device\w*|rank|axis)"
    r"|\w*(?:kernel_?num|version|iters?|iterations|steps?|repeats?|nreps?|stride\w*|pad\w*)"
)
"""Names of integers that are options of a call, and no sizes."""
_RESERVED_NAMES = frozenset({*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null"})
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
_OWN_NOTES = (
    "what the source computes as it stands is right; nothing checks it",
    "the sizes of the workloads and the values of the inputs were chosen by kb init",
)
DRAFTED_VARIANT = "mine"
OWN_REFERENCE = f"reference: {{variant: {DRAFTED_VARIANT}}}"
"""The line of kernel.yaml that makes the drafted variant the reference."""
_OWN_REFERENCE_TEXT = f"""\
# Other variants are compared with {DRAFTED_VARIANT}. To check {DRAFTED_VARIANT}, too, write
# a reference in torch, {{file: reference.py, function: NAME}}, or in C++,
# {{function: "file.cpp:NAME"}}.
{OWN_REFERENCE}
"""


class Parameter(NamedTuple):
    """One parameter of a function."""

    name: str
    type: str
    """As written, without ``const``, ``__restrict__``, ``std::`` and the pointer's ``*``."""
    role: ParameterRole
    dtype: str | None = None
    """Element type of an array; None for a scalar and for a type that kernel.yaml does not have."""
    is_read: bool = False
    """For an output: the kernel also reads it, so its values before the call matter."""
    is_certain: bool = True
    """False for an output that is only passed to code which may write it."""
    shape: tuple[str, ...] = ()
    """Of an array: names of sizes, and numbers, outermost first; empty where it is unknown."""
    use: str = ""
    """The line that uses what is not known of it, as ``line 3: y[i] = x[j];``."""
    value: str = ""
    """Of a number: the expression that is passed for it; empty where none is known."""


class Function(NamedTuple):
    """A kernel, or a host function that launches one."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    is_kernel: bool = False
    """A ``__global__`` function, which needs a launcher."""
    scope: str = ""
    """Its namespaces, as a call needs them before the name: ``a::b::``."""
    returns: str = ""
    """Its return type; empty for Python."""
    template: tuple[str, ...] = ()
    """Names of its template's parameters."""
    max_threads: str | None = None
    """Threads per block, the first argument of ``__launch_bounds__``; an expression, or None."""
    takes_shared_memory: bool = False
    """It declares dynamic shared memory, whose size is a launch parameter."""
    style: CallStyle = "pointers"
    line: int = 0
    """Where it is defined, from 1; 0 where the file only names it."""
    launches: tuple[str, ...] = ()
    """Kernels that it starts, itself or through functions of its file."""

    @property
    def is_variant(self) -> bool:
        """Whether it has KernelKB's C interface: inputs, outputs, int64 sizes, then a stream."""
        roles = [parameter.role for parameter in self.parameters]
        sizes = (each for each in self.parameters if each.role == "size")
        return (
            not self.is_kernel
            and self.style == "pointers"
            and self.returns in ("int", "int32_t")
            and all(size.type == "int64_t" for size in sizes)
            and "output" in roles
            and roles.count("stream") == 1
            and "number" not in roles
            and roles == sorted(roles, key=_ROLE_ORDER.index)
        )


class SourceSummary(NamedTuple):
    """The kernels and launchers of one source file."""

    kind: SourceKind
    functions: tuple[Function, ...]
    """What can be drafted: launchers before kernels that no launcher of the file starts."""
    target: Target = "cuda"
    """``cuda`` where the file names anything of CUDA."""
    has_main: bool = False
    """It defines ``main``, which a launcher that includes it must rename."""
    missing_functions: tuple[str, ...] = ()
    """Functions that a torch extension uses and another file must define."""
    side_effect_lines: tuple[int, ...] = ()
    """Lines of a Python file that run code when it is imported, counted from 1."""
    embedded: str = ""
    """CUDA text in the strings of a Python file."""


class DraftRequest(NamedTuple):
    """A function of a source, and the folder that it gets."""

    name: str
    """The kernel's id."""
    function: Function
    """The kernel or launcher to draft for."""
    summary: SourceSummary
    text: str
    """What the source holds."""
    include: str
    """The source's path, relative to the kernel's folder."""
    target: Target
    flags: tuple[str, ...] = ()
    """Compiler flags, such as folders of headers."""
    others: tuple[str, ...] = ()
    """Paths of the files that define the functions it uses and does not define."""
    uses_torch: bool = False
    """Whether the file includes torch's headers: then it is a torch extension."""
    headers: tuple[str, ...] = ()
    """What the project's files hold that the source includes."""
    callers: tuple[str, ...] = ()
    """What files hold that include the source and launch its kernel."""


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


def make_draft(
    request: DraftRequest,
    parameters: Sequence[Parameter],
    variant: DraftedVariant,
    *,
    entry: str = "",
    axes: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Draft:
    """Return a draft for the parameters of a function.

    Args:
        request: The function and its source.
        parameters: With what is known of them.
        variant: What is called.
        entry: Its name; by default one that begins with ``kb_``.
        axes: In the order of the call; by default those of the shapes.
        notes: What was assumed, one sentence each.
    """
    inputs = [p for p in parameters if p.role == "input"]
    outputs = [p for p in parameters if p.role == "output"]
    starts = [make_start_input(p) for p in outputs if p.is_read]
    if axes is None:
        dims = (d for p in (*inputs, *outputs) for d in p.shape if not d.isdecimal())
        axes = list(dict.fromkeys(dims))
    return Draft(
        name=request.name,
        include=request.include,
        target=request.target,
        axes=axes,
        inputs=inputs,
        outputs=outputs,
        fields=assign_field_names([*(p.name for p in (*inputs, *starts, *outputs)), *axes]),
        entry=entry or f"kb_{request.name}",
        variant=variant,
        notes=notes,
    )


def is_option(name: str) -> bool:
    """Return whether an integer is an option of a call by its name, and no size of an array."""
    return _OPTION.fullmatch(name.lower()) is not None


def complete_shape(known: Mapping[int, str]) -> tuple[str, ...]:
    """Return the shape of a tensor whose dimensions a text names, by their index.

    It is empty where one is counted from the end: the text does not show how many there are.
    """
    if min(known) < 0:
        return ()
    names = (known.get(index, "") for index in range(max(known) + 1))
    return tuple(name or f"d{index}" for index, name in enumerate(names))


def mark_unknown(parameters: Sequence[Parameter], text: str, line: int) -> list[Parameter]:
    """Return the parameters; one of which something is not known has the line that uses it.

    Args:
        parameters: Of a function.
        text: The source.
        line: Where the function begins, from 1.
    """
    marked = []
    for each in parameters:
        if each.role in ("input", "output") and not (each.shape and each.dtype):
            each = each._replace(use=_find_use(text, each.name, line))
        elif each.role == "number" and each.value in ("", FILL_IN_MARK):
            each = each._replace(value=FILL_IN_MARK, use=_find_use(text, each.name, line))
        marked.append(each)
    return marked


def list_defaults(function: Function) -> list[str]:
    """Return the defaults that are passed for arguments that are numbers, as notes."""
    return [f"{p.name} = {p.value}" for p in function.parameters if p.role == "number" and p.value]


def _find_use(text: str, name: str, line: int) -> str:
    """Return the first line that names a parameter, from where its function begins."""
    for number, content in enumerate(text.splitlines(), 1):
        if number >= line and re.search(rf"\b{re.escape(name)}\b", content):
            return f"line {number}: {content.strip()}"
    return ""


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
    notes = "".join(f"# Assumed: {note}.\n" for note in (*_OWN_NOTES, *draft.notes))
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
    return (
        ", ".join(f"{axis}: {small}" for axis in axes),
        ", ".join(f"{axis}: {large}" for axis in axes),
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
    entry += f"  # {array.use}\n" if array.use else "\n"
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
