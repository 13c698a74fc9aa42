"""What is said of a draft: by its user with ``--set``, or by the launches of a program."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import get_args

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.model.kernels.kernel import Dtype, Fill
from kernelkb.scaffold.draft import (
    LIST,
    NO_AXES,
    OBSERVED_HEAD,
    PROGRAM_HEAD,
    RETURNS,
    ROLES,
    SAID_HEAD,
    DraftedFiles,
    DraftQuestion,
    Observed,
    Parameter,
    ParameterRole,
    is_index,
    to_field_name,
)
from kernelkb.scaffold.extents import list_axes, rename_axes, split_call, split_shape

_DTYPES = get_args(Dtype)
_ASPECTS = {"role": ROLES, "dtype": _DTYPES, "fill": get_args(Fill)}
"""What can be said of an array besides its shape, and how it begins."""
_MAX_DEPTH = 8
_EXTENT = re.compile(r"[\w(][\w()*/+ -]*")
DOUBT = "?"
"""What a run says of a shape in the text for which the memory of the array is no room, or several
shapes are: it is asked. Behind it stand those that fit."""


def read_answers(
    words: Sequence[str],
    questions: Sequence[DraftQuestion] = (),
    *,
    takes_doubt: bool = False,
    names: Collection[str] | None = (),
) -> dict[str, str]:
    """Return what ``--set`` words say, by key: ``x=[m, k]``; ``x`` alone takes the guess for it.

    Args:
        words: As they were typed; a later one wins.
        questions: With guesses.
        takes_doubt: Whether they are of a run, which says ``?`` where it contradicts the text.
        names: What may be named. Keys are in lower case, but for those of two names that differ in
            case only; None: all are as they were written.

    Raises:
        BadValueError: A word has no value and there is no guess, or a role or dtype is none.
    """
    guesses = {_write_key(q.key, names): q.guess.partition("|")[0] for q in questions}
    answers = {}
    for word in words:
        key, _, value = (part.strip() for part in word.partition("="))
        key = _write_key(key, names)
        value = value or guesses.get(key, "")
        value = to_fill(value) if key.endswith(".fill") else value
        aspect = key.rpartition(".")[2] if "." in key or key == "dtype" else ""
        allowed = _ASPECTS.get(aspect, ())
        if takes_doubt and value.startswith(DOUBT):
            answers[key] = value
            continue
        is_open = value in ("", DOUBT) or not value.isprintable()
        kind = value.partition(" ")[0] if aspect == "fill" else value
        if is_open or (allowed and kind not in allowed):
            example = "a value, as --set 'x=[rows, cols]'"
            kinds = f"one of {', '.join(allowed)}" if allowed else example
            kinds += _OF_ONE_VALUE if aspect == "fill" else ""
            raise BadValueError(f"--set {word!r} is no answer; give {kinds}")
        answers[key] = value
    return answers


_OF_ONE_VALUE = "; of one value kernel.yaml has -1, 0, 1 and larger whole numbers"


def to_fill(value: str) -> str:
    """Return the fill of kernel.yaml that is one value, as ``ones`` for ``1.0f``; else the value.

    Args:
        value: A number of C++, or anything else.
    """
    if re.fullmatch(r"-1\.?0*[fFuUlL]*", value):
        return "integers 0 from -1"
    number = re.fullmatch(r"\+?(\d+)\.?0*[fFuUlL]*|\.0+[fF]?|0x0+", value)
    whole = int(number[1] or 0) if number else -1
    if whole < 0 or (value.startswith("0") and whole):  # of base 8
        return value
    return ("zeros", "ones")[whole] if whole < 2 else f"integers {whole + 1} from {whole}"


def _write_key(key: str, names: Collection[str] | None) -> str:
    name = key.partition(".")[0]
    alike = {each for each in names or () if each.lower() == name.lower()}
    return key if names is None or (name in alike and len(alike) > 1) else key.lower()


def drop_alike(answers: Mapping[str, str], name: str, names: Collection[str]) -> dict[str, str]:
    """Return the answers without those to another name that is this one in lower case.

    Args:
        answers: By key.
        name: Of the source, as ``FUNCTOR``.
        names: The others, as ``functor``.
    """
    other = name.lower() if name.lower() in names else ""
    is_other = other not in ("", name)
    return {k: v for k, v in answers.items() if not (is_other and k.partition(".")[0] == other)}


def refuse_unknown(given: Mapping[str, str], drafted: DraftedFiles) -> None:
    """Raise BadValueError for an answer to what neither a draft has nor a shape that was said.

    Args:
        given: Answers by key.
        drafted: The draft without them.
    """
    said = " ".join(filter(_is_listed, given.values()))
    names = {*drafted.names, *list_axes([said])}
    known = {to_field_name(n) for n in names} | {n.lower() for n in names} | names
    unknown = next((key for key in given if key.partition(".")[0] not in known), "")
    if unknown:
        listed = ", ".join(q.key for q in drafted.questions) or "nothing"
        raise BadValueError(f"--set {unknown}: there is no such name; asked for: {listed}")
    _refuse_new_axes(given, drafted)


def _refuse_new_axes(given: Mapping[str, str], drafted: DraftedFiles) -> None:
    """Raise BadValueError for a shape with sizes that a draft has not, in place of those it has.

    In place of a shape that is known, or all of several. A new size is said: ``rows=axis``,
    ``grid=rows``.
    """
    plain = " ".join(value for value in given.values() if not _is_listed(value))
    told = {word.lower() for word in (*given, *re.findall(r"[A-Za-z_]\w*", plain))}
    names = {each.lower() for each in drafted.names}
    known = {to_field_name(n) for n in names} | names | told
    asked = {q.key.lower() for q in drafted.questions}
    for key, value in given.items() if drafted.axes else ():
        sizes = split_shape(value) if _is_listed(value) else ()
        new = [each for each in sizes if each.isidentifier() and each.lower() not in known]
        if new and (key.lower() not in asked or len(new) == len(sizes) > 1):
            raise BadValueError(
                f"--set '{key}={value}': no size is called {new[0]}; there are "
                f"{', '.join(drafted.axes)}; a new one is said with --set {new[0]}=axis, too"
            )


def read_said(text: str) -> tuple[dict[str, str], Observed]:
    """Return the answers that a drafted kernel.yaml was written with, and which a run gave."""
    lines = text.splitlines()
    said, seen, programs = (
        [line.removeprefix(head) for line in lines if line.startswith(head)]
        for head in (SAID_HEAD, OBSERVED_HEAD, PROGRAM_HEAD)
    )
    observed = read_answers(seen, takes_doubt=True, names=None)
    run = Observed(frozenset(observed), programs[0]) if programs else Observed()
    return observed | read_answers(said, names=None), run


def find_answer(answers: Mapping[str, str], name: str, aspect: str = "") -> str:
    """Return what was said of a name of the source, in its own case first; empty for nothing."""
    tail = f".{aspect}" if aspect else ""
    keys = (f"{name}{tail}", f"{name}{tail}".lower(), f"{to_field_name(name)}{tail}")
    return next((answers[key] for key in keys if answers.get(key)), "")


def apply_answers(
    parameters: Sequence[Parameter],
    answers: Mapping[str, str],
    observed: Observed,
    *,
    takes_pointers: bool = False,
) -> tuple[Parameter, ...]:
    """Return parameters with what was said of them, or observed.

    A size that was said is the one of the source that kernel.yaml writes so.

    Args:
        parameters: Of one function.
        answers: What was said.
        observed: Which of that a run gave.
        takes_pointers: Whether its sizes are arguments beside the arrays: each is a number or an
            axis, and no number is of Python.

    Raises:
        BadValueError: A shape is no list of names and numbers.
    """
    parameters = _name_returned(parameters, answers.get(RETURNS, ""))
    told = _apply_all(parameters, answers, observed)
    known = [p.name for p in parameters if p.role in ("size", "number")]
    known += [dim for p in parameters for dim in p.shape]
    numbers = [p for p in told if p.role == "number" and p.value != FILL_IN_MARK]
    fixed = {p.name: p.value for p in numbers if takes_pointers or p.value.isdecimal()}
    axes = _list_said_axes(told, answers)
    plain = {axis: value for axis, value in axes if _EXTENT.fullmatch(value)}
    fixed |= dict(axes) if takes_pointers else plain
    if takes_pointers:  # the sign of a shape is a comment in C++
        told = [p._replace(value=p.value.replace("//", "/")) for p in told]
    named = []
    for each in told:
        found = {axis: find_source_name(axis, known) for axis in list_axes(each.shape)}
        names = {axis: _write_extent(name, fixed, each) for axis, name in found.items()}
        shape = tuple(part for dim in each.shape for part in _split_product(dim, names))
        known += [dim for dim in list_axes(shape) if dim not in known]
        named.append(each._replace(shape=shape))
    return tuple(named)


def _list_said_axes(told: Sequence[Parameter], answers: Mapping[str, str]) -> list[tuple[str, str]]:
    """List the axes that are no parameters, as variables of a host, with what was said of each."""
    taken = {to_field_name(each.name).rstrip("_") for each in told}
    axes = list_axes([dim for each in told for dim in each.shape])
    free = [axis for axis in axes if to_field_name(axis).rstrip("_") not in taken]
    said = [(axis, find_answer(answers, axis)) for axis in free]
    return [(axis, value) for axis, value in said if value not in ("", "axis")]


def _split_product(extent: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return an extent with other names; a name of a product is as many extents as that has."""
    text = rename_axes(extent, names)
    if extent not in names or not text.startswith("("):
        return (text,)
    parts, depth = [""], 0
    for letter in text[1:-1]:
        depth += (letter == "(") - (letter == ")")
        if not depth and letter in "+-/":
            return (text,)
        parts += [""] if letter == "*" and not depth else []
        parts[-1] += letter if letter != "*" or depth else ""
    return tuple(part.strip() for part in parts)


