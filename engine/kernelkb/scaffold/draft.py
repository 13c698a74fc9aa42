"""A draft of kernel.yaml: the call, the values of its axes and arguments, and its text."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import lcm
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, get_args

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK, to_snake_case
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Dtype
from kernelkb.model.kernels.languages import LanguageName
from kernelkb.scaffold.extents import list_axes

SourceKind = str
"""cuda, torch-extension, tvm-ffi; embedded: CUDA text in strings of a Python file; kernelbench,
candidate; else the name of one of the languages in ``kernelkb.scaffold.python.source``."""
ParameterRole = Literal["input", "output", "size", "number", "stream"]
CallStyle = Literal["pointers", "torch", "tvm-ffi", "python", "bound"]
"""How a function takes its arrays. bound: a module exports it, and its text is a lambda or in
another file; it is not drafted."""
_ROLE_ORDER = ("input", "output", "size", "stream")

_ANSWERS = ("reference", "grid", "block", "shared", "dtype", "workloads")
"""Keys of answers that are about no parameter."""
_RESERVED_NAMES = frozenset(
    {*keyword.kwlist, "yes", "no", "on", "off", "true", "false", "null", *_ANSWERS}
)
_MULTIPLE = re.compile(r"\b([A-Za-z_]\w*)\s*%\s*(?:[A-Z]\w*\.)*(\w+)\s*==\s*0")
_LIMIT = re.compile(
    r"\b(?:assert|\w*CHECK\w*)\b[^\n;]*?\b([A-Za-z_]\w*)\s*"
    r"(?:<=\s*(\d+)\b|in\s*[\[({]([\d, ]+)[\])}])"
)
"""What a source checks of a size: the largest one, or the list of all."""
_ORDER = re.compile(
    r"\b(?:assert|\w*CHECK\w*)\b[^\n;]*?\b([A-Za-z_]\w*) *(>=|<=|>|<) *([A-Za-z_]\w*)\b(?![.(\[])"
)
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_MADE = re.compile(r"\b(?:rand|randn|randint|arange|ones)\([^\n]*?\bdtype *= *torch\.(\w+)")
_NAMED = re.compile(r"\b(?:torch|tl|np|numpy|cp|cupy)\.(float8_\w+|u?int8|bool)\b")
_WRITTEN = re.compile(r"(?<![A-Za-z])(u?int8)(?![0-9])")
_POWER = re.compile(
    r"\b([A-Za-z_]\w*) *== *[\w.]*next_power_of_2\(\1\)"
    r"|\b([A-Za-z_]\w*) *& *\(\2 *- *1\)\)? *== *0"
)
"""A size that a source checks to be a power of two."""
DRAFTED_VARIANT = "mine"
OWN_REFERENCE = f"reference: {{variant: {DRAFTED_VARIANT}}}"
"""The line of kernel.yaml that makes the drafted variant the reference."""
REFERENCE_KEY = "reference"
WORKLOADS = "workloads"
"""What says the sizes that a program used: ``n: 1000, m: 8 | n: 3000, m: 8``."""
RETURNS = "returns"
"""What names all arrays that a function returns, where the text does not show how many."""
_INDEX_NAME = re.compile(
    r".*(?:idx|index|indice)(?:e?s)?\d*|(?:.*_)?lens?\d*"
    r"|(?:.*_)?(?:id|target|label|length|indptr|offset|seq_?len|loc|slot|map|table|pos|perm)s?\d*"
    r"|\w*(?:dest|slot|block)_?(?:loc|map|mapping|table)s?\d*"
)
_OPTION = re.compile(
    r"\w*(?:threads?|tpb|bdim)\w*|\w*(?:block|group)_?size\w*|warp_?size"
    r"|\w*(?:mode|flag|type|kind|offset|start\w*|begin|device\w*|rank|axis)"
    r"|\w*(?:radius|radii|halo)"
    r"|\w*(?:kernel_?num|version|iters?|iterations|steps?|repeats?|nreps?|stride\w*|pad\w*)"
)
"""Names of integers that are options of a call, and no sizes."""
ROLES = ("input", "output", "both")
LIST = "list"
"""The type of a parameter of Python that is a list of numbers."""
UNKNOWN = "?"
NO_AXES = "()"
"""The shape of an array of one element that has no axes, as a single one: empty is unknown."""
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
    inner: tuple[str, ...] = ()
    """Its last sizes, where only they are known: a row times one is where that row begins."""
    has_own_dtype: bool = False
    """Its dtype, which is not known, may be another than that of the others."""
    dtypes: str = ""
    """What its dtype may be, the likeliest first, with | between; empty for a float."""
    origin: str = ""
    """Where it is known from, if not from the text: said, observed, or a caller's default."""
    fill: str = ""
    """How its values are drawn, as kernel.yaml says it: ``integers 32``, ``offsets count``.
    Not below 5: ``integers 32 from 5``."""
    points_into: str = ""
    """The array in which its elements, ascending, say where parts begin; empty for none, and
    ``UNKNOWN`` where the text does not show which."""
    indexes: tuple[str, int] = ("", 0)
    """The array of which its elements are places along the first axis, and the smallest element:
    -1 where the kernel tests for it. No array: none is seen."""
    indexed_axis: int = 0
    """The axis of ``indexes``; -1 for the last one."""
    asks_fill: tuple[str, str] = ("", "")
    """What ``fill`` may be, the likeliest first, with | between, and the line that shows that it
    has to be asked; empty where it has not."""
    rows: str = ""
    """Of a pointer to rows of one length: its type in C++, as ``int (*)[W + 1]``."""
    by_name: bool = False
    """Python takes it only by its name."""


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
    axes: tuple[str, ...] = ()
    """What a size in a shape may be called without more."""
    refusal: str = ""
    """Why the files are not to be written, with what can be done; empty where they are."""
    warnings: tuple[str, ...] = ()


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
    limits: tuple[SizeLimit, ...] = ()
    lacks: str = ""
    """Why it cannot be drafted by reading it, and what to do instead; empty where it can."""
    unread: tuple[tuple[str, str], ...] = ()
    """Of Python: kernels, each with the names of its blocks of which no size is seen."""
    options: tuple[str, ...] = ()
    """Of Python: arguments that a call leaves out, unless something is said of them."""
    words: tuple[str, ...] = ()
    """Of Python: arguments that are strings."""
    parts: tuple[tuple[str, str], ...] = ()
    """Of Python: names that are parts of axes, with that: ``("H", "three_H // 3")``."""

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


