"""Values of the scalars of a call: of the file's launch, else by their names and use."""

from __future__ import annotations

import re
from collections.abc import Collection

from kernelkb.scaffold.c.c_declarations import Declaration, get_text, iter_nodes
from kernelkb.scaffold.c.launch_sites import LaunchSite
from kernelkb.scaffold.c.launch_values import find_local_value
from kernelkb.scaffold.c.source_facts import SourceFacts
from kernelkb.scaffold.draft.call_signature import Function, Parameter
from kernelkb.scaffold.draft.default_values import choose_number, find_option

_LITERAL = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*|true|false")
_LEADING_NAME = re.compile(r"(?:ld|\w*stride|\w*pitch|\w*step)(?:_?\w)?", re.IGNORECASE)


def fill_numbers(
    function: Function, site: LaunchSite | None, facts: SourceFacts, notes: list[str]
) -> Function:
    """Give each number the launch's literal or constant, or a default.

    Args:
        function: What is called.
        site: Its launch, if the file has one.
        facts: The rest of the file.
        notes: Takes what was assumed.
    """
    parameters = []
    for index, each in enumerate(function.parameters):
        if each.role == "number" and not each.value:
            given = site.arguments[index] if site and index < len(site.arguments) else ""
            value = _find_given(given, site, facts)
            if not value and (value := choose_number(each) or _choose_enumerator(each, facts)):
                notes.append(f"{each.name} = {value} was chosen by kb init")
            each = each._replace(value=value)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _find_given(given: str, site: LaunchSite | None, facts: SourceFacts) -> str:
    if _LITERAL.fullmatch(given) or given in facts.constants:
        return given
    value = find_local_value(given, site.host) if site is not None and given.isidentifier() else ""
    return value if _LITERAL.fullmatch(value) else ""


def _choose_enumerator(parameter: Parameter, facts: SourceFacts) -> str:
    return f"static_cast<{parameter.type}>(0)" if parameter.type in facts.enumerations else ""


def fix_unused_sizes(
    function: Function, own: Declaration, shaped: Collection[str], notes: list[str]
) -> Function:
    """Turn integers that are the size of no array into numbers.

    A leading dimension becomes the innermost axis, the end of a loop the first, others 1. Where
    arrays have no known shape, only those that are options by their names: others may be its sizes.
    """
    axes = [p.name for p in function.parameters if p.role == "size" and p.name in shaped]
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    is_whole = bool(axes) and all(p.shape for p in arrays)
    parameters = []
    for each in function.parameters:
        option = find_option(each.name) or ("1" if _LEADING_NAME.fullmatch(each.name) else "")
        if each.role == "size" and each.name not in shaped and (option or is_whole):
            value = choose_number(each) or "1"
            if _LEADING_NAME.fullmatch(each.name):
                value = axes[-1] if len(axes) > 1 else "1"
            elif value == "1" and len(axes) == 1 and _is_loop_end(each.name, own):
                value = axes[0]
            notes.append(f"{each.name} = {value} was chosen by kb init: no array has this size")
            each = each._replace(role="number", value=value)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _is_loop_end(name: str, own: Declaration) -> bool:
    loops = [n for n in iter_nodes(own.body) if n.type == "for_statement"] if own.body else []
    ends = [get_text(loop.child_by_field_name("condition")) for loop in loops]
    return any(re.search(rf"<=?\s*{name}\b", end) for end in ends)
