"""A draft of kernel.yaml: the call, the values of its axes and arguments, and its text."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK, to_snake_case
from kernelkb.model.base import Target
from kernelkb.model.kernels.languages import LanguageName
from kernelkb.safety.untrusted_text import WORD_OPTIONS, is_torch_expression
from kernelkb.scaffold.syntax import list_axes, rename_axes

SourceKind = str
"""cuda, torch-extension, tvm-ffi; embedded: CUDA text in strings of a Python file; kernelbench,
candidate; else the name of one of the languages in ``kernelkb.scaffold.python_source``."""
ParameterRole = Literal["input", "output", "size", "number", "stream"]
CallStyle = Literal["pointers", "torch", "tvm-ffi", "python", "bound"]
"""How a function takes its arrays. bound: a module exports it, and its text is a lambda or in
another file; it is not drafted."""
_ROLE_ORDER = ("input", "output", "size", "stream")

_RESERVED_NAMES = frozenset({*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null"})
_SMALL_UNITS, _LARGE_UNITS = (1024, 32, 8, 4, 4, 4), (2**22, 1024, 64, 8, 4, 4)
"""What the sizes of the drafted workloads are multiples of, by the most axes of one array."""
_FACTORS = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
"""Of the axes in turn: no two have one size, so that a mix-up of axes cannot pass a check."""
_MULTIPLE = re.compile(r"\b([A-Za-z_]\w*)\s*%\s*(\w+)\s*==\s*0")
_LIMIT = re.compile(
    r"\b(?:assert|\w*CHECK\w*)\b[^\n;]*?\b([A-Za-z_]\w*)\s*"
    r"(?:<=\s*(\d+)\b|in\s*[\[({]([\d, ]+)[\])}])"
)
"""What a source checks of a size: the largest one, or the list of all."""
_INTEGER_BOUND = 32
"""Exclusive upper bound of drawn integers, which no size may be below where they are indices."""
_UNUSED_INPUT = """\
  # The kernel reads no array; a kernel.yaml has at least one input.
  - {name: unused, shape: [1], dtype: float32, fill: zeros}
"""
_SIZES_NOTE = "# Assumed: kb init chose the sizes of the workloads and the values of the inputs.\n"
_SEEN_NOTE = "# Assumed: kb init chose the values of the inputs; the sizes are those of a run.\n"
DRAFTED_VARIANT = "mine"
OWN_REFERENCE = f"reference: {{variant: {DRAFTED_VARIANT}}}"
"""The line of kernel.yaml that makes the drafted variant the reference."""
REFERENCE_KEY = "reference"
WORKLOADS = "workloads"
"""What says the sizes that a program used: ``n: 1000, m: 8 | n: 3000, m: 8``."""
RETURNS = "returns"
"""What names all arrays that a function returns, where the text does not show how many."""
_FLOAT_DTYPES = "float16|bfloat16|float32"
_INDEX_NAME = re.compile(
    r".*(?:idx|index|indice)(?:e?s)?\d*|(?:.*_)?lens?\d*"
    r"|(?:.*_)?(?:id|target|label|length|indptr|offset|seq_?len|loc|slot|map|table|pos|perm)s?\d*"
    r"|\w*(?:dest|slot|block)_?(?:loc|map|mapping|table)s?\d*"
)
ROLES = ("input", "output", "both")
SAID_HEAD, OBSERVED_HEAD, PROGRAM_HEAD = "# Said: ", "# Observed: ", "# Observed in a run of: "
"""What kernel.yaml keeps of the answers that it was drafted with, and where they are from."""


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
    """False where the text does not show whether the kernel reads or writes it."""
    shape: tuple[str, ...] = ()
    """Of an array: names of sizes, and numbers, outermost first; empty where it is unknown."""
    use: str = ""
    """The line that uses what is not known of it, as ``line 3: y[i] = x[j];``."""
    value: str = ""
    """Of a number: the expression that is passed for it; empty where none is known."""
    guess: str = ""
    """What the text suggests and does not prove: a shape as ``[m, k]``, or a number's value."""
    has_own_dtype: bool = False
    """Its dtype, which is not known, may be another than that of the others."""
    dtypes: str = ""
    """What its dtype may be, the likeliest first, with | between; empty for a float."""
    origin: str = ""
    """Where it is known from, if not from the text: said, observed, or a caller's default."""
    points_into: str = ""
    """The array in which its elements, ascending, say where parts begin; empty for none."""


class DraftQuestion(NamedTuple):
    """Something that the text does not say."""

    key: str
    """What ``--set`` names: ``x`` for a shape or a number, ``x.role``, ``x.dtype``, ``grid``."""
    guess: str
    """What may be right, the likeliest first, with | between; empty for none."""
    why: str
    """The line of the source that uses it, or what is not known."""


