"""Parses C++ and CUDA text with tree-sitter: functions that it declares, calls, and launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


_REWRITES = [
    # The #else branch of a split statement or parameter list; whole statements are kept.
    (r"^[ \t]*#[ \t]*(?:else|elif)\b[^\n]*\n[^;}#]*(?=^[ \t]*#[ \t]*(?:elif|else|endif)\b)", ""),
    # Directives: the grammar takes them only between statements. Comments and strings stay.
    (
        r'(?P<keep>R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/)'
        r"|^[ \t]*#(?:\\\n|//[^\n]*|/\*.*?\*/|[^\n])*",
        r"\g<keep> ",
    ),
    # Attributes that the grammar does not know, by call and by macro.
    (r"\b(?!__launch_bounds__)(?:__\w+__|alignas)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", " "),
    (r"\b\w*GRID_CONSTANT\b|\b__grid_constant__\b", " "),
    (r"\b[A-Z0-9_]+_LAUNCH_BOUNDS\w*(?=\s*\()", "__launch_bounds__"),
    (r"(__global__[^(){};]*?)\b[A-Z][A-Z0-9_]+\b(?=\s+\w)", r"\1"),
    # Templates as launch bounds, which the grammar does not know.
    (r"(__launch_bounds__\s*)\([^()]*<[^()]*\)", rf"\1({FILL_IN_MARK})"),
    # One spelling of casts.
    (r"\b(?:reinterpret|static|const)_cast\s*<((?:[^<>]|<[^<>]*>)*)>(?=\s*\()", r"(\1)"),
]
_DEFAULT = re.compile(r"(?<![<>=!])=(?!=)")


class TemplateParameter(NamedTuple):
    """One parameter of a template."""

    name: str
    type: str
    """``typename``, ``int``, ``bool``, as written."""
    default: str
    """Empty without one."""


class Declaration(NamedTuple):
    """One function."""

    name: str
    parameters: tuple[Node, ...]
    body: Node | None
    """None where it is only declared."""
    returns: str
    scope: str
    """Its namespaces, as in ``a::b::``."""
    template: tuple[TemplateParameter, ...]
    max_threads: str | None
    """First argument of ``__launch_bounds__``."""
    is_extern: bool
    """``extern "C"``, and no kernel."""
    is_global: bool
    line: int
    """Line of its name, from 1."""


def parse_c(text: str) -> Node:
    """Return the syntax tree of C++ or CUDA text, without its preprocessor lines."""
    for pattern, replacement in _REWRITES:
        replace = partial(_replace_on_its_lines, replacement)
        text = re.sub(pattern, replace, text, flags=re.DOTALL | re.MULTILINE)
    return _load_parser().parse(text.encode()).root_node


def _replace_on_its_lines(replacement: str, match: re.Match[str]) -> str:
    """Return a replacement with as many lines as before, so that line numbers stay right."""
    text = match.expand(replacement)
    return text + "\n" * (match[0].count("\n") - text.count("\n"))


@cache
def _load_parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def get_text(node: Node | None) -> str:
    """Return a node's source text; empty for None."""
    return node.text.decode() if node is not None and node.text is not None else ""


def has_const(node: Node | None) -> bool:
    """Whether ``const`` stands directly in a declaration or a type, not behind its ``*``."""
    return node is not None and any(get_text(child) == "const" for child in node.children)


def iter_nodes(root: Node) -> Iterator[Node]:
    """Yield a node and all that are below it, in the order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def iter_declarations(
    node: Node,
    scope: str = "",
    template: tuple[TemplateParameter, ...] = (),
    *,
    extern: bool = False,
) -> Iterator[Declaration]:
    """Yield the functions below a node: those of namespaces, not those of classes."""
    for child in node.named_children:
        if child.type == "namespace_definition":
            name = get_text(child.child_by_field_name("name"))
            inner = f"{scope}{name}::" if name else scope
            yield from iter_declarations(child, inner, extern=extern)
        elif child.type == "linkage_specification":
            yield from iter_declarations(child, scope, extern=True)
        elif child.type == "template_declaration":
            parameters = _list_template_parameters(child)
            yield from iter_declarations(child, scope, parameters, extern=extern)
        elif child.type in ("declaration_list", "ERROR"):
            yield from iter_declarations(child, scope, extern=extern)
        elif child.type in ("function_definition", "declaration"):
            declaration = _parse_declaration(child, scope, template, extern)
            yield from [declaration] if declaration else []


def _parse_declaration(
    node: Node, scope: str, template: tuple[TemplateParameter, ...], extern: bool
) -> Declaration | None:
    chain = list(iter_declarators(node))
    depth = next((n for n, each in enumerate(chain) if each.type == "function_declarator"), None)
    if depth is None:
        return None
    name, parameters = chain[depth + 1], chain[depth].child_by_field_name("parameters")
    while (inner := name.child_by_field_name("name")) is not None:
        name = inner
    attributes = {child.type: child for child in node.children}
    bounds = attributes["launch_bounds"].named_children if "launch_bounds" in attributes else []
    return Declaration(
        get_text(name),
        tuple(n for n in parameters.named_children if n.type != "comment") if parameters else (),
        node.child_by_field_name("body"),
        get_text(node.child_by_field_name("type")).removeprefix("std::") + "*" * depth,
        scope,
        template,
        get_text(bounds[0]) if bounds else None,
        is_extern=extern and "__global__" not in attributes,
        is_global="__global__" in attributes,
        line=name.start_point[0] + 1,
    )


def iter_declarators(node: Node) -> Iterator[Node]:
    """Yield what stands around a declared name, outermost first, then the name if it has one."""
    inner = node.child_by_field_name("declarator")
    while inner is not None:
        yield inner
        named = [child for child in inner.named_children if child.type != "type_qualifier"]
        wraps = inner.type.endswith("declarator") and inner.type != "function_declarator"
        node, inner = inner, inner.child_by_field_name("declarator")
        inner = inner or (named[0] if wraps and named else None)


def _list_template_parameters(template: Node) -> tuple[TemplateParameter, ...]:
    parameters = template.child_by_field_name("parameters")
    found = []
    for node in parameters.named_children if parameters else []:
        if node.type != "comment":
            head, *default = _DEFAULT.split(get_text(node), maxsplit=1)
            name = re.findall(r"\w+", head)[-1]
            kind = head.rpartition(name)[0].strip()
            found.append(TemplateParameter(name, kind, default[0].strip() if default else ""))
    return tuple(found)


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
