"""Decides how to call a kernel or launcher of pointers: shapes, template arguments, the grid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kernelkb.scaffold.array_shapes import ROWS
from kernelkb.scaffold.c_declarations import Declaration, TemplateParameter, get_text
from kernelkb.scaffold.c_functions import find_dtype
from kernelkb.scaffold.call_signature import Function
from kernelkb.scaffold.default_launch import choose_configuration
from kernelkb.scaffold.default_values import choose_number, choose_template_value
from kernelkb.scaffold.kernel_arrays import fill_arrays
from kernelkb.scaffold.launch_sites import (
    LaunchSite,
    bind_arguments,
    collect_configuration,
)
from kernelkb.scaffold.source_facts import SourceFacts

_FEW = "256"
"""Elements of arrays of a kernel of one block, without a size."""
_LITERAL = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*|true|false")


class CallPlan(NamedTuple):
    """A function with what its call needs."""

    function: Function
    axes: tuple[str, ...]
    """Names of the sizes, in the order of the call; ``rows`` where no parameter has it."""
    template: tuple[str, ...]
    """Template arguments to call it with."""
    statements: tuple[str, ...]
    """Of the host function that launches it: what the grid depends on."""
    configuration: tuple[str, ...]
    """Grid, block and shared memory; empty for a launcher, and where none is known."""
    notes: tuple[str, ...]
    """What was assumed, one sentence each."""


def plan_call(function: Function, facts: SourceFacts) -> CallPlan:
    """Return shapes, numbers, template arguments and launch of a function of pointers."""
    own = _find_declaration(function, facts)
    notes: list[str] = []
    site = _find_site(function, facts)
    types = _choose_template(function, own, site, facts, notes)
    function = fill_arrays(function, own, facts)
    function = _fill_numbers(function, site, notes)
    shaped = {dim for p in function.parameters for dim in p.shape}
    sizes = [p.name for p in function.parameters if p.role == "size"]
    if len(sizes) > 1:
        function = _fix_unused_sizes(function, shaped, notes)
    axes = [p.name for p in function.parameters if p.role == "size"]
    axes += [ROWS] if ROWS in shaped and ROWS not in axes else []
    if not axes and not shaped:
        axes = _add_axis(own)
    function = _fill_unknown_shapes(function, axes, notes)
    function = _apply_template(function, types, facts)
    statements: list[str] = []
    configuration: list[str] = []
    if function.is_kernel:
        statements, configuration = _plan_launch(function, own, site, facts, axes, notes)
    return CallPlan(
        function,
        tuple(axes),
        types,
        tuple(statements),
        tuple(configuration),
        tuple(dict.fromkeys(notes)),
    )


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


def _choose_template(
    function: Function,
    own: Declaration,
    site: LaunchSite | None,
    facts: SourceFacts,
    notes: list[str],
) -> tuple[str, ...]:
    if not own.template:
        return ()
    explicit = facts.instantiations.get(function.name)
    if explicit and all(_is_known(text, set(), facts) for text in explicit):
        return explicit
    outer = {each.name for each in site.host.template} if site is not None else set()
    usable = [] if site is None else [_is_known(text, outer, facts) for text in site.template]
    values = []
    for index, parameter in enumerate(own.template):
        if index < len(usable) and usable[index] and site is not None:
            values.append(site.template[index])
        elif "..." not in parameter.type:
            values.append(_choose_template_value(parameter, facts))
    text = ", ".join(f"{p.name} = {v}" for p, v in zip(own.template, values, strict=False))
    if not all(usable) or len(usable) < len(own.template):
        notes.append(f"template arguments were chosen by kb init: {text}")
    return tuple(values)


def _is_known(text: str, outer: set[str], facts: SourceFacts) -> bool:
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    local = words - set(facts.constants) - {"float", "half", "__half", "int", "double", "true"}
    local -= {"false", "__nv_bfloat16", "nv_bfloat16", "float4", "float2", "half2", "unsigned"}
    local -= {each.name for each in facts.declarations}
    return not local and not words & outer


def _choose_template_value(parameter: TemplateParameter, facts: SourceFacts) -> str:
    if parameter.default and _is_known(parameter.default, set(), facts):
        return parameter.default
    return choose_template_value(parameter)


def _fill_numbers(function: Function, site: LaunchSite | None, notes: list[str]) -> Function:
    """Give each number the launch's literal, or a default."""
    parameters = []
    for index, each in enumerate(function.parameters):
        if each.role == "number":
            given = site.arguments[index] if site and index < len(site.arguments) else ""
            value = given if _LITERAL.fullmatch(given) else choose_number(each)
            if value and value != given:
                notes.append(f"{each.name} = {value} was chosen by kb init")
            each = each._replace(value=value)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _fix_unused_sizes(function: Function, shaped: set[str], notes: list[str]) -> Function:
    """Turn integers that are the size of no array into numbers."""
    parameters = []
    has_shape = any(p.role == "size" and p.name in shaped for p in function.parameters)
    for each in function.parameters:
        if each.role == "size" and each.name not in shaped and has_shape:
            value = choose_number(each)
            notes.append(f"{each.name} = {value} was chosen by kb init: no array has this size")
            each = each._replace(role="number", value=value)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _fill_unknown_shapes(function: Function, axes: list[str], notes: list[str]) -> Function:
    """Give arrays of unknown shape the largest known one, or that of all sizes."""
    known = [p.shape for p in function.parameters if p.shape]
    largest = max(known, key=len, default=())
    if not largest and len(axes) <= 3:
        largest = tuple(axes) or (_FEW,)
    parameters = []
    for each in function.parameters:
        if each.role in ("input", "output") and not each.shape and largest:
            if len(axes) > 1 or len(largest) > 1:
                notes.append(f"the shape of {each.name} was guessed: {' x '.join(largest)}")
            each = each._replace(shape=largest)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _apply_template(function: Function, types: tuple[str, ...], facts: SourceFacts) -> Function:
    """Replace the template's parameters and the file's aliases in the types of a function."""
    chosen = {
        **{name: kind for name, kind in facts.aliases.items() if find_dtype(kind)},
        **dict(zip(function.template, types, strict=False)),
    }
    if not chosen:
        return function
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, chosen))})\b")
    parameters = []
    for each in function.parameters:
        kind = pattern.sub(lambda match: chosen[match[0]], each.type)
        dtype = each.dtype or (find_dtype(kind) if each.role in ("input", "output") else None)
        parameters.append(each._replace(type=kind, dtype=dtype))
    return function._replace(parameters=tuple(parameters))


def _add_axis(own: Declaration) -> list[str]:
    """Return an axis for a kernel without sizes, which takes one element for each thread."""
    text = get_text(own.body)
    return ["n"] if "blockIdx.x" in text and "blockDim.x" in text else []


def _plan_launch(
    function: Function,
    own: Declaration,
    site: LaunchSite | None,
    facts: SourceFacts,
    axes: Sequence[str],
    notes: list[str],
) -> tuple[list[str], list[str]]:
    if site is not None:
        names = [p.name for p in function.parameters]
        known = {text: name for name, text in bind_arguments(site.arguments, names).items()}
        known |= {p.name: p.name for p in function.parameters if p.role == "size"}
        found = collect_configuration(site, known, facts.constants)
        if found is not None:
            return found
        notes.append(f"the grid of line {site.line} depends on values that kb init cannot see")
    configuration = choose_configuration(function, own, facts, axes)
    if configuration:
        notes.append("the grid and the block were chosen by kb init from the kernel's indices")
    return [], list(configuration)
