"""The text of a draft: kernel.yaml, and what it asks its user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import lcm

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.model.kernels.kernel import evaluate_axis_expression
from kernelkb.safety.untrusted_text import is_torch_expression
from kernelkb.scaffold.draft import (
    DRAFTED_VARIANT,
    NO_AXES,
    OBSERVED_HEAD,
    OWN_REFERENCE,
    PROGRAM_HEAD,
    REFERENCE_KEY,
    RETURNS,
    ROLES,
    SAID_HEAD,
    UNKNOWN,
    WORKLOADS,
    Draft,
    DraftedFiles,
    DraftQuestion,
    Parameter,
    SizeChecks,
    is_index,
    list_all_inputs,
    make_start_input,
    to_field_name,
)
from kernelkb.scaffold.extents import list_axes, rename_axes, split_shape

_SMALL_UNITS, _LARGE_UNITS = (1024, 32, 8, 4, 4, 4), (2**22, 1024, 64, 8, 4, 4)
"""What the sizes of the drafted workloads are multiples of, by the most axes of one array."""
_MOST_ELEMENTS = (2**20, 2**27)
"""Of all arrays of the small and the large workload: 4 and 512 MiB of float32."""
_PART = re.compile(r"([A-Za-z_]\w*) *// *([A-Za-z_]\w*|\d+)")
"""A size that is divided into groups: what is left over would have none."""
_FACTORS = (
    (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41),
    (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
    (3, 4),
    (2, 3),
    (2, 1),
)
"""Of the axes in turn: no two have one size, so that a mix-up of axes cannot pass a check. The
further rows are for arrays of so many axes that they would not have room."""
_WINDOW = re.compile(
    r"k(?:ernel)?_?(?:size|len|h|w|height|width)|(?:filter|window|conv)_?(?:size|len|h|w)?"
    r"|top_?k|num_taps"
)
"""Names of axes of a window or a choice, which are short beside the others of an array."""
_PART_LENGTH = 32
"""Elements of a part on average, where the sizes would leave parts without any."""
_INTEGER_BOUND = 32
_MOST_PARTS = 4
"""Numbers of a point or a colour: a fixed size that no index chooses from."""
"""Exclusive upper bound of drawn integers, which no size may be below where they are indices."""
_UNUSED_INPUT = """\
  # The kernel reads no array; a kernel.yaml has at least one input.
  - {name: unused, shape: [1], dtype: float32, fill: zeros}
