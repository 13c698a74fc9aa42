"""Finds ``kernel<<<grid, block>>>(...)`` in C++ text, and the values that its grid depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.c_declarations import Declaration, get_text, iter_nodes

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD = re.compile(r"(?<![\w.>:])[A-Za-z_]\w*(?![\w]*\s*::)")
_KNOWN_WORDS = frozenset(
    (
        *("dim3", "int", "unsigned", "float", "double", "size_t", "sizeof", "static_cast", "const"),
        *("auto", "uint32_t", "int64_t", "int32_t", "long", "std", "ceil", "ceilf", "min", "max"),
        *("true", "false", "char", "short", "bool", "half", "int4", "float4", "reinterpret_cast"),
    )
)
_HOST_ONLY = ("argv", "argc", "atoi", "cudaMalloc", "getenv", "rand(", "new ", "cudaGetDevice", ".")


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


def collect_configuration(
    site: LaunchSite, known: Mapping[str, str], constants: Mapping[str, str]
) -> tuple[list[str], list[str]] | None:
    """Return the host's statements that a launch's grid and block need, and the configuration.

    Args:
        site: The launch.
        known: What an identifier of the host is here, such as ``{"N": "n"}``.
        constants: Macros and global constants of the file, which stay as they are.

    Returns:
        None where a value comes from elsewhere, such as the command line.
    """
    locals_ = _collect_locals(site.host)
    statements: dict[str, str] = {}
    configuration = list(site.configuration[:3])
    for text in configuration:
        if not _collect_statements(text, locals_, known, constants, statements, depth=0):
            return None
    return list(statements.values()), configuration


def _collect_statements(
    text: str,
    locals_: Mapping[str, str],
    known: Mapping[str, str],
    constants: Mapping[str, str],
    statements: dict[str, str],
    depth: int,
) -> bool:
    for word in dict.fromkeys(_WORD.findall(text)):
        if word in statements or word in _KNOWN_WORDS or known.get(word) == word:
            continue
        if word in known:
            statements[word] = f"const auto {word} = {known[word]};"
        elif word in locals_:
            needed = locals_[word]
            if depth > 8 or any(mark in needed for mark in _HOST_ONLY):
                return False
            value = needed.partition(word)[2]
            if not _collect_statements(value, locals_, known, constants, statements, depth + 1):
                return False
            statements[word] = needed
        elif word not in constants and f"{word}(" not in text:
            return False
    return True


def _collect_locals(host: Declaration) -> dict[str, str]:
    """Map each local variable of a host function to its declaration, as one statement."""
    found: dict[str, str] = {}
    for node in iter_nodes(host.body) if host.body is not None else ():
        if node.type != "declaration":
            continue
        head = " ".join(
            get_text(child)
            for child in node.children
            if child.type in ("type_qualifier", "storage_class_specifier")
        ).replace("static", "")
        kind = get_text(node.child_by_field_name("type"))
        for each in node.named_children:
            name = each.child_by_field_name("declarator")
            if each.type == "init_declarator" and name is not None and name.type == "identifier":
                found[get_text(name)] = f"{head} {kind} {get_text(each)};".strip()
            elif each.type == "function_declarator" and kind == "dim3":  # dim3 grid(n, m);
                declared = get_text(each)
                found[declared.partition("(")[0].strip()] = f"dim3 {declared};"
    return found


def iter_calls(body: Node) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the argument texts of every plain call in a body."""
    for node in iter_nodes(body):
        arguments = node.child_by_field_name("arguments")
        if node.type == "call_expression" and arguments is not None:
            if any(child.type == "kernel_call_syntax" for child in node.children):
                continue
            name = read_called_name(node.child_by_field_name("function"))
            yield name, [get_text(n) for n in arguments.named_children if n.type != "comment"]