def _write_extent(name: str, fixed: Mapping[str, str], array: Parameter) -> str:
    """Return a name of a shape, or the number or the expression of axes that it was said to be.

    Raises:
        BadValueError: It is something else, as a macro or a call.
    """
    value = name
    for _ in range(_MAX_DEPTH):
        named = set(list_axes([value])) & fixed.keys()
        if not named:
            return value
        texts = {each: re.sub(r"//?", "//", fixed[each]) for each in named}
        if not all(map(_EXTENT.fullmatch, texts.values())):
            break
        plain = {each: t if t.isalnum() else f"({t})" for each, t in texts.items()}
        value = rename_axes(value, plain)
    raise BadValueError(
        f"{name} is {fixed[name]!r} and a dimension of {array.name}: give {array.name} a shape "
        f"with a number or another name in its place, or say --set {name}=axis"
    )


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


def _apply_all(
    parameters: Sequence[Parameter], answers: Mapping[str, str], observed: Observed
) -> list[Parameter]:
    """Return parameters with what was said of each, and of no other one in another case."""
    names = [each.name for each in parameters]
    own = (drop_alike(answers, name, names) for name in names)
    return [_apply_answer(p, said, observed) for p, said in zip(parameters, own, strict=True)]


def _apply_answer(each: Parameter, answers: Mapping[str, str], observed: Observed) -> Parameter:
    said = find_answer(answers, each.name)
    names = {each.name, each.name.lower(), to_field_name(each.name)}
    verb = "observed" if said and names & observed.keys else "said"
    if each.type in ("number", "tensor"):
        each = _choose_kind(each, said)
    if each.role in ("size", "number"):
        if _is_listed(said) and each.type != LIST:
            raise BadValueError(
                f"--set '{each.name}={said}': {each.name} is no array: it is passed by value "
                f"({each.type}); give a number or an expression, as --set {each.name}=8, or --set "
                f"{each.name}=axis; what the launcher computes goes into launch.cu"
            )
        if said == each.name and re.search(r"float|double|half", each.type):
            raise BadValueError(f"--set {said}={said} says nothing of it; give a number")
        if said not in ("", "axis", each.name):
            return each._replace(role="number", value=said, use="", origin=verb)
        return each._replace(role="size", guess="") if said else each
    if each.role == "stream":
        return each
    aspects = {"shape": said, **{a: find_answer(answers, each.name, a) for a in _ASPECTS}}
    seen = {key.partition(".")[2] or "shape" for key in observed.keys if key.split(".")[0] in names}
    told = {a: "observed" if a in seen else "said" for a, value in aspects.items() if value}
    role, shares = aspects["role"], not is_index(each) and not each.has_own_dtype
    dtype = aspects["dtype"] or each.dtype or (answers.get("dtype", "") if shares else "")
    is_float = dtype.startswith(("float", "bfloat")) if dtype else not is_index(each)
    each = each._replace(
        fill=aspects["fill"] or (each.fill if is_float or each.fill == "zeros" else "")
    )
    if role:
        kept: ParameterRole = "input" if role == "input" else "output"
        each = each._replace(role=kept, is_read=role == "both", is_certain=True)
    if verb == "observed" and said.startswith(DOUBT):
        guess = said.removeprefix(DOUBT).strip()
        return each._replace(shape=(), guess=guess, dtype=dtype or None)
    if said:
        each = each._replace(shape=_read_shape(each.name, said), guess="")
    by = {verb: ", ".join(a for a in told if told[a] == verb) for verb in told.values()}
    origin = "; ".join(f"{what} {verb}" for verb, what in by.items()) or each.origin
    return each._replace(dtype=dtype or None, origin=origin)


