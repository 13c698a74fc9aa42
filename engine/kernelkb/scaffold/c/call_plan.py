"""Decides how to call a kernel or launcher of pointers: shapes, scalars, templates, the grid."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.c.array_shapes import fill_arrays
from kernelkb.scaffold.c.c_functions import SourceFacts, find_dtype, is_size_type
from kernelkb.scaffold.c.launch_values import LaunchContext, collect_configuration, find_local_value
from kernelkb.scaffold.c.syntax import (
    Declaration,
    LaunchSite,
    bind_arguments,
    get_text,
    iter_nodes,
)
from kernelkb.scaffold.draft import (
    Function,
    Parameter,
    is_option,
)

_INDEX = re.compile(r"\b(?:blockIdx|threadIdx|blockDim|gridDim)\.[xyz]")
_MAX_SHOWN = 80
"""Characters of a line that is shown beside a mark."""


class CallPlan(NamedTuple):
    """A function with what its call needs."""

    function: Function
    axes: tuple[str, ...]
    """Names of the sizes, in the order of the call."""
    template: tuple[str, ...]
    """Template arguments to call it with."""
    statements: tuple[str, ...]
    """Of the host function that launches it: what the grid depends on."""
    configuration: tuple[str, ...]
    """Grid, block and shared memory; empty for a launcher, and where none is known."""
    launch_hint: str
    """What the text shows of a launch that is not known."""


def plan_call(function: Function, facts: SourceFacts) -> CallPlan:
    """Return shapes, numbers, template arguments and launch of a function of pointers."""
    own = _find_declaration(function, facts)
    site = _find_site(function, facts)
    types = find_template(function, own, site, facts)
    function = apply_template(function, types, facts)
    function = fill_arrays(function, own, facts)
    function = fill_numbers(function, site, facts)
    shaped = {dim for p in function.parameters for dim in p.shape}
    if sum(p.role == "size" for p in function.parameters) > 1:
        function = mark_unused_sizes(function, shaped)
    axes = [p.name for p in function.parameters if p.role == "size"]
    marked = [
        p._replace(use=_find_use(p.name, own)) if _is_unknown(p) else p for p in function.parameters
    ]
    function = function._replace(parameters=tuple(marked))
    statements: list[str] = []
    configuration: list[str] = []
    if site is not None:
        statements, configuration = _plan_launch(function, site, facts, types)
    return CallPlan(
        function,
        tuple(axes),
        types,
        tuple(statements),
        tuple(configuration),
        _describe_launch(function, own, site),
    )


def _is_unknown(parameter: Parameter) -> bool:
    if parameter.role in ("input", "output"):
        return not (parameter.shape and parameter.dtype)
    return parameter.value == FILL_IN_MARK


def _find_declaration(function: Function, facts: SourceFacts) -> Declaration:
    return next(
        each
        for each in facts.declarations
        if each.name == function.name and (each.line == function.line or not function.line)
    )


def _find_site(function: Function, facts: SourceFacts) -> LaunchSite | None:
    if not function.is_kernel:
        return None
    return next((site for site in facts.sites if site.kernel == function.name), None)


def _find_use(name: str, own: Declaration) -> str:
    """Return the first line of a body that uses an array, with its number; empty without one."""
    for node in iter_nodes(own.body) if own.body is not None else ():
        if node.type == "identifier" and get_text(node) == name:
            while node.parent is not None and not node.type.endswith(("statement", "declaration")):
                node = node.parent
            first = get_text(node).splitlines()[0].strip()
            return f"line {node.start_point[0] + 1}: {first[:_MAX_SHOWN]}"
    return ""


def _plan_launch(
    function: Function, site: LaunchSite, facts: SourceFacts, types: Sequence[str]
) -> tuple[list[str], list[str]]:
    names = [p.name for p in function.parameters]
    known = {p.name: p.name for p in function.parameters if p.role in ("size", "number")}
    known |= {text: name for name, text in bind_arguments(site.arguments, names).items()}
    known |= name_host_template(site, types)
    known |= facts.outer_constants if site.is_of_caller else {}
    constants = {**facts.constants, **{each.name: "" for each in facts.declarations}}
    found = collect_configuration(site, LaunchContext(known, constants))
    return ([], []) if found is None else found


def _describe_launch(function: Function, own: Declaration, site: LaunchSite | None) -> str:
    """Return what shows how a kernel is launched: its launch as written, else its indices."""
    if site is not None:
        where = "of a file that includes it, line" if site.is_of_caller else "line"
        return f"{where} {site.line}: <<<{', '.join(site.configuration)}>>>".replace("\n", " ")
    used = sorted(set(_INDEX.findall(get_text(own.body))))
    bound = f", __launch_bounds__({function.max_threads})" if function.max_threads else ""
    return f"line {own.line}: no launch is in sight; it uses {', '.join(used) or 'no index'}{bound}"


_LITERAL = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*|true|false")


def fill_numbers(function: Function, site: LaunchSite | None, facts: SourceFacts) -> Function:
    """Give each number the literal or constant that its launch passes, else a mark."""
    parameters = []
    for index, each in enumerate(function.parameters):
        if each.role == "number" and not each.value:
            given = site.arguments[index] if site and index < len(site.arguments) else ""
            each = each._replace(value=_find_given(given, site, facts) or FILL_IN_MARK)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _find_given(given: str, site: LaunchSite | None, facts: SourceFacts) -> str:
    if _LITERAL.fullmatch(given) or given in facts.constants:
        return given
    value = find_local_value(given, site.host) if site is not None and given.isidentifier() else ""
    return value if _LITERAL.fullmatch(value) else ""


def mark_unused_sizes(function: Function, shaped: Collection[str]) -> Function:
    """Turn integers that are the size of no array into numbers that have to be filled in.

    Where arrays have no known shape, only those that are options by their names: others may be
    its sizes.
    """
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    is_whole = bool(shaped) and all(p.shape for p in arrays)
    parameters = []
    for each in function.parameters:
        is_unused = each.role == "size" and each.name not in shaped
        if is_unused and (is_whole or is_option(each.name)):
            each = each._replace(role="number", value=FILL_IN_MARK)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


_TYPE_WORDS = frozenset(
    (
        *("float", "double", "half", "__half", "int", "unsigned", "long", "short", "char", "bool"),
        *("float2", "float4", "half2", "__half2", "int2", "int4", "uint4", "__nv_bfloat16"),
        *("nv_bfloat16", "__nv_bfloat162", "int8_t", "uint8_t", "int32_t", "uint32_t", "int64_t"),
        *("size_t", "std", "true", "false", "const", "sizeof"),
    )
)


def find_template(
    function: Function, own: Declaration, site: LaunchSite | None, facts: SourceFacts
) -> tuple[str, ...]:
    """Return the arguments of a function's template: instantiated, launched with, or marks.

    Args:
        function: What is called.
        own: Its declaration.
        site: Its launch, if the file has one.
        facts: The rest of the file.
    """
    explicit = facts.instantiations.get(function.name)
    if explicit and all(is_known(text, facts) for text in explicit):
        return explicit
    given = [] if site is None else [_resolve(text, site, facts) for text in site.template]
    values = []
    for index, parameter in enumerate(own.template):
        if index < len(given) and given[index]:
            values.append(given[index])
        elif "..." not in parameter.type:
            is_default = parameter.default and is_known(parameter.default, facts)
            values.append(parameter.default if is_default else FILL_IN_MARK)
    return tuple(values)


def _resolve(text: str, site: LaunchSite, facts: SourceFacts) -> str:
    """Return a template argument of a launch, with the host's constants; empty if unknown."""
    outer = {each.name for each in site.host.template}
    words = re.findall(r"[A-Za-z_]\w*", text)
    for word in dict.fromkeys(words):
        value = "" if word in outer or is_known(word, facts) else find_local_value(word, site.host)
        if value:
            text = re.sub(rf"\b{word}\b", f"({value})".replace("\\", r"\\"), text)
    text = re.sub(r"^\((\w+)\)$", r"\1", text)
    return text if is_known(text, facts) and not outer.intersection(words) else ""