class DraftedFiles(NamedTuple):
    """A kernel folder that is not written yet."""

    files: Mapping[str, str]
    questions: tuple[DraftQuestion, ...] = ()
    """What the files mark with FILL_IN."""
    names: tuple[str, ...] = ()
    """What ``--set`` may name, besides ``.role`` and ``.dtype``."""


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


class Observed(NamedTuple):
    """Which answers are from a run, and not from the user."""

    keys: frozenset[str] = frozenset()
    program: str = ""
    """The command that was run, in one line."""


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
    """What the project's files hold that the source includes, or that stand before it."""
    before: tuple[str, ...] = ()
    """What a file includes before the source, which is a part of it: ``"../a.h"``, ``<cmath>``."""
    callers: tuple[str, ...] = ()
    """What files hold that include the source and launch its kernel."""
    other_texts: tuple[str, ...] = ()
    """What the files of ``others`` hold."""
    answers: Mapping[str, str] = {}
    """What the user said, or a run showed, by key; see ``DraftQuestion``."""
    observed: Observed = Observed()


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
    questions: Sequence[DraftQuestion] = ()
    """What the launcher leaves open: numbers, the grid, arguments of a template."""
    answers: Mapping[str, str] = {}
    observed: Observed = Observed()
    checks: tuple[Mapping[str, str], Mapping[str, int]] = ({}, {})
    """By axis, as the source checks it: the number or axis that it is a multiple of; the most."""


def make_draft(
    request: DraftRequest,
    parameters: Sequence[Parameter],
    variant: DraftedVariant,
    *,
    entry: str = "",
    axes: Sequence[str] = (),
    notes: Sequence[str] = (),
    questions: Sequence[DraftQuestion] = (),
) -> Draft:
    """Return a draft for the parameters of a function.

    Args:
        request: The function and its source.
        parameters: With what is known of them.
        variant: What is called.
        entry: Its name; by default one that begins with ``kb_``.
        axes: In the order of the call, before further ones of the shapes.
        notes: What was assumed, one sentence each.
        questions: What the launch leaves open.
    """
    inputs, outputs = _list_arrays(request, parameters)
    starts = [make_start_input(p) for p in outputs if p.is_read]
    axes = _order_axes(axes, (*inputs, *outputs))
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
        questions=(*questions, *_ask_numbers(parameters)),
        answers=request.answers,
        observed=request.observed,
        checks=_read_checks(request.text, axes),
    )