def _choose_kind(each: Parameter, said: str) -> Parameter:
    """Return a parameter of Python, which writes no types, as an array or a number as was said."""
    if each.role == "number" and _is_listed(said):
        return each._replace(type="tensor", role="input", value="", guess="")
    if each.role != "number" and (said == "axis" or _PLAIN_NUMBER.fullmatch(said)):
        return each._replace(type="number", role="number", guess="")
    return each


def _is_listed(said: str) -> bool:
    """Whether an answer is a shape in brackets, and no lambda of C++: ``[]{ return 1; }()``."""
    return said.startswith("[") and said.endswith("]")


_PLAIN_NUMBER = re.compile(r"-?\d*\.\d*(?:e[+-]?\d+)?|-?\d+e[+-]?\d+|True|False|None")
"""Of Python: a bare ``8`` is a shape where an array is expected."""


def _read_shape(name: str, text: str) -> tuple[str, ...]:
    dims = [part.strip() for part in re.sub(r"^[\[(](.*)[\])]$", r"\1", text).split(",")]
    dims = [_write_rounded(dim) for dim in dims if dim] or [NO_AXES] * (text in ("[]", "()"))
    if not dims or not all(dim == NO_AXES or _EXTENT.fullmatch(dim) for dim in dims):
        raise BadValueError(
            f"--set '{name}={text}' is no shape; give names, numbers and their sums, products and "
            f"quotients, as '{name}=[rows + 1, cols // 2, 64]'"
        )
    return tuple(dims)


