"""What is said of a draft: by its user with ``--set``, or by the launches of a program."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from typing import NamedTuple, get_args

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.model.kernels.kernel import Dtype
from kernelkb.scaffold.c_functions import DTYPES
from kernelkb.scaffold.draft import (
    OBSERVED_HEAD,
    PROGRAM_HEAD,
    RETURNS,
    ROLES,
    SAID_HEAD,
    WORKLOADS,
    DraftQuestion,
    Function,
    Observed,
    Parameter,
    ParameterRole,
    is_index,
    to_field_name,
)
from kernelkb.scaffold.syntax import list_axes, rename_axes, split_call, split_shape

_DTYPES = get_args(Dtype)
_DOUBT = "?"
_EXTENT = re.compile(r"[\w(][\w()*/+ -]*")
"""What a run says of a shape in the text for which the memory of the array is no room, or several
shapes are: it is asked. Behind it stand those that fit."""
MAX_SEEN_WORKLOADS = 6
_MAX_SHAPES = 6


def read_answers(
    words: Sequence[str], questions: Sequence[DraftQuestion] = (), *, takes_doubt: bool = False
) -> dict[str, str]:
    """Return what ``--set`` words say, by key: ``x=[m, k]``; ``x`` alone takes the guess for it.

    Args:
        words: As they were typed; a later one wins.
        questions: With guesses.
        takes_doubt: Whether they are of a run, which says ``?`` where it contradicts the text.

    Raises:
        BadValueError: A word has no value and there is no guess, or a role or dtype is none.
    """
    guesses = {q.key.lower(): q.guess.partition("|")[0] for q in questions}
    answers = {}
    for word in words:
        key, _, value = (part.strip() for part in word.partition("="))
        value = value or guesses.get(key.lower(), "")
        aspect = key.rpartition(".")[2] if "." in key or key == "dtype" else ""
        allowed = {"role": ROLES, "dtype": _DTYPES}.get(aspect, ())
        if takes_doubt and value.startswith(_DOUBT):
            answers[key.lower()] = value
            continue
        if value in ("", _DOUBT) or not value.isprintable() or (allowed and value not in allowed):
            kinds = (
                f"one of {', '.join(allowed)}" if allowed else "a value, as --set 'x=[rows, cols]'"
            )
            raise BadValueError(f"--set {word!r} is no answer; give {kinds}")
        answers[key.lower()] = value
    return answers


def read_said(text: str) -> tuple[dict[str, str], Observed]:
    """Return the answers that a drafted kernel.yaml was written with, and which a run gave."""
    lines = text.splitlines()
    said, seen, programs = (
        [line.removeprefix(head) for line in lines if line.startswith(head)]
        for head in (SAID_HEAD, OBSERVED_HEAD, PROGRAM_HEAD)
    )
    observed = read_answers(seen, takes_doubt=True)
    run = Observed(frozenset(observed), programs[0]) if programs else Observed()
    return observed | read_answers(said), run


def find_answer(answers: Mapping[str, str], name: str, aspect: str = "") -> str:
    """Return what was said of a name of the source; empty for nothing."""
    tail = f".{aspect}" if aspect else ""
    return answers.get(f"{name}{tail}".lower()) or answers.get(f"{to_field_name(name)}{tail}", "")


def apply_answers(
    parameters: Sequence[Parameter], answers: Mapping[str, str], observed: Observed
) -> tuple[Parameter, ...]:
    """Return parameters with what was said of them, or observed.

    A size that was said is the one of the source that kernel.yaml writes so.

    Raises:
        BadValueError: A shape is no list of names and numbers.
    """
    parameters = _name_returned(parameters, answers.get(RETURNS, ""))
    told = [_apply_answer(each, answers, observed) for each in parameters]
    known = [each.name for each in parameters if each.role in ("size", "number")]
    known += [dim for each in parameters for dim in each.shape]
    named = []
    for each in told:
        names = {axis: find_source_name(axis, known) for axis in list_axes(each.shape)}
        shape = tuple(rename_axes(dim, names) for dim in each.shape)
        known += [dim for dim in list_axes(shape) if dim not in known]
        named.append(each._replace(shape=shape))
    return tuple(named)


def _name_returned(parameters: Sequence[Parameter], said: str) -> list[Parameter]:
    """Return the parameters with one for each name that was said of what is returned."""
    taken = {to_field_name(each.name) for each in parameters if each.type != "return"}
    names = _read_shape(RETURNS, said) if said else ()
    named = [f"{name}_out" if to_field_name(name) in taken else name for name in names]
    found = []
    for each in parameters:
        is_open = bool(named) and each.type == "return" and not each.is_certain
        own = [each._replace(name=name, is_certain=True) for name in named]
        found += own if is_open else [each]
    return found


def find_source_name(name: str, known: Sequence[str]) -> str:
    """Return a name of the source that a name may stand for; itself where there is none.

    Args:
        name: As the source has it, or as kernel.yaml writes it: in lower case, perhaps with an
            underscore behind it.
        known: Names of sizes; of those that kernel.yaml writes alike the first counts.
    """
    own = to_field_name(name).rstrip("_")
    alike = (each for each in known if to_field_name(each).rstrip("_") == own)
    return name if name in known else next(alike, name)


def _apply_answer(each: Parameter, answers: Mapping[str, str], observed: Observed) -> Parameter:
    said = find_answer(answers, each.name)
    names = {each.name.lower(), to_field_name(each.name)}
    verb = "observed" if said and names & observed.keys else "said"
    if each.role in ("size", "number"):
        if said.startswith("["):
            text = f"--set '{each.name}={said}': {each.name} is no array ({each.type})"
            raise BadValueError(text)
        if said and said != "axis":
            return each._replace(role="number", value=said, use="", origin=verb)
        return each._replace(role="size", guess="") if said else each
    if each.role == "stream":
        return each
    role, dtype = (find_answer(answers, each.name, aspect) for aspect in ("role", "dtype"))
    told = [name for name, value in (("role", role), ("shape", said), ("dtype", dtype)) if value]
    shares = not is_index(each) and not each.has_own_dtype
    dtype = dtype or each.dtype or (answers.get("dtype", "") if shares else "")
    if role:
        kept: ParameterRole = "input" if role == "input" else "output"
        each = each._replace(role=kept, is_read=role == "both", is_certain=True)
    if verb == "observed" and said.startswith(_DOUBT):
        guess = said.removeprefix(_DOUBT).strip()
        return each._replace(shape=(), guess=guess, dtype=dtype or None)
    if said:
        each = each._replace(shape=_read_shape(each.name, said), guess="")
    origin = f"{', '.join(told)} {verb}" if told else each.origin
    return each._replace(dtype=dtype or None, origin=origin)


def _read_shape(name: str, text: str) -> tuple[str, ...]:
    dims = [part.strip() for part in re.sub(r"^[\[(](.*)[\])]$", r"\1", text).split(",")]
    dims = [dim for dim in dims if dim]
    if not dims or not all(_EXTENT.fullmatch(dim) for dim in dims):
        raise BadValueError(
            f"--set '{name}={text}' is no shape; give names, numbers and their sums, products and "
            f"quotients, as '{name}=[rows + 1, cols // 2, 64]'"
        )
    return tuple(dims)


def read_launch_word(key: str, text: str) -> str:
    """Return what was said of a launch as one expression of C++: ``(n / 32, 2)`` is a dim3.

    Args:
        key: grid, block or shared.
        text: In blocks, threads or bytes.

    Raises:
        BadValueError: It is a list of expressions, of which C++ takes only the last.
    """
    bare = re.sub(r"^\[(.*)\]$", r"(\1)", text.strip())
    parts, end = (split_call(bare, 1) if bare.startswith("(") else None) or ([], 0)
    if end == len(bare) and 1 < len(parts) <= 3 and key != "shared":
        bare = f"dim3{bare}"
    plain = bare
    while plain != (inner := _SINGLE.sub("0", plain)):
        plain = inner
    if "," in plain or (key == "shared" and bare.startswith("dim3")):
        example = "shared=4096" if key == "shared" else f"'{key}=dim3(32, 8)'"
        raise BadValueError(f"--set '{key}={text}' is no single number or dim3; give {example}")
    return bare


_SINGLE = re.compile(r"[A-Za-z_]\w*\s*(?:<[^<>()]*>\s*)?(?:\([^()]*\)|\{[^{}]*\})|\([^(),]*\)")
"""A call, or an expression in parentheses, without the comma operator."""


def mark_unknown(parameters: Sequence[Parameter], text: str, line: int) -> list[Parameter]:
    """Return the parameters; one of which something is not known has the line that uses it.

    Args:
        parameters: Of a function.
        text: The source.
        line: Where the function begins, from 1.
    """
    marked = []
    for each in parameters:
        if each.role in ("input", "output") and not (each.shape and each.dtype and each.is_certain):
            use = _find_use(text, each.name, line)
            noted = "" if each.shape or each.guess else _find_noted_shape(use)
            each = each._replace(use=use, guess=each.guess or noted)
        elif each.role == "number" and each.value in ("", FILL_IN_MARK):
            each = each._replace(value=FILL_IN_MARK, use=_find_use(text, each.name, line))
        marked.append(each)
    return marked


def _find_noted_shape(use: str) -> str:
    """Return the shape that a comment notes behind a parameter: ``x,  # [tokens, heads]``."""
    match = re.search(r"(?:#|//)[^\[]*(\[\s*\w+(?:\s*,\s*\w+)*\s*\])", use)
    return match[1] if match else ""