class SizeLimit(NamedTuple):
    """What the blocks of a kernel need of a size, which it does not check itself."""

    sizes: tuple[str, ...]
    """The size as a launcher's name or ``x.shape[1]``; the first that the draft knows counts."""
    step: int = 0
    """It is a multiple of so many elements; 0 for a power of two; 1 for no such need."""
    most: int = 0
    """The largest, in elements; 0 for none."""
    of: tuple[str, ...] = ()
    """The size that it is a multiple of, as in ``sizes``; empty for none."""
    one_of: tuple[int, ...] = ()
    """All that it may be; empty where it is not listed."""


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
    embedded: str = ""
    """CUDA text in the strings of a Python file."""
    inner: tuple[Function, ...] = ()
    """Launchers that others of the file call; they are drafted where one is chosen by its name."""

    of_host: tuple[Function, ...] = ()
    """Functions that launch with arrays that they make, as copies of those that they take."""


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


class SizeChecks(NamedTuple):
    """What a source checks or needs of its sizes, by axis."""

    multiples: Mapping[str, str] = {}
    """The number or axis that it is a multiple of."""
    most: Mapping[str, int] = {}
    below: Mapping[str, str] = {}
    """The axis that it is not above."""
    powers: frozenset[str] = frozenset()
    """Those that are powers of two: a block of Triton has as many elements."""
    one_of: Mapping[str, Sequence[int]] = {}
    """All that it may be."""
    parts: Mapping[str, str] = {}
    """The size of an array of which it counts the parts: those are fewer than elements."""


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
    checks: SizeChecks = SizeChecks()
    dtypes: str = ""
    """What an array of unknown dtype may hold, the likeliest first, with | between."""


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
    """Return a draft for the parameters of a function; its workloads keep to ``limits``.

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
    arrays = [*inputs, *(make_start_input(p) for p in outputs if p.is_read), *outputs]
    axes = [*dict.fromkeys((*axes, *(axis for each in arrays for axis in list_axes(each.shape))))]
    numbers = [p for p in parameters if p.role == "number" and p.value == FILL_IN_MARK]
    return Draft(
        *(request.name, request.include, request.target),
        axes=axes,
        inputs=inputs,
        outputs=outputs,
        fields=assign_field_names([*(p.name for p in arrays), *axes]),
        entry=entry or f"kb_{request.name}",
        variant=variant,
        notes=notes,
        questions=(*questions, *(DraftQuestion(p.name, p.guess, p.use) for p in numbers)),
        answers=request.answers,
        observed=request.observed,
        checks=_add_limits(request, (*inputs, *outputs), axes),
        dtypes="|".join(_list_dtypes(request.text)),
    )


def _list_dtypes(text: str) -> list[str]:
    """List the dtypes that a source makes arrays of, then floats, then others that it names."""
    made = [m[1] for m in _MADE.finditer(text)]
    named = [m[1] for m in _NAMED.finditer(text)] + [m[1] for m in _WRITTEN.finditer(text)]
    named += (
        ["float8_e4m3fn", "float8_e5m2"] if re.search(r"(?i)(?<![a-z])fp8|float8", text) else []
    )
    ordered = [*sorted(dict.fromkeys(made), key=made.count, reverse=True), *_FLOATS, *named]
    return [dtype for dtype in dict.fromkeys(ordered) if dtype in get_args(Dtype)]


def _add_limits(
    request: DraftRequest, arrays: Sequence[Parameter], axes: Sequence[str]
) -> SizeChecks:
    """Return what a source checks of its sizes, and what the blocks of its kernels need."""
    checks = _read_checks(request.text, axes)
    names = {axis: axis for axis in axes}
    for each in arrays:
        places = [(at, dim) for at, dim in enumerate(each.shape) if dim in axes]
        names |= {f"{each.name}.shape[{at}]": dim for at, dim in places}
        names |= {f"{each.name}.shape[{at - len(each.shape)}]": dim for at, dim in places}
    multiples, most, powers = dict(checks.multiples), dict(checks.most), set(checks.powers)
    one_of = dict(checks.one_of)
    for limit in (*request.function.limits, *_list_filled(arrays, axes)):
        axis = next((names[size] for size in limit.sizes if size in names), "")
        whole = next((names[size] for size in limit.of if size in names), "")
        if axis and whole and whole != axis:
            multiples.setdefault(axis, whole)
        elif axis and limit.step == 0:
            powers.add(axis)
        elif axis and limit.step > 1:
            before = multiples.get(axis, "1")
            multiples[axis] = str(lcm(limit.step, int(before) if before.isdecimal() else 1))
        if axis and limit.one_of:
            one_of[axis] = limit.one_of
        if axis and limit.most:
            most[axis] = min(limit.most, most.get(axis, limit.most))
    parts = dict(filter(None, (_find_parts(each, arrays, axes) for each in arrays)))
    return SizeChecks(multiples, most, checks.below, frozenset(powers), one_of, parts)


def _list_filled(arrays: Sequence[Parameter], axes: Sequence[str]) -> list[SizeLimit]:
    """List the sizes of which a part bounds integers, as ``integers n // 64``: it is not 0."""
    found = (re.match(r"integers (\w+) *//? *(\d+)(?: from|$)", each.fill) for each in arrays)
    return [
        SizeLimit((axis,), int(part[2]))
        for part in filter(None, found)
        for axis in axes
        if part[1] in (axis, to_field_name(axis))
    ]