def _write_rounded(extent: str) -> str:
    """Return an extent with each ``-(-n // 64)`` as ``(n + 63) // 64``."""
    if not (found := _ROUNDED.search(extent)):
        return extent
    size, step = found.groups()
    less = f"{int(step) - 1}" if step.isdecimal() else f"{step} - 1"
    text = f"({size} + {less}) // {step}"
    return text if found[0] == extent else _write_rounded(extent.replace(found[0], f"({text})"))


_ROUNDED = re.compile(r"- *\( *- *(\w+|\([^()]*\)) *// *(\w+) *\)")


def read_launch_word(key: str, text: str) -> str:
    """Return what was said of a launch as one expression of C++: ``(n / 32, 2)`` is a dim3.

    Args:
        key: grid, block or shared.
        text: In blocks, threads or bytes.

    Raises:
        BadValueError: It is a list of expressions, of which C++ takes only the last.
    """
    bare = re.sub(r"^\[(.*)\]$", r"(\1)", text.strip()).replace("//", "/")
    parts, end = (split_call(bare, 1) if bare.startswith("(") else None) or ([], 0)
    if end == len(bare) and 1 < len(parts) <= 3 and key != "shared":
        bare = f"dim3{bare}"
    plain = bare
    while plain != (inner := _SINGLE.sub("0", plain)):
        plain = inner
    if key == "block" and count_threads(bare) > MAX_THREADS:
        raise BadValueError(
            f"--set 'block={text}': a block has at most {MAX_THREADS} threads, or none is launched"
        )
    if "," in plain or (key == "shared" and bare.startswith("dim3")):
        example = "shared=4096" if key == "shared" else f"'{key}=dim3(32, 8)'"
        raise BadValueError(f"--set '{key}={text}' is no single number or dim3; give {example}")
    return bare


def count_threads(block: str) -> int:
    """Return the threads of a block of numbers, as ``dim3(32, 8)``; 0 where one is no number."""
    parts = re.sub(r"^(?:dim3)?\s*[({](.*)[)}]$", r"\1", block.strip()).split(",")
    return prod(map(int, parts)) if all(p.strip().isdecimal() for p in parts) else 0


MAX_THREADS = 1024
"""Of a block."""
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
            own = each.use if each.type == "return" else ""
            use = own or _find_use(text, each.name, line)
            noted = "" if each.shape or each.guess else _find_noted_shape(use)
            each = each._replace(use=use, guess=each.guess or noted)
        elif each.role == "number" and each.value in ("", FILL_IN_MARK):
            use = "; ".join(filter(None, (each.use, _find_use(text, each.name, line))))
            each = each._replace(value=FILL_IN_MARK, use=use)
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