"""
_SIZES_NOTE = "# Assumed: kb init chose the sizes of the workloads and the values of the inputs.\n"
_SEEN_NOTE = "# Assumed: kb init chose the values of the inputs; the sizes are those of a run.\n"


def finish_draft(draft: Draft, files: Mapping[str, str], names: Iterable[str] = ()) -> DraftedFiles:
    """Return the files of a kernel's folder with kernel.yaml, and what they leave open.

    Args:
        draft: The kernel.
        files: The launcher and what it includes, by name.
        names: What can be said besides arrays, axes and open questions.

    Raises:
        BadValueError: The reference that was said is no expression of the inputs.
    """
    questions = _ask(draft)
    reference, code = _draft_reference(draft)
    more = {"reference.py": code} if code else {}
    arrays = [p.name for p in (*draft.inputs, *draft.outputs)]
    asked = [q.key.partition(".")[0] for q in questions]
    known = [
        *arrays,
        *draft.axes,
        *names,
        *({RETURNS} & draft.answers.keys()),
        *(key for key in asked if key not in draft.fields.values()),  # else known by its own name
    ]
    yaml = format_kernel_yaml(draft, reference)
    return DraftedFiles(
        {"kernel.yaml": yaml, **files, **more},
        tuple(questions),
        tuple(dict.fromkeys([*known, REFERENCE_KEY, WORKLOADS, "dtype"])),
        tuple(draft.axes),
    )


def _ask(draft: Draft) -> list[DraftQuestion]:
    """Return what a draft leaves open: arrays, then what its launcher does, then the reference."""
    questions = []
    arrays = [*draft.inputs, *draft.outputs]
    for each in arrays:
        name = draft.fields[each.name]
        if each.type == "return" and not each.is_certain:
            why = f"what it returns is not seen: name it all, as {RETURNS}=[out, state]"
            questions.append(DraftQuestion(RETURNS, "", why))
        elif not each.is_certain:
            roles = sorted(ROLES, key=lambda role: role != _guess_role(each))
            questions.append(DraftQuestion(f"{name}.role", "|".join(roles), each.use))
        if not each.shape:
            questions.append(DraftQuestion(name, each.guess, each.use))
        if each.points_into == UNKNOWN and not each.fill:
            why = f"where parts of another array begin, of COUNT: {name}.fill='offsets COUNT'"
            questions.append(DraftQuestion(f"{name}.fill", "", why))
        if asks_fill(each):
            questions.append(DraftQuestion(f"{name}.fill", *each.asks_fill))
        if each.dtype is None and is_index(each):
            questions.append(DraftQuestion(f"{name}.dtype", each.dtypes or "int64|int32", each.use))
    unknown = [p for p in arrays if p.dtype is None and not is_index(p)]
    shared = [draft.fields[p.name] for p in unknown if not p.has_own_dtype]
    if any(FILL_IN_MARK not in p.type for p in unknown if not p.has_own_dtype):
        questions.append(DraftQuestion("dtype", draft.dtypes, f"of {', '.join(shared)}"))
    questions += [
        DraftQuestion(f"{draft.fields[p.name]}.dtype", p.dtypes or draft.dtypes, p.use)
        for p in unknown
        if p.has_own_dtype
    ]
    questions += draft.questions
    if not draft.answers.get(REFERENCE_KEY):
        why = "nothing checks it then; else an expression of torch, as torch.softmax(x, -1)"
        questions.append(DraftQuestion(REFERENCE_KEY, DRAFTED_VARIANT, why))
    return questions


def asks_fill(array: Parameter) -> bool:
    """Return whether the values that an array begins with have to be said."""
    is_drawn = array.role == "input" or array.is_read
    return any(array.asks_fill) and is_drawn and not array.fill


def _guess_role(array: Parameter) -> str:
    """Return the role that an array's name suggests; else the one that it is listed with."""
    if array.role == "output" and array.is_read:
        return "both"
    name = to_field_name(array.name)
    name = re.sub(r"_?(?:ptr|dptr|dev|device|gpu)_?$", "", name)
    if re.fullmatch(r"(?:.*_)?(?:y|o|c|out|output|dst|dest|result|res)s?\d*", name):
        return "output"
    is_input = re.fullmatch(
        r"(?:.*_)?(?:x|a|b|q|k|v|in|inp|input|src|weight|bias|w|scale)s?\d*", name
    )
    return "input" if is_input else array.role


def _draft_reference(draft: Draft) -> tuple[str, str]:
    """Return the line of kernel.yaml, and the text of reference.py, or nothing."""
    said = draft.answers.get(REFERENCE_KEY, "")
    if not said:
        return f"reference: {FILL_IN_MARK}", ""
    if said == DRAFTED_VARIANT:
        return OWN_REFERENCE, ""
    if file := re.fullmatch(r"([\w.-]+\.\w+):(\w+)", said):
        return f"reference: {{file: {file[1]}, function: {file[2]}}}", ""
    names = [draft.fields[p.name] for p in list_all_inputs(draft)]
    said = re.sub(r"(?<![\w.])F\.(?=[a-z])", "torch.nn.functional.", said)
    said = _write_fields(said, draft.fields)
    sizes = {
        draft.fields[dim]: f"{draft.fields[p.name]}.shape[{at}]"
        for p in list_all_inputs(draft)
        for at, dim in enumerate(p.shape)
        if dim in draft.axes
    }
    used = {n: size for n, size in sizes.items() if n not in names and re.search(rf"\b{n}\b", said)}
    if not is_torch_expression(said, [*names, *used]):
        raise BadValueError(
            f"reference {said!r} is no expression of torch, the inputs {', '.join(names)} "
            f"and the axes {', '.join(sizes) or '(none yet)'} "
            "(words only as reduction='none' and its like); "
            "write reference.py into the kernel's folder, and say reference=reference.py:NAME"
        )
    lines = "".join(f"    {name} = {size}\n" for name, size in used.items())
    code = f"import torch\n\n\ndef reference({', '.join(names)}):\n{lines}    return {said}\n"
    return "reference: {file: reference.py, function: reference}", code