def _find_parts(
    each: Parameter, arrays: Sequence[Parameter], axes: Sequence[str]
) -> tuple[str, str] | None:
    """Return the count of the parts that an array of offsets has, and the size they are of."""
    into = next((p.shape[:1] for p in arrays if p.name == each.points_into), ())
    kind, _, end = each.fill.partition(" ")
    total = next((a for a in axes if kind == "offsets" and end in (a, to_field_name(a))), "")
    total = total or next(iter(into if not each.fill else ()), "")
    count = list_axes(each.shape)
    is_known = len(count) == 1 and {total, *count} <= {*axes} and total not in count
    return (count[0], total) if is_known else None


def _read_checks(text: str, axes: Sequence[str]) -> SizeChecks:
    multiples = {m[1]: _find_constant(text, m[2]) for m in _MULTIPLE.finditer(text) if m[1] in axes}
    multiples = {a: of for a, of in multiples.items() if of.isdecimal() or of in axes}
    found = [
        (m[1], m[2], [*map(int, re.findall(r"\d+", m[3] or ""))]) for m in _LIMIT.finditer(text)
    ]
    most = {axis: int(largest) for axis, largest, _ in found if axis in axes and largest}
    one_of = {axis: sizes for axis, _, sizes in found if axis in axes and sizes}
    ordered = [m.groups() for m in _ORDER.finditer(text)]
    below = {
        (left if "<" in sign else right): (right if "<" in sign else left)
        for left, sign, right in ordered
        if left != right and {left, right} <= {*axes}
    }
    powers = {m[1] or m[2] for m in _POWER.finditer(text)} & {*axes}
    return SizeChecks(multiples, most, below, frozenset(powers), one_of)


