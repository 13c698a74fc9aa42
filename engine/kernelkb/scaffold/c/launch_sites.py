"""Finds ``kernel<<<grid, block>>>(...)`` in C++ text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.c.c_declarations import Declaration, get_text, iter_nodes

if TYPE_CHECKING:
    from tree_sitter import Node


class LaunchSite(NamedTuple):
    """One launch of a kernel."""

    kernel: str
    template: tuple[str, ...]
    """Template arguments, as written."""
    configuration: tuple[str, ...]
    """Grid, block, and shared memory and stream where given, as written."""
    arguments: tuple[str, ...]
    host: Declaration
    """The function that launches."""
    line: int
    is_of_caller: bool = False
    """Whether it stands in a file that includes the kernel's."""


def find_launch_sites(declarations: Sequence[Declaration]) -> list[LaunchSite]:
    """Return every launch in the bodies of a file's functions, in their order."""
    sites = []
    for host in declarations:
        for node in iter_nodes(host.body) if host.body is not None else ():
            syntax = next((n for n in node.children if n.type == "kernel_call_syntax"), None)
            arguments = node.child_by_field_name("arguments")
            if node.type == "call_expression" and syntax is not None and arguments is not None:
                sites.append(_read_site(node, syntax, arguments, host))
    return sites


def _read_site(node: Node, syntax: Node, arguments: Node, host: Declaration) -> LaunchSite:
    called = node.child_by_field_name("function")
    return LaunchSite(
        read_called_name(called),
        read_template_arguments(called),
        tuple(get_text(n) for n in syntax.named_children if n.type != "comment"),
        tuple(get_text(n) for n in arguments.named_children if n.type != "comment"),
        host,
        node.start_point[0] + 1,
    )


def read_called_name(called: Node | None) -> str:
    """Return the name of a called function, without namespaces and template arguments."""
    while called is not None and (inner := called.child_by_field_name("name")) is not None:
        called = inner
    return get_text(called)


def read_template_arguments(called: Node | None) -> tuple[str, ...]:
    """Return the template arguments of a called function, as written."""
    while called is not None and called.type == "qualified_identifier":
        called = called.child_by_field_name("name")
    listed = called.child_by_field_name("arguments") if called is not None else None
    return tuple(get_text(n) for n in listed.named_children) if listed is not None else ()


def bind_arguments(arguments: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Map each parameter to the identifier that is passed for it, without other expressions."""
    pairs = zip(arguments, names, strict=False)
    bare = ((re.sub(r"^\((?:[\w\s:*]+)\)\s*|^&", "", text), name) for text, name in pairs)
    return {name: text for text, name in bare if text.isidentifier()}


def iter_calls(body: Node) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the argument texts of every plain call in a body."""
    for node in iter_nodes(body):
        arguments = node.child_by_field_name("arguments")
        if node.type == "call_expression" and arguments is not None:
            if any(child.type == "kernel_call_syntax" for child in node.children):
                continue
            name = read_called_name(node.child_by_field_name("function"))
            yield name, [get_text(n) for n in arguments.named_children if n.type != "comment"]