def _write_fields(said: str, fields: Mapping[str, str]) -> str:
    """Return an expression with names of the source, ``rowPtr``, as kernel.yaml has them."""
    own = {name: field for name, field in fields.items() if name not in fields.values()}
    own |= {f"{name}_start": f"{field}_start" for name, field in own.items()}
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda match: own.get(match[0], match[0]), said)


def format_kernel_yaml(draft: Draft, reference: str) -> str:
    """Return kernel.yaml, given its line for the reference."""
    unknown = f"  - {{name: {FILL_IN_MARK}, shape: [{FILL_IN_MARK}], dtype: {FILL_IN_MARK}}}\n"
    inputs = "".join(_format_input(p, draft) for p in list_all_inputs(draft))
    outputs = "".join(_format_output(p, draft) for p in draft.outputs)
    if not inputs and outputs:
        inputs = _UNUSED_INPUT
    text = _format_head(draft)
    text += "inputs:\n" + (inputs or unknown) + "outputs:\n" + (outputs or unknown)
    return text + _format_tail(draft, reference)


def _format_head(draft: Draft) -> str:
    axes = [draft.fields[axis] for axis in draft.axes]
    workloads = _choose_workloads(draft)
    rows = "".join(f"  {name}: {{{sizes}}}\n" for name, sizes in workloads.items())
    default = "large" if "large" in workloads else next(iter(workloads))
    notes = "".join(f"# Assumed: {note}.\n" for note in draft.notes)
    said = _format_answers(draft)
    return f"""\
# Drafted by kb init from "{draft.include}". kb refuses the file while it holds {FILL_IN_MARK}.
# kb show row_softmax prints a complete example.
{_SEEN_NOTE if draft.answers.get(WORKLOADS) else _SIZES_NOTE}{notes}{said}id: {draft.name}
title: {json.dumps(draft.name.replace("_", " ").strip())}
axes: [{", ".join(axes)}]
workloads:
{rows}default_workload: {{{draft.target}: {default}}}
"""


def _format_answers(draft: Draft) -> str:
    """Return the answers that a draft was made with, as comments: observed, then said."""
    run = draft.observed
    rows = {key: f"{key}={value}\n" for key, value in draft.answers.items()}
    seen = "".join(f"{OBSERVED_HEAD}{row}" for key, row in rows.items() if key in run.keys)
    said = "".join(f"{SAID_HEAD}{row}" for key, row in rows.items() if key not in run.keys)
    return (f"{PROGRAM_HEAD}{run.program}\n{seen}" if seen else "") + said


def _choose_workloads(draft: Draft) -> dict[str, str]:
    """Return the sizes of each workload: those that a program used, else chosen ones."""
    chosen = dict(zip(("small", "large"), _choose_sizes(draft), strict=True))
    if seen := draft.answers.get(WORKLOADS, ""):
        rows = [dict(re.findall(r"(\w+): (\d+)", part)) for part in seen.split("|")]
        names = (f"observed-{at + 1}" for at in range(len(rows)))
        small = chosen["small"]
        seen_names = {draft.fields[axis]: to_field_name(axis) for axis in draft.axes}
        chosen = {
            name: {axis: int(row.get(seen_names[axis], small[axis])) for axis in small}
            for name, row in zip(names, rows, strict=True)
        }
    return {name: ", ".join(f"{a}: {n}" for a, n in row.items()) for name, row in chosen.items()}


