"""The grid, the block and the sizes of a call, with what its host computes them from."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.answers import find_answer
from kernelkb.scaffold.cpp.element_types import find_dtype
from kernelkb.scaffold.cpp.functions import SourceFacts
from kernelkb.scaffold.cpp.syntax import (
    BRANCH,
    Declaration,
    LaunchSite,
    bind_arguments,
    collect_locals,
    find_local_value,
    get_part,
    get_text,
    iter_calls,
    iter_declarators,
    iter_nodes,
    strip_casts,
)
from kernelkb.scaffold.draft import Function, Parameter, is_option
from kernelkb.scaffold.extents import list_axes, rename_axes

_LANGUAGE_TEXT = """
__half __half2 __nv_bfloat16 __nv_bfloat162 auto bool ceil ceilf ceill char const
constexpr dim3 double false float float2 float4 half half2 int int2 int32_t int4 int64_t
int8_t long max min nullptr nv_bfloat16 pow reinterpret_cast short signed size_t sizeof
static_cast std true uint uint32_t uint4 uint64_t uint8_t unsigned
"""
LANGUAGE_WORDS = frozenset(_LANGUAGE_TEXT.split())
"""Types, functions and constants that need no declaration of the file."""
_WORD = re.compile(r"(?<![\w.>:])[A-Za-z_]\w*(?![\w]*\s*::)")
_HOST_ONLY = re.compile(
    rf"{re.escape(BRANCH)}|decltype|cudaGetDevice|argv|argc|atoi|cudaMalloc|getenv|rand\(|new "
)
_MEMBER = re.compile(r"(?<![\d.])(?:\.|->)\s*(?![xyz]\b)[A-Za-z_]")
"""A member of an object, other than those of dim3."""
_INTEGER = re.compile(
    r"(?:const )?(?:unsigned|signed|int|long|short|auto|s?size_t|u?int\d+_t|uint)\b"
)
_CONSTANT_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}|k[A-Z]\w+")
_MAX_DEPTH = 8


class _Host(NamedTuple):
    """What is known of the function that launches."""

    locals: Mapping[str, str]
    """Statements that declare and set each local variable."""
    kinds: Mapping[str, str]
    """Type of each parameter and local variable."""
    known: Mapping[str, str]
    constants: Collection[str]
    name: str
    is_of_caller: bool
    is_method: bool
    """Of a class, so that what it calls may be another method."""


def collect_configuration(
    site: LaunchSite, known: Mapping[str, str], constants: Collection[str]
) -> tuple[list[str], list[str]] | None:
    """Return the host's statements that a launch's grid and block need, and the configuration.

    Args:
        site: The launch.
        known: Expressions of the launcher that identifiers of the host stand for.
        constants: Macros, global constants and functions of the file, which stay as they are.

    Returns:
        None where a value comes from elsewhere and no number can stand for it.
    """
    host = _Host(
        collect_locals(site.host, site.line),
        _collect_kinds(site.host),
        known,
        constants,
        site.host.name,
        site.is_of_caller,
        _is_method(site.host),
    )
    statements: dict[str, str] = {}
    configuration = list(site.configuration[:3])
    for text in configuration:
        if _MEMBER.search(text) or not _collect_statements(text, host, statements, 0):
            return None
    return list(statements.values()), configuration


def _collect_statements(text: str, host: _Host, statements: dict[str, str], depth: int) -> bool:
    for word in re.findall(r"\b([A-Za-z_]\w*)\s*::", text):
        if word in host.known:  # Traits::kThreads, of a parameter of the template
            statements[word] = f"using {word} = {host.known[word]};"
    for word in dict.fromkeys(_WORD.findall(text)):
        if _calls_method(word, text, host):
            return False
        if word in statements or word in LANGUAGE_WORDS or host.known.get(word) == word:
            continue
        if word in host.known:
            if word in host.known.values():  # another parameter of the launcher
                return False
            value = host.known[word]
            declared = f"using {word} =" if find_dtype(value) else f"const auto {word} ="
            statements[word] = f"{declared} {value};"
        elif word in host.kinds:
            if not _collect_local(word, host, statements, depth):
                return False
        elif word not in host.constants:  # of a header, if a function, or a constant by its name
            is_known = _CONSTANT_NAME.fullmatch(word) or re.search(rf"\b{word}\s*[(<]", text)
            if host.is_of_caller or not is_known:
                return False
    return True


def spell_out_locals(text: str, host: Declaration, known: Collection[str]) -> str:
    """Return an expression with numbers for the local variables of a host that are such.

    Empty where it names one that is not: a launcher that takes it would not compile. ``known``
    are those that the launcher has, too.
    """
    declared = collect_locals(host, sys.maxsize)
    for word in dict.fromkeys(_WORD.findall(text)):
        if word in declared and word not in known:
            value = find_local_value(word, host)
            if not value.isdecimal():
                return ""
            text = re.sub(rf"\b{word}\b", value, text)
    return text


def _is_method(host: Declaration) -> bool:
    """Whether a function is defined by its class's name, as ``Grid::fit``."""
    own = host.body.parent if host.body is not None else None
    return own is not None and any(
        each.type == "qualified_identifier" for each in iter_declarators(own)
    )