def _find_use(text: str, name: str, line: int) -> str:
    """Return the first line that names a parameter, from where its function begins."""
    for number, content in enumerate(text.splitlines(), 1):
        if number >= line and re.search(rf"\b{re.escape(name)}\b", content):
            return f"line {number}: {content.strip()}"
    return ""


class LaunchArgument(NamedTuple):
    """One argument of a launch."""

    value: bytes
    """As it was passed; zeros in place of pointers."""
    memory: Mapping[int, tuple[int, int]]
    """Of each pointer, by its place in the value: bytes to the end of its allocation, and from the
    start of it."""


class SeenLaunch(NamedTuple):
    """All launches of a kernel with the same grid, arguments and sizes of memory."""

    name: str
    """With its types, as ``void twice<float>(float const*, float*, int)``."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    """Of dynamic shared memory."""
    arguments: tuple[LaunchArgument, ...]
    """Empty where the driver does not tell the sizes of arguments: before CUDA 12.4."""
    calls: int


class SeenAnswers(NamedTuple):
    """What launches say of a draft."""

    answers: Mapping[str, str]
    """As ``--set`` would say them."""
    warnings: tuple[str, ...]


class _Seen(NamedTuple):
    """One array or number in each launch."""

    parameter: Parameter
    numbers: tuple[float, ...]
    """Its values; of an array the elements behind its pointer."""
    is_whole: bool = False
    """Of an array: whether its memory is an allocation of its own, and no part of a pool."""


def answer_by_launches(
    function: Function,
    kernel: Function,
    fields: Mapping[str, str],
    passed: Mapping[str, str],
    launches: Sequence[SeenLaunch],
    *,
    asks_launch: bool,
) -> SeenAnswers:
    """Return shapes, numbers, template arguments, launch and workloads as a program used them.

    Args:
        function: What is drafted: the kernel, or what launches it.
        kernel: With the fields of structures as its parameters.
        fields: The structure that each such field belongs to.
        passed: What the function passes for each parameter of the kernel, where that is a name.
        launches: The most frequent first.
        asks_launch: Whether the text does not show the grid: then one grid is for all workloads.
    """
    first = launches[0]
    same = [each for each in launches if each.name == first.name]
    if asks_launch:
        shape = (first.grid, first.block, first.shared_bytes)
        same = [each for each in same if (each.grid, each.block, each.shared_bytes) == shape]
    rows = [_split_arguments(kernel, fields, each) for each in same]
    if not rows[0]:
        text = (
            "the driver does not tell sizes of arguments (CUDA 12.4 does): only the launch is said"
        )
        return SeenAnswers(_answer_launch(kernel, first) if asks_launch else {}, (text,))
    seen = _collect_seen(function, kernel, passed, same, rows)
    answers = _answer_sizes(seen)
    answers |= _answer_workloads(answers, seen, len(same))
    if function.is_kernel:
        answers |= _answer_launch(kernel, first)
    return SeenAnswers(answers, tuple(_list_warnings(seen, launches, same)))


def _answer_workloads(
    answers: Mapping[str, str], seen: Mapping[str, _Seen], count: int
) -> dict[str, str]:
    axes = [name for name, value in answers.items() if value == "axis"]
    sizes = [
        ", ".join(f"{to_field_name(a)}: {int(seen[a].numbers[at])}" for a in axes)
        for at in range(min(count, MAX_SEEN_WORKLOADS))
    ]
    return {WORKLOADS: " | ".join(dict.fromkeys(sizes))} if axes else {}


def _collect_seen(
    function: Function,
    kernel: Function,
    passed: Mapping[str, str],
    launches: Sequence[SeenLaunch],
    rows: Sequence[Mapping[str, float]],
) -> dict[str, _Seen]:
    """Map each parameter of the function to what the launches of the kernel tell of it."""
    own = {p.name: p for p in function.parameters}
    seen = {}
    for name in rows[0]:
        outer = own.get(passed.get(name, name if function.is_kernel else ""))
        if outer is not None and all(name in row for row in rows):
            is_whole = all(_is_whole(each, kernel, name) for each in launches)
            seen[outer.name] = _Seen(outer, tuple(row[name] for row in rows), is_whole)
    return seen


def _list_warnings(
    seen: Mapping[str, _Seen], launches: Sequence[SeenLaunch], same: Sequence[SeenLaunch]
) -> list[str]:
    """Return which launches are left out, and which shapes of the text have too little memory."""
    count = sum(each.calls for each in launches)
    left = count - sum(each.calls for each in same)
    warnings = [f"{left} of {count} launches, with other types, grids or blocks, are left out"]
    warnings = warnings if left else []
    sizes = {name: each.numbers for name, each in seen.items()}
    for name, each in seen.items():
        if each.parameter.role in ("input", "output") and _lacks_room(each, sizes):
            shape = _write_shape(each.parameter.shape)
            has = f"has {int(max(each.numbers))} elements in the run"
            warnings.append(f"{name}: {shape} is read from the text, but it {has}")
    return warnings


_POOL_BYTES = 2**21
"""What pools take from the driver is a multiple of it."""


def _is_whole(launch: SeenLaunch, kernel: Function, name: str) -> bool:
    """Whether a pointer argument has an allocation of its own; not known of one in a structure."""
    at = [p.name for p in kernel.parameters].index(name)
    if len(launch.arguments) != len(kernel.parameters) or 0 not in launch.arguments[at].memory:
        return False
    left, offset = launch.arguments[at].memory[0]
    return offset == 0 and left % _POOL_BYTES != 0


def _answer_launch(kernel: Function, launch: SeenLaunch) -> dict[str, str]:
    """Return grid, block, shared memory and the arguments of the template."""
    answers = {"grid": f"dim3{launch.grid}", "block": f"dim3{launch.block}"}
    answers["shared"] = str(launch.shared_bytes)
    match = re.search(rf"\b{re.escape(kernel.name)}<(.*)>\(", launch.name)
    if match:
        parts = re.findall(r"(?:[^,<>]|<[^<>]*>)+", match[1])
        named = zip(kernel.template, parts, strict=False)
        answers |= {name: _to_source(part.strip()) for name, part in named}
    return answers


def _to_source(text: str) -> str:
    """Return a template argument as source: ``(bool)1`` and ``4u`` as they are written there."""
    return {"(bool)1": "true", "(bool)0": "false"}.get(text, re.sub(r"^\(\w+\)", "", text))


def _split_arguments(
    kernel: Function, fields: Mapping[str, str], launch: SeenLaunch
) -> dict[str, float]:
    """Return the value of each number, and the elements behind each pointer, by name.

    Empty where the arguments are not those of the text.
    """
    found: dict[str, float] = {}
    arguments = iter(launch.arguments)
    argument, owner, place, unread = None, "", 0, ""
    for each in kernel.parameters:
        is_pointer = each.role in ("input", "output") or each.type.endswith("*")
        kind = each.dtype if is_pointer else each.dtype or DTYPES.get(each.type, "")
        size = 8 if is_pointer else _SIZES.get(kind or "", 0)
        if fields.get(each.name, "") != owner or not owner:
            argument, owner, place = next(arguments, None), fields.get(each.name, ""), 0
        place += -place % size if size else 0
        unread = owner if not size else unread  # what follows it in a structure is not placed
        if (
            argument is None
            or place + size > len(argument.value)
            or not size
            or unread == owner != ""
        ):
            continue
        if not is_pointer and kind in _CODES:
            found[each.name] = struct.unpack_from(_CODES[kind], argument.value, place)[0]
        elif is_pointer and place in argument.memory and kind in _SIZES:
            found[each.name] = argument.memory[place][0] // _SIZES[kind]
        place += size
    return found if next(arguments, None) is None else {}


_CODES = {
    "float32": "<f",
    "float64": "<d",
    "bool": "<?",
    "int8": "<b",
    "uint8": "<B",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "float16": "<e",
}
_SIZES = {dtype: struct.calcsize(code) for dtype, code in _CODES.items()} | {"bfloat16": 2}


def _answer_sizes(seen: Mapping[str, _Seen]) -> dict[str, str]:
    """Return the shape of each array that it has room for exactly, and each number."""
    numbers = {
        name: each
        for name, each in seen.items()
        if each.parameter.role in ("size", "number") and not each.parameter.type.endswith("*")
    }
    sizes = {
        name: each.numbers
        for name, each in numbers.items()
        if all(isinstance(n, int) and n > 0 for n in each.numbers) and set(each.numbers) != {1}
    }
    answers: dict[str, str] = {}
    for name, each in seen.items():
        is_doubted = _lacks_room(each, sizes)
        if name in numbers or (each.parameter.shape and not is_doubted):
            continue
        found = _find_shapes(each, sizes)
        if is_doubted or len(found) > 1:
            answers[name] = f"{_DOUBT}{'|'.join(found)}"
        elif found:
            answers[name] = found[0]
    dims = {d for name in seen for d in seen[name].parameter.shape}
    dims |= {d for text in answers.values() for d in list_axes([text])}
    for name, each in numbers.items():
        if name in dims or len(set(each.numbers)) > 1:
            answers[name] = "axis"
        elif each.parameter.role == "size" or each.parameter.value in ("", FILL_IN_MARK):
            kind = each.parameter.type
            answers[name] = _write_number(each.numbers[0], kind)
    return answers


def _lacks_room(array: _Seen, sizes: Mapping[str, Sequence[float]]) -> bool:
    """Whether the shape of the text does not fill the memory of an array in some launch.

    Of memory that is part of a pool, or goes on for another array, only too little is told.
    """
    needed = _count_elements(array.parameter.shape, sizes, len(array.numbers))
    pairs = list(zip(needed, array.numbers, strict=True)) if needed else []
    return any(need > has or (array.is_whole and need != has) for need, has in pairs)


def _count_elements(
    dims: Sequence[str], sizes: Mapping[str, Sequence[float]], count: int
) -> tuple[float, ...]:
    """Return the elements of a shape in each launch; empty where a size is not known."""
    values = [sizes.get(d, (int(d),) * count if d.isdecimal() else ()) for d in dims]
    return tuple(map(math.prod, zip(*values, strict=True))) if dims and all(values) else ()


def _find_shapes(array: _Seen, sizes: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the shapes that fill the memory of an array in each launch: one, or what it may be.

    How many elements there are does not say in which order the dimensions are.
    """
    guess = split_shape(array.parameter.guess)
    found = []
    rest = {name for count in (1, 2, 3) for name in combinations(sizes, count)}
    for dims in (guess, *sorted(rest, key=lambda names: (len(names), names))):
        if _count_elements(dims, sizes, len(array.numbers)) == array.numbers:
            found.append(dims)
            if dims == guess:
                return [_write_shape(dims)]
    if not found and len(set(array.numbers)) == 1 and array.is_whole:
        return [_write_shape((str(int(array.numbers[0])),))]
    fewest = [dims for dims in found if len(dims) == len(found[0])]
    orders = [order for dims in fewest for order in permutations(dims)]
    return [_write_shape(order) for order in orders[:_MAX_SHAPES]]


def _write_shape(dims: Sequence[str]) -> str:
    return f"[{', '.join(dims)}]"


def _write_number(value: float, kind: str) -> str:
    if kind == "bool":
        return str(bool(value)).lower()
    if kind not in ("float", "double", "half", "__half"):
        return str(int(value))
    return repr(float(f"{value:.9g}")) + ("f" if kind == "float" else "")
