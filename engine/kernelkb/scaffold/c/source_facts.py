"""Reads what drafting a call needs: of a C++ or CUDA file, its headers, and files that call it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.c.c_functions import count_parts, find_dtype
from kernelkb.scaffold.c.syntax import (
    Declaration,
    LaunchSite,
    find_launch_sites,
    get_text,
    iter_declarations,
    iter_nodes,
    parse_c,
    read_called_name,
    read_template_arguments,
)

if TYPE_CHECKING:
    from tree_sitter import Node


class SourceFacts(NamedTuple):
    """What a C++ file holds besides the function to call."""

    declarations: tuple[Declaration, ...]
    sites: tuple[LaunchSite, ...]
    constants: Mapping[str, str]
    """Macros and global constants, by name; the value as written."""
    instantiations: Mapping[str, tuple[str, ...]]
    """Template arguments of explicit instantiations, by the function's name."""
    aliases: Mapping[str, str]
    """The type that each typedef or using names."""
    enumerations: frozenset[str] = frozenset()
    """Names of its enumeration types."""
    outer_constants: Mapping[str, str] = {}
    """Integer constants of files that launch its kernels, which a launcher does not see."""
    records: Mapping[str, tuple[str, int]] = {}
    """Structures whose members have one type: that type, and how many there are."""


_ALIAS = re.compile(
    r"^[ \t]*(?:typedef\s+([\w: ]+)\s+(\w+)|using\s+(\w+)\s*=\s*([\w: ]+))\s*;", re.MULTILINE
)
_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n/]+)"
    r"|^(?:static\s+|inline\s+|__constant__\s+)*(?:constexpr|const)\s+(?:static\s+)?[\w:]+\s+(\w+)\s*=\s*([^;]+);",
    re.MULTILINE,
)


def read_facts(text: str, headers: Sequence[str] = (), callers: Sequence[str] = ()) -> SourceFacts:
    """Return what drafting a call needs of a C++ or CUDA text.

    Args:
        text: What the file holds.
        headers: What the files hold that it includes: their functions and constants count, too.
        callers: What the files hold that include it: their launches count, too.
    """
    own = _read_file(text)
    inner = [_read_file(header) for header in headers]
    outer = [_read_file(caller) for caller in callers]
    every = [*reversed(inner), own]  # the file's own names win
    sites = [site for each in (own, *inner) for site in each.sites]
    sites += [site._replace(is_of_caller=True) for each in outer for site in each.sites]
    outer_constants = {
        name: value
        for each in outer
        for name, value in each.constants.items()
        if re.fullmatch(r"-?\d+", value) and name not in own.constants
    }
    return SourceFacts(
        tuple(d for each in (own, *inner) for d in each.declarations),
        tuple(sites),
        {name: value for each in every for name, value in each.constants.items()},
        {name: value for each in every for name, value in each.instantiations.items()},
        {name: value for each in every for name, value in each.aliases.items()},
        frozenset().union(*(each.enumerations for each in every)),
        outer_constants,
        {name: parts for each in every for name, parts in each.records.items()},
    )


def _read_file(text: str) -> SourceFacts:
    root = parse_c(text)
    declarations = tuple(iter_declarations(root))
    constants: dict[str, str] = {}
    for match in _CONSTANT.finditer(text):
        name, value = match[1] or match[3], (match[2] or match[4]).strip()
        number = _evaluate_integer(value, constants)
        constants[name] = str(number) if number is not None else value
    instantiations = {
        read_called_name(called): read_template_arguments(called)
        for node in iter_nodes(root)
        if node.type == "template_instantiation"
        for called in iter_nodes(node)
        if called.type == "template_function"
    }
    sites = tuple(find_launch_sites(declarations))
    aliases = {
        match[2] or match[3]: (match[1] or match[4]).strip() for match in _ALIAS.finditer(text)
    }
    enumerations = frozenset(
        get_text(node.child_by_field_name("name"))
        for node in iter_nodes(root)
        if node.type == "enum_specifier"
    )
    return SourceFacts(
        declarations,
        sites,
        constants,
        instantiations,
        aliases,
        enumerations,
        records=_read_records(root),
    )


def _read_records(root: Node) -> dict[str, tuple[str, int]]:
    """Map each structure of members of one type, such as a complex number, to that type."""
    records = {}
    for node in iter_nodes(root):
        body = node.child_by_field_name("body")
        if node.type != "struct_specifier" or body is None:
            continue
        fields = [n for n in body.named_children if n.type == "field_declaration"]
        fields = [n for n in fields if "(" not in get_text(n)]
        kinds = {get_text(n.child_by_field_name("type")) for n in fields}
        counts = [_count_members(n) for n in fields]
        if len(kinds) == 1 and all(counts) and find_dtype(kind := kinds.pop()):
            name = node.child_by_field_name("name") or _find_typedef_name(node)
            records[get_text(name)] = (kind, sum(counts) * count_parts(kind))
    return records


def _find_typedef_name(node: Node) -> Node | None:
    parent = node.parent
    is_typedef = parent is not None and parent.type == "type_definition"
    return parent.child_by_field_name("declarator") if is_typedef and parent is not None else None


def _count_members(field: Node) -> int:
    """Return the numbers that one line of a structure declares; 0 where that is not known."""
    total = 0
    for each in field.children_by_field_name("declarator"):
        sizes = re.findall(r"\[\s*(\w+)\s*\]", get_text(each))
        if "*" in get_text(each) or not all(size.isdecimal() for size in sizes):
            return 0
        total += prod(map(int, sizes))
    return total


def _evaluate_integer(text: str, constants: Mapping[str, str]) -> int | None:
    """Return the value of a constant integer expression."""
    known = re.sub(r"[A-Za-z_]\w*", lambda m: constants.get(m[0], m[0]), text)
    known = re.sub(r"(\d)[uUlL]+\b", r"\1", known).replace("/", "//")
    if not re.fullmatch(r"[\d\s()+*/<>-]{1,80}", known) or "**" in known:
        return None
    try:
        value = ast.literal_eval(known) if known.isdecimal() else _evaluate_arithmetic(known)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError):
        return None
    return value if isinstance(value, int) else None


def _evaluate_arithmetic(text: str) -> int:
    from simpleeval import InvalidExpression, simple_eval

    try:
        return int(simple_eval(text.strip()))
    except (InvalidExpression, TypeError) as error:
        raise ValueError(text) from error