def _calls_method(word: str, text: str, host: _Host) -> bool:
    """Whether an expression calls a function that a launcher outside of the class has not."""
    is_call = re.search(rf"(?<![\w.>:]){word}\s*\(", text) and word not in host.kinds
    is_free = word in LANGUAGE_WORDS or word in host.constants or _CONSTANT_NAME.fullmatch(word)
    return bool(is_call) and not is_free and (host.is_method or word in host.known)


def _collect_local(word: str, host: _Host, statements: dict[str, str], depth: int) -> bool:
    """Add what sets a local variable, else a mark for an integer, with what the source says."""
    needed = host.locals.get(word, "")
    is_set = re.search(r"[=({]", needed) or host.kinds[word] == "dim3"
    is_plain = is_set and not _HOST_ONLY.search(needed)
    if needed and is_plain and depth <= _MAX_DEPTH and not _MEMBER.search(needed):
        value = re.sub(rf"\b{word}\b", " ", needed)
        inner = dict(statements)
        if _collect_statements(value, host, inner, depth + 1):
            statements.update(inner)
            statements[word] = needed
            return True
    if not _INTEGER.match(host.kinds[word]):
        return False
    shown = " ".join(needed.split()) or f"a parameter of {host.name}"
    statements[word] = f"const int {word} = {FILL_IN_MARK};  // {shown}"
    return True


def _collect_kinds(host: Declaration) -> dict[str, str]:
    """Map each parameter and local variable of a host function to its type."""
    kinds: dict[str, str] = {}
    nodes = [*host.parameters, *(iter_nodes(host.body))]
    for node in nodes:
        if node.type not in ("declaration", "parameter_declaration"):
            continue
        kind = get_part(node, "type")
        for each in node.children_by_field_name("declarator"):
            name = each.child_by_field_name("declarator") or each
            if name.type == "identifier":
                kinds.setdefault(get_text(name), kind)
    return kinds


_COMPUTED = re.compile(r"(?=.*\w\s*[*/+-])[\w\s()*/+-]+")


def ask_computed_sizes(
    function: Function, own: Declaration, site: LaunchSite | None, facts: SourceFacts
) -> Function:
    """Return a function whose sizes that its launch or call computes from others are to be said.

    And of a kernel those that are 1 there, so that its grid may be for one row, and those of
    constants that it reads itself. Of ``n = rows * cols; k<<<..>>>(x, n, cols)``: the guess for
    ``n`` is ``rows * cols``.
    """
    calls = [(site.arguments, site.host)] if site else [*_iter_calls(function, own, facts)]
    for arguments, host in calls:
        names = [p.name for p in function.parameters]
        passed = dict(zip(names, arguments, strict=False))
        bound = {text: name for name, text in bind_arguments(arguments, names).items()}
        parameters = [
            _ask_computed(p, passed.get(p.name, ""), host, (bound, facts, own))
            if p.role == "size"
            else p
            for p in function.parameters
        ]
        function = function._replace(parameters=tuple(parameters))
    return function


def _iter_calls(
    function: Function, own: Declaration, facts: SourceFacts
) -> Iterator[tuple[Sequence[str], Declaration]]:
    """Yield the calls of a launcher in its texts, with the functions that they stand in."""
    for host in facts.declarations:
        for name, arguments in iter_calls(host.body) if host != own else ():
            if name.rpartition("::")[2] == function.name and not function.is_kernel:
                yield arguments, host


def _ask_computed(
    each: Parameter,
    given: str,
    host: Declaration,
    known: tuple[Mapping[str, str], SourceFacts, Declaration],
) -> Parameter:
    """Return a size with the question for it, where a call passes an expression for it."""
    bound, facts, own = known
    text = strip_casts(given)
    text = find_local_value(text, host) if text.isidentifier() else text
    named = set(list_axes([text]))
    words = {bound.get(word, "") for word in named} - {"", each.name}
    is_computed = _COMPUTED.fullmatch(text) is not None
    guess = ""
    if words and is_computed:
        text = spell_out_locals(text, host, bound.keys() | facts.constants.keys())
        guess = " ".join(re.sub(r"/+", "//", rename_axes(text, bound)).split())
    elif not own.is_global:
        if not (is_computed and named and "/" in text):
            return each
        guess = "axis"
    elif text == "1":  # of an array that is taken as one row
        guess = "1|axis"
    elif named & facts.constants.keys() & set(re.findall(r"[A-Za-z_]\w*", get_text(own.body))):
        guess = f"{text}|axis" if named <= facts.constants.keys() else "axis"
    else:
        return each
    use = "" if own.is_global else f"{host.name} passes {' '.join(given.split())}"
    use += f" = {' '.join(text.split())}" if use and given.isidentifier() and text else ""
    return each._replace(role="number", value=FILL_IN_MARK, guess=guess, use=use)


def mark_unused_sizes(
    function: Function, shaped: Collection[str], said: Mapping[str, str]
) -> Function:
    """Turn integers that are the size of no array into numbers that have to be filled in.

    A size that an array's shape may have stays one as long as that shape is asked for.
    """
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    guessed = set(list_axes([p.guess for p in arrays]))
    parameters = []
    for each in function.parameters:
        is_unused = each.role == "size" and each.name not in shaped
        is_open = each.name in guessed and not is_option(each.name)
        if is_unused and not is_open and not find_answer(said, each.name):
            guess = "" if is_option(each.name) else "axis"
            each = each._replace(role="number", value=FILL_IN_MARK, guess=guess)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))