def _read_checks(text: str, axes: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """Return what a source checks of its sizes; see ``Draft.checks``."""
    multiples = {m[1]: m[2] for m in _MULTIPLE.finditer(text) if m[1] in axes}
    listed = {m[1]: re.findall(r"\d+", m[2] or m[3]) for m in _LIMIT.finditer(text)}
    most = {axis: max(map(int, sizes)) for axis, sizes in listed.items() if axis in axes and sizes}
    return multiples, most


def _list_arrays(
    request: DraftRequest, parameters: Sequence[Parameter]
) -> tuple[list[Parameter], list[Parameter]]:
    """Return inputs and outputs; where none is known to be written, the role of each is asked.

    Raises:
        BadValueError: There is no array, so that no answer makes a kernel of it.
    """
    inputs, outputs = ([p for p in parameters if p.role == r] for r in ("input", "output"))
    if inputs or outputs:
        sure = bool(outputs)
        return [p._replace(is_certain=sure and p.is_certain) for p in inputs], outputs
    files = " or ".join(PurePosixPath(path).name for path in request.others)
    raise BadValueError(
        f"{request.function.name} of {PurePosixPath(request.include).name} is not seen to take or "
        f"return an array: draft one that does, in {files or 'the file that has it'}, with "
        "kb init FILE --kernel NAME; or write kernel.yaml, as kb show row_softmax prints one"
    )


def _order_axes(first: Sequence[str], arrays: Sequence[Parameter]) -> list[str]:
    """Return axes, then those that only shapes have."""
    return [*dict.fromkeys((*first, *(axis for each in arrays for axis in list_axes(each.shape))))]


def _ask_numbers(parameters: Sequence[Parameter]) -> list[DraftQuestion]:
    numbers = [p for p in parameters if p.role == "number" and p.value == FILL_IN_MARK]
    return [DraftQuestion(p.name, p.guess, p.use) for p in numbers]


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
    known = [
        *arrays,
        *draft.axes,
        *names,
        *({RETURNS} & draft.answers.keys()),
        *(q.key.partition(".")[0] for q in questions),
    ]
    yaml = format_kernel_yaml(draft, reference)
    return DraftedFiles(
        {"kernel.yaml": yaml, **files, **more},
        tuple(questions),
        tuple(dict.fromkeys([*known, REFERENCE_KEY, WORKLOADS, "dtype"])),
    )


def is_index(array: Parameter) -> bool:
    """Return whether an array of unknown dtype holds integers, by its name."""
    return bool(_INDEX_NAME.fullmatch(to_field_name(array.name)))


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
        if each.dtype is None and is_index(each):
            questions.append(DraftQuestion(f"{name}.dtype", each.dtypes or "int64|int32", each.use))
    unknown = [p for p in arrays if p.dtype is None and not is_index(p)]
    shared = [draft.fields[p.name] for p in unknown if not p.has_own_dtype]
    if any(FILL_IN_MARK not in p.type for p in unknown if not p.has_own_dtype):
        questions.append(DraftQuestion("dtype", _FLOAT_DTYPES, f"of {', '.join(shared)}"))
    questions += [
        DraftQuestion(f"{draft.fields[p.name]}.dtype", p.dtypes or _FLOAT_DTYPES, p.use)
        for p in unknown
        if p.has_own_dtype
    ]
    questions += draft.questions
    if not draft.answers.get(REFERENCE_KEY):
        why = "nothing checks it then; else an expression of torch, as torch.softmax(x, -1)"
        questions.append(DraftQuestion(REFERENCE_KEY, DRAFTED_VARIANT, why))
    return questions


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
    if not is_torch_expression(said, names):
        raise BadValueError(
            f"reference {said!r} is no expression of torch and the inputs {', '.join(names)} "
            f"(words only as {', '.join(WORD_OPTIONS)}); "
            "write reference.py into the kernel's folder, and say reference=reference.py:NAME"
        )
    code = f"import torch\n\n\ndef reference({', '.join(names)}):\n    return {said}\n"
    return "reference: {file: reference.py, function: reference}", code


def list_defaults(function: Function) -> list[str]:
    """Return the defaults that are passed for arguments that are numbers, as notes."""
    numbers = [p for p in function.parameters if p.role == "number" and p.value != FILL_IN_MARK]
    return [f"{p.name} = {p.value} ({p.origin or 'its default'})" for p in numbers if p.value]


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


def list_all_inputs(draft: Draft) -> list[Parameter]:
    """Return the inputs, then those that hold the initial values of outputs."""
    return [*draft.inputs, *(make_start_input(p) for p in draft.outputs if p.is_read)]


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
        chosen = {
            name: {axis: int(row.get(axis, small[axis])) for axis in small}
            for name, row in zip(names, rows, strict=True)
        }
    return {name: ", ".join(f"{a}: {n}" for a, n in row.items()) for name, row in chosen.items()}


def _choose_sizes(draft: Draft) -> list[dict[str, int]]:
    """Return the sizes of the small and the large workload: distinct, and divisible."""
    shapes = [p.shape for p in (*draft.inputs, *draft.outputs)]
    count = len(draft.axes)
    ranks = [sum(not dim.isdecimal() for dim in shape) if shape else count for shape in shapes]
    rank = min(max(ranks, default=1), len(_LARGE_UNITS)) or 1
    factors = dict(zip(draft.axes, _FACTORS * (count // len(_FACTORS) + 1), strict=False))
    workloads = []
    for unit in (_SMALL_UNITS[rank - 1], _LARGE_UNITS[rank - 1]):
        sizes = {axis: factor * unit for axis, factor in factors.items()}
        for axis, of in draft.checks[0].items():
            step = int(of) if of.isdecimal() else sizes.get(of, 1)
            sizes[axis] = step * max(sizes[axis] // step, 2 if step in sizes.values() else 1)
        sizes |= {axis: most for axis, most in draft.checks[1].items() if sizes[axis] > most}
        workloads.append({draft.fields[axis]: n for axis, n in sizes.items()})
    return workloads


def _format_input(array: Parameter, draft: Draft) -> str:
    if array.dtype is None or array.dtype.startswith(("float", "bfloat")):
        is_positive = re.search(r"var(?!i?able)|std|sigma", array.name.lower())
        return _format_array(array, draft, f", fill: {'uniform' if is_positive else 'normal'}")
    for into in (p for p in draft.inputs if p.name == array.points_into and p.shape):
        end = rename_axes(into.shape[0], draft.fields)
        return _format_array(array, draft, f", fill: offsets, scale: {end}")
    bound = 2 if array.dtype == "bool" else _INTEGER_BOUND
    if array.dtype in ("int32", "int64"):  # perhaps indices, which have to lie within each axis
        bound = min([bound, *_choose_sizes(draft)[0].values()])
    return _format_array(array, draft, f", fill: integers, scale: {bound}")


def _format_output(array: Parameter, draft: Draft) -> str:
    start = f", starts_as: {draft.fields[make_start_input(array).name]}" if array.is_read else ""
    return _format_array(array, draft, start)


def _format_array(array: Parameter, draft: Draft, options: str) -> str:
    dims = [rename_axes(dim, draft.fields) for dim in array.shape] or [FILL_IN_MARK]
    name, dtype = draft.fields[array.name], array.dtype or FILL_IN_MARK
    guess = f"perhaps {array.guess}" if array.guess and not array.shape else ""
    is_open = not (array.shape and array.dtype and array.is_certain)
    told = "; ".join(filter(None, (guess, array.use)))
    comment = told if is_open else array.origin or "from the text"
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