def is_known(text: str, facts: SourceFacts) -> bool:
    """Whether an expression names only types and constants of the language and the file."""
    words = set(re.findall(r"(?<![\d.])[A-Za-z_]\w*", text))
    return not words - _TYPE_WORDS - set(facts.constants) - {d.name for d in facts.declarations}


def name_host_template(site: LaunchSite, types: Sequence[str]) -> dict[str, str]:
    """Map the template parameters of the host function to the values that are passed on."""
    passed = dict(zip(site.template, types, strict=False))
    return {each.name: passed.get(each.name, FILL_IN_MARK) for each in site.host.template}


def apply_template(function: Function, types: Sequence[str], facts: SourceFacts) -> Function:
    """Replace the template's parameters and the file's aliases in the types of a function."""
    chosen = {
        **{name: kind for name, kind in facts.aliases.items() if find_dtype(kind)},
        **dict(zip(function.template, types, strict=False)),
    }
    if not chosen and not facts.records:
        return function
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, chosen)) or '(?!)'})\b")
    parameters = []
    for each in function.parameters:
        kind = pattern.sub(lambda match: chosen[match[0]], each.type)
        element = facts.records.get(kind, (kind, 1))[0]
        dtype = each.dtype or (find_dtype(element) if each.role in ("input", "output") else None)
        is_size = each.role == "number" and kind != each.type and is_size_type(kind)
        each = each._replace(type=kind, dtype=dtype)
        parameters.append(each._replace(role="size") if is_size else each)
    return function._replace(parameters=tuple(parameters))