def _find_constant(text: str, name: str) -> str:
    """Return the number that a text sets a name to everywhere; else the name."""
    found = set(re.findall(rf"\b{name}\b *(?::[^=,\n]*)?= *(\d+)\b", text))
    return found.pop() if len(found) == 1 else name


def _list_arrays(
    request: DraftRequest, parameters: Sequence[Parameter]
) -> tuple[list[Parameter], list[Parameter]]:
    """Return inputs and outputs; where none is known to be written, a role not said is asked.

    Raises:
        BadValueError: There is no array, or none is an output, so that no answer makes a kernel.
    """
    inputs, outputs = ([p for p in parameters if p.role == r] for r in ("input", "output"))
    open_ = [p for p in inputs if not (outputs or "role" in p.origin)]
    if inputs and not (outputs or open_):
        raise BadValueError(
            f"every array of {request.function.name} was said to be an input, and it writes no "
            f"array of its arguments: say --set {inputs[-1].name}.role=both where it changes one, "
            "or draft the kernel that it launches, with --kernel NAME"
        )
    if inputs or outputs:
        return [p._replace(is_certain=p.is_certain and p not in open_) for p in inputs], outputs
    files = " or ".join(PurePosixPath(path).name for path in request.others)
    raise BadValueError(
        f"{request.function.name} of {PurePosixPath(request.include).name} is not seen to take or "
        f"return an array: draft one that does, in {files or 'the file that has it'}, with "
        "kb init FILE --kernel NAME; or write kernel.yaml, as kb show row_softmax prints one"
    )


def is_option(name: str) -> bool:
    """Return whether an integer is an option of a call by its name, and no size of an array."""
    return _OPTION.fullmatch(name.lower()) is not None


def is_index(array: Parameter) -> bool:
    """Return whether an array of unknown dtype holds integers, by its name."""
    return bool(_INDEX_NAME.fullmatch(to_field_name(array.name)))


def order_numbers(function: Function) -> list[Parameter]:
    """Return the numbers of a function: those that others are computed from come first.

    Raises:
        BadValueError: Two are computed from each other.
    """
    own = {p.name: p for p in function.parameters if p.role == "number"}
    needs = {n: own.keys() & {*re.findall(r"\w+", p.value)} - {n} for n, p in own.items()}
    try:
        return [own[name] for name in TopologicalSorter(needs).static_order()]
    except CycleError as error:
        names = " and ".join(dict.fromkeys(error.args[1]))
        raise BadValueError(f"{names} are computed from each other; give a number") from error


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