def _choose_sizes(draft: Draft) -> list[dict[str, int]]:
    """Return the sizes of the small and the large workload: distinct, and divisible."""
    arrays = (*draft.inputs, *draft.outputs)
    shapes = [p.shape for p in arrays]
    count = len(draft.axes)
    ranks = [sum(bool(list_axes([dim])) for dim in shape) if shape else count for shape in shapes]
    rank = min(max(ranks, default=1), len(_LARGE_UNITS)) or 1
    workloads = []
    units = (_SMALL_UNITS[rank - 1], _LARGE_UNITS[rank - 1])
    held = [p.shape or split_shape(p.guess.partition("|")[0]) for p in arrays]
    for unit, most in zip(units, _MOST_ELEMENTS, strict=True):
        found: list[tuple[float, dict[str, int]]] = []
        for row, shift in product(_FACTORS, range(unit.bit_length())):
            factors = zip(draft.axes, row * (count // len(row) + 1), strict=False)
            sizes = {
                axis: factor * (1 if _WINDOW.fullmatch(axis.lower()) else unit >> shift)
                for axis, factor in factors
            }
            _keep_checks(sizes, draft.checks, [dim for shape in shapes for dim in shape])
            found.append((sum(_count(s, sizes) for s in held if list_axes(s)), sizes))
            if found[-1][0] <= most:
                break
        else:  # some sizes are as the source says
            found.sort(key=lambda each: max(each[0], _MOST_ELEMENTS[-1]))
            found.reverse()
        workloads.append({draft.fields[axis]: n for axis, n in found[-1][1].items()})
    return workloads


def _count(shape: Sequence[str], sizes: Mapping[str, int]) -> float:
    """Return the elements of an array; 1 where an extent is another text, as a guess may be."""
    if not all(axis in sizes for axis in list_axes(shape)):
        return 1
    text = "*".join(f"({dim})" for dim in shape if dim != NO_AXES) or "1"
    try:
        return evaluate_axis_expression(text, sizes)
    except ValueError:
        return 1


def _keep_checks(sizes: dict[str, int], checks: SizeChecks, extents: Sequence[str]) -> None:
    """Change sizes so that they meet what a source checks, and that each extent is positive."""
    sizes |= {axis: 1 << (sizes[axis].bit_length() - 1) for axis in checks.powers}
    parts = [pair for extent in extents for pair in _PART.findall(extent) if pair[0] in sizes]
    steps: dict[str, int] = {}
    pairs = dict.fromkeys((*parts, *checks.multiples.items()))
    for axis, of in sorted(pairs, key=lambda pair: not pair[1].isdecimal()):
        if (
            of in sizes and of not in steps and sizes[of] >= sizes[axis]
        ):  # parts of one element each are seldom meant
            sizes[of] = max(1, sizes[axis] // 2)
        step = lcm(int(of) if of.isdecimal() else sizes.get(of, 1), steps.get(axis, 1)) or 1
        steps[axis] = step
        count, others = max(sizes[axis] // step, 1), {n for a, n in sizes.items() if a != axis}
        while step > 1 and step * count in others:
            count += 1
        sizes[axis] = step * count
    sizes |= {axis: most for axis, most in checks.most.items() if sizes[axis] > most}
    for axis, allowed in checks.one_of.items():
        sizes[axis] = max([n for n in allowed if n <= sizes[axis]] or [min(allowed)])
    taken = [
        (less, axis)
        for extent in extents
        for less in re.findall(r"-\s*([A-Za-z_][\w.]*)", extent)
        for axis in list_axes([extent])
        if axis != less
    ]
    for less, axis in (*checks.below.items(), *taken):
        if sizes[less] >= sizes[axis]:
            sizes[less] = max(1, sizes[axis] // 2)
    for part, whole in checks.parts.items():
        if sizes[part] >= sizes[whole]:
            sizes[whole] <<= (sizes[part] // sizes[whole]).bit_length()
            sizes[part] = max(1, sizes[whole] // _PART_LENGTH)


def _format_input(array: Parameter, draft: Draft) -> str:
    if array.fill:
        kind, _, rest = array.fill.partition(" ")
        scale, _, low = rest.partition(" from ")
        scale = '"0"' if scale == "0" else scale  # an expression may be 0, and no number
        told = f", scale: {rename_axes(scale, draft.fields)}" if scale else ""
        told += f", low: {low}" if low else ""
        return _format_array(array, draft, f", fill: {kind}{told}")
    if asks_fill(array):
        return _format_array(array, draft, f", fill: {FILL_IN_MARK}")
    if array.dtype is None or array.dtype.startswith(("float", "bfloat")):
        is_positive = re.search(r"var(?!i?able)|std|sigma", array.name.lower())
        fill = f", fill: {'uniform' if is_positive else 'normal'}"
        return _format_array(array, draft, fill, _ASSUMED)
    if array.points_into:
        into = next((p for p in draft.inputs if p.name == array.points_into and p.shape), None)
        end = rename_axes(into.shape[0], draft.fields) if into else FILL_IN_MARK
        return _format_array(array, draft, f", fill: offsets, scale: {end}")
    name, least = array.indexes
    into = next((p for p in (*draft.inputs, *draft.outputs) if p.name == name and p.shape), None)
    if into is not None:
        axis = array.indexed_axis if -array.indexed_axis <= len(into.shape) else 0
        end = rename_axes(into.shape[axis], draft.fields) + (f", low: {least}" if least else "")
        return _format_array(array, draft, f", fill: integers, scale: {end}")
    bound = 2 if array.dtype == "bool" else _INTEGER_BOUND
    if array.dtype in ("int32", "int64"):  # perhaps indices, which have to lie within each axis
        dims = [dim for p in (*draft.inputs, *draft.outputs) for dim in p.shape]
        fixed = [int(dim) for dim in dims if dim.isdecimal() and int(dim) > _MOST_PARTS]
        bound = min([bound, *fixed, *_choose_sizes(draft)[0].values()])
    return _format_array(array, draft, f", fill: integers, scale: {bound}", _ASSUMED)


def _format_output(array: Parameter, draft: Draft) -> str:
    start = f", starts_as: {draft.fields[make_start_input(array).name]}" if array.is_read else ""
    return _format_array(array, draft, start)


_ASSUMED = "fill assumed"
"""Of values that neither a text nor a run tells."""


def _format_array(array: Parameter, draft: Draft, options: str, note: str = "") -> str:
    dims = [rename_axes(dim, draft.fields) for dim in array.shape] or [FILL_IN_MARK]
    dims = [dim for dim in dims if dim != NO_AXES]
    name, dtype = draft.fields[array.name], array.dtype or FILL_IN_MARK
    guess = f"perhaps {array.guess}" if array.guess and not array.shape else ""
    is_open = not (array.shape and array.dtype and array.is_certain)
    told = "; ".join(filter(None, (guess, array.use)))
    origin = told if is_open else array.origin or "from the text"
    comment = "; ".join(filter(None, (origin, note)))
    entry = f"  - {{name: {name}, shape: [{', '.join(dims)}], dtype: {dtype}{options}}}"
    entry += f"  # {comment}\n" if comment else "\n"
    if array.is_certain:
        return entry
    if array.type == "return":
        return f"  - {FILL_IN_MARK}  # {RETURNS}: the names of all that it returns\n{entry}"
    roles = ", ".join(sorted(ROLES, key=lambda role: role != _guess_role(array)))
    return f"  - {FILL_IN_MARK}  # {name}.role: one of {roles}\n{entry}"


def _format_tail(draft: Draft, reference: str) -> str:
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
# Variants are compared with it: torch, {{file: reference.py, function: NAME}}; C++,
# {{function: "file.cpp:NAME"}}; or {{variant: {DRAFTED_VARIANT}}}, which nothing checks.
{reference}
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
