"""Parses C++ and CUDA text with tree-sitter: functions that it declares, calls, and launches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.extents import split_call

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
]
_CAST = re.compile(r"\b(?:reinterpret|static|const)_cast\s*<((?:[^<>]|<[^<>]*>)*)>\s*\(")
_DEFAULT = re.compile(r"(?<![<>=!])=(?!=)")


LOOPS = ("for_statement", "while_statement")


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


MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w\s,.\\]*)\)((?:\\\r?\n|[^\n])*)", re.MULTILINE
)
_MAX_EXPANDED, _MAX_PASSES = 400_000, 4
"""Characters of a text with its macros, and macros inside of macros."""


def expand_macros(text: str) -> str:
    """Return C++ text with the function-like macros that it defines, on the same lines.

    Without them a read through ``HALF2(x[i])``, a launch or a check of a shape is not seen.
    """
    macros: dict[str, tuple[list[str], str]] = {}
    for match in MACRO.finditer(text):
        body = re.sub(r"//[^\n]*|/\*.*?\*/|\\\r?\n", " ", match[3], flags=re.DOTALL)
        names = re.findall(r"\w+|\.\.\.", match[2])
        macros.setdefault(match[1], (names, body.strip()))
    if not macros:
        return text
    rest = MACRO.sub(lambda match: "\n" * match[0].count("\n"), text)
    rest = drop_comments(rest)  # between arguments, which come to stand on one line
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, macros))})\s*\(")
    for _ in range(_MAX_PASSES):
        expanded = _expand_once(rest, pattern, macros)
        if expanded == rest or len(expanded) > max(_MAX_EXPANDED, len(text)):
            break
        rest = expanded
    return rest


def drop_comments(text: str) -> str:
    """Return a text without its comments, on the same lines."""
    pattern = r"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+')|//[^\n]*|/\*.*?\*/"
    return re.sub(pattern, lambda m: m[1] or " " + "\n" * m[0].count("\n"), text, flags=re.DOTALL)


def _expand_once(
    text: str, pattern: re.Pattern[str], macros: dict[str, tuple[list[str], str]]
) -> str:
    parts, end = [], 0
    for match in pattern.finditer(text):
        if match.start() < end:
            continue
        split = split_call(text, match.end())
        if split is None:
            continue
        arguments, after = split
        parts += [text[end : match.start()], _substitute(*macros[match[1]], arguments)]
        parts.append("\n" * text.count("\n", match.start(), after))
        end = after
    return "".join([*parts, text[end:]])


def _substitute(names: Sequence[str], body: str, arguments: Sequence[str]) -> str:
    values = [" ".join(each.split()) for each in arguments]
    if names[-1:] == ["..."]:
        count = len(names) - 1
        names, values = (
            [*names[:count], "__VA_ARGS__"],
            [*values[:count], ", ".join(values[count:])],
        )
    bound = dict(zip(names, values, strict=False))
    if not bound:
        return body
    pattern = re.compile(rf"(?<!#)#\s*({'|'.join(bound)})\b|\b({'|'.join(bound)})\b")
    body = pattern.sub(lambda m: f'"{bound[m[1]]}"' if m[1] else bound[m[2]], body)
    return re.sub(r"\s*##\s*", "", body)


def parse_c(text: str) -> Node:
    """Return the syntax tree of C++ or CUDA text: without directives and macros."""
    text = expand_macros(text)
    for pattern, replacement in _REWRITES:
        replace = partial(_replace_on_its_lines, replacement)
        text = re.sub(pattern, replace, text, flags=re.DOTALL | re.MULTILINE)
    return _load_parser().parse(_rewrite_casts(text).encode()).root_node


def _rewrite_casts(text: str) -> str:
    """Return a text with one spelling of casts: ``((float4*)(p))``, which binds as theirs do."""
    parts, end = [], 0
    for match in _CAST.finditer(text):
        split = split_call(text, match.end()) if match.start() >= end else None
        if split is not None:
            inner = _rewrite_casts(text[match.end() : split[1] - 1])
            parts += [text[end : match.start()], f"(({match[1]})({inner}))"]
            end = split[1]
    return "".join([*parts, text[end:]])


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


def get_part(node: Node | None, field: str) -> str:
    """Return the source text of a node's field; empty where it has none."""
    return get_text(node.child_by_field_name(field)) if node is not None else ""


def iter_nodes(root: Node | None) -> Iterator[Node]:
    """Yield a node and all that are below it, in the order of the text."""
    stack = [root] if root is not None else []
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
            name = get_part(child, "name")
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


def iter_variables(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the variables of a file with their declarations; none of the device, no constants."""
    for child in node.named_children:
        if child.type in ("namespace_definition", "linkage_specification", "declaration_list"):
            yield from iter_variables(child)
        head = get_text(child).partition("=")[0] if child.type == "declaration" else "const"
        if re.search(r"__\w+__|\bconstexpr\b|\b(?<!extern )const\b|\btypedef\b", head):
            continue
        for each in child.children_by_field_name("declarator"):
            chain = [each, *iter_declarators(each)]
            if chain[-1].type == "identifier" and "function_declarator" not in {
                c.type for c in chain
            }:
                yield get_text(chain[-1]), child


def _parse_declaration(
    node: Node, scope: str, template: tuple[TemplateParameter, ...], extern: bool
) -> Declaration | None:
    chain = list(iter_declarators(node))
    depth = next((n for n, each in enumerate(chain) if each.type == "function_declarator"), None)
    if depth is None:
        return None
    name, parameters = chain[depth + 1], chain[depth].child_by_field_name("parameters")
    while (inner := name.child_by_field_name("name")) is not None:
        if name.type == "qualified_identifier":
            scope += f"{get_text(name.child_by_field_name('scope'))}::"
        name = inner
    attributes = {child.type: child for child in node.children}
    bounds = attributes["launch_bounds"].named_children if "launch_bounds" in attributes else []
    return Declaration(
        get_text(name),
        tuple(n for n in parameters.named_children if n.type != "comment") if parameters else (),
        node.child_by_field_name("body"),
        get_part(node, "type").removeprefix("std::") + "*" * depth,
        scope,
        template,
        get_text(bounds[0]) if bounds else None,
        is_extern=extern and not {"__global__", "__device__"} & attributes.keys(),
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
            name = (re.findall(r"\w+", head) or [""])[-1]
            kind = head.rpartition(name)[0].strip() if name else head
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
    tests: tuple[str, ...] = ()
    """What holds where it is reached: conditions of branches, and ``n == 8`` in a ``switch``;
    what does not hold begins with ``!``."""


def find_launch_sites(declarations: Sequence[Declaration]) -> list[LaunchSite]:
    """Return every launch in the bodies of a file's functions, in their order."""
    sites = []
    for host in declarations:
        for node in iter_nodes(host.body):
            syntax = next((n for n in node.children if n.type == "kernel_call_syntax"), None)
            arguments = node.child_by_field_name("arguments")
            if node.type == "call_expression" and syntax is not None and arguments is not None:
                sites.append(_read_site(node, syntax, arguments, host))
    return sites


def _read_site(node: Node, syntax: Node, arguments: Node, host: Declaration) -> LaunchSite:
    called = node.child_by_field_name("function")
    name, template = read_called_name(called), read_template_arguments(called)
    held = re.search(
        rf"\bauto\s*\*?\s*{re.escape(name)}\s*=\s*&?\s*(?:\w+::)*(\w+)\s*(?:<([^;]*)>)?\s*;",
        get_text(host.body),
    )
    if held is not None:  # auto kernel = &twice<float>; kernel<<<..>>>(..)
        name = held[1]
        template = tuple(filter(None, (each.strip() for each in (held[2] or "").split(","))))
    return LaunchSite(
        name,
        template,
        tuple(get_text(n) for n in syntax.named_children if n.type != "comment"),
        tuple(get_text(n) for n in arguments.named_children if n.type != "comment"),
        host,
        node.start_point[0] + 1,
        tests=tuple(_iter_tests(node)),
    )


def _iter_tests(node: Node) -> Iterator[str]:
    """Yield the conditions of the branches around a statement, innermost first."""
    for inner, outer in pairwise((node, *iter_parents(node))):
        if outer.type == "if_statement" and outer.child_by_field_name("condition") != inner:
            is_first = outer.child_by_field_name("consequence") == inner
            yield ("" if is_first else "!") + get_part(outer, "condition")
        elif outer.type == "case_statement":
            switch = next(each for each in iter_parents(outer) if each.type == "switch_statement")
            size, value = strip_casts(get_part(switch, "condition")), get_part(outer, "value")
            yield f"{size} == {value}" if value else f"!{size}"


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
    pairs = ((strip_casts(text), name) for text, name in zip(arguments, names, strict=False))
    return {name: text for text, name in pairs if text.isidentifier()}


def strip_casts(text: str) -> str:
    """Return an argument without casts, parentheses and ``&`` around it."""
    bare = re.sub(r"^\((?:[\w\s:*<>]+)\)\s*(?=[\w(&])|^&", "", text.strip())
    if bare.startswith("(") and (split := split_call(bare, 1)) and split[1] == len(bare):
        bare = bare[1:-1].strip()
    return bare if bare == text else strip_casts(bare)


def iter_parents(node: Node) -> Iterator[Node]:
    """Yield what stands around a node, innermost first."""
    while (outer := node.parent) is not None:
        yield (node := outer)


def iter_values(body: Node | None) -> Iterator[tuple[Node, Node]]:
    """Yield the declarator and the initial value of every variable that has one.

    One that is declared without a value, and then set by one assignment before all of its uses,
    has the name in that assignment in place of a declarator.
    """
    nodes = list(iter_nodes(body))
    uses: dict[str, list[Node]] = {}
    for node in nodes:
        if node.type == "identifier":
            uses.setdefault(get_text(node), []).append(node)
    for node in nodes:
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if node.type == "init_declarator" and name is not None and value is not None:
            yield name, value
        elif node.type == "assignment_expression":
            name, value = node.child_by_field_name("left"), node.child_by_field_name("right")
            own = uses.get(get_text(name), ())
            if name is not None and value is not None and _is_first_value(name, own):
                yield name, value


def _is_first_value(target: Node, uses: Sequence[Node]) -> bool:
    """Whether an assignment sets a variable that has no value before, and is not set again."""
    if len(uses) < 2 or uses[1] != target or not _is_declared(uses[0]):
        return False
    if any(target.parent in [*iter_parents(each)] for each in uses[2:]):  # n = n + 1
        return False
    return not any(_is_declared(each) or _may_change(each) for each in uses[2:])


def _is_declared(name: Node) -> bool:
    """Whether a name stands where a variable is declared without a value."""
    around = name.parent
    while around is not None and around.type == "pointer_declarator":
        around = around.parent
    return around is not None and around.type in ("declaration", "init_declarator")


def _may_change(name: Node) -> bool:
    """Whether a variable is assigned to, counted up or down, or handed on by its address."""
    around = name.parent
    if around is None or around.type == "pointer_expression":
        return around is None or get_text(around).startswith("&")
    is_target = around.child_by_field_name("left") == name
    return around.type == "update_expression" or (
        is_target and around.type == "assignment_expression"
    )


def iter_calls(body: Node | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the argument texts of every plain call in a body."""
    for node in iter_nodes(body):
        arguments = node.child_by_field_name("arguments")
        if node.type == "call_expression" and arguments is not None:
            if any(child.type == "kernel_call_syntax" for child in node.children):
                continue
            name = read_called_name(node.child_by_field_name("function"))
            yield name, [get_text(n) for n in arguments.named_children if n.type != "comment"]


def find_local_value(name: str, host: Declaration) -> str:
    """Return the initial value of a constant local variable, as written; empty without one.

    One that only a branch or a loop sets has none.
    """
    sets = rf"\b{re.escape(name)}\s*(?:[-+*/%|&^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*{re.escape(name)}\b"
    if len(re.findall(sets, get_text(host.body))) > 1:
        return ""
    for node in iter_nodes(host.body):
        own = get_part(node, "declarator") or get_part(node, "left")
        if node.type in ("init_declarator", "assignment_expression") and own == name:
            is_branched = any(outer.type in _BRANCHES for outer in iter_parents(node))
            if node.type == "assignment_expression" and is_branched:
                return ""
            value = get_part(node, "value") or get_part(node, "right")
            return re.sub(r"^\{\s*([^{},]*?)\s*\}$", r"\1", value)  # int n {32};
    return ""


def collect_locals(host: Declaration, line: int) -> dict[str, str]:
    """Map each local variable of a host function to the statements that declare and set it.

    Args:
        host: The function.
        line: Where it launches: the last value before that line counts. What a branch beside it
            sets, or computes from the value before, begins with ``if (..)``; a block beside it
            declares nothing.
    """
    found: dict[str, str] = {}
    for node in iter_nodes(host.body):
        if node.type == "declaration" and not _find_branch(node, host, line):
            is_inner = node.start_point[0] < line
            own = _read_declared(node)
            found |= {name: text for name, text in own if is_inner or name not in found}
        elif node.type in ("assignment_expression", "update_expression"):
            _set_again(found, node, host, line)
    return found


def _set_again(found: dict[str, str], node: Node, host: Declaration, line: int) -> None:
    """Change what sets a variable before a line by an assignment to it, ``++`` or ``--``."""
    target, value = get_part(node, "left") or get_part(node, "argument"), get_part(node, "right")
    name = target.partition(".")[0]
    loops = (o for o in iter_parents(node) if o.type in LOOPS)
    is_late = node.start_point[0] >= line
    if name not in found or (is_late and not any(_holds(loop, line) for loop in loops)):
        return
    is_plain = get_part(node, "operator") == "=" and not is_late
    is_plain &= _find_branch(node, host, line) != "branch"
    if not is_plain or re.search(rf"\b{re.escape(name)}\b", value):
        found[name] += "" if BRANCH in found[name] else f" {BRANCH} {get_text(node)};"
    elif target != name or not re.search(r"[=({]", found[name]):
        found[name] += f" {get_text(node)};"
    else:
        found[name] = f"{found[name].partition(name)[0]}{name} = {value};"
        for other in found.keys() - {name}:  # it was computed from the value before
            if re.search(rf"\b{re.escape(name)}\b", found[other]) and BRANCH not in found[other]:
                found[other] += f" {BRANCH} {get_text(node)};"


def _holds(node: Node, line: int) -> bool:
    return node.start_point[0] < line <= node.end_point[0] + 1


BRANCH = "if (..)"
"""Before a statement that is not reached in every call."""
_BRANCHES = ("if_statement", "else_clause", "while_statement", "for_statement", "case_statement")


def _find_branch(node: Node, host: Declaration, line: int) -> str:
    """Return what does not hold a line and holds a statement: a branch, a block, or nothing."""
    inside = takewhile(lambda outer: outer != host.body, iter_parents(node))
    kinds = {o.type for o in inside if not _holds(o, line)}
    return "branch" if kinds & {*_BRANCHES} else "block" if "compound_statement" in kinds else ""


def _read_declared(node: Node) -> list[tuple[str, str]]:
    head = " ".join(
        get_text(child)
        for child in node.children
        if child.type in ("type_qualifier", "storage_class_specifier")
    ).replace("static", "")
    kind = get_part(node, "type")
    found = []
    for each in node.children_by_field_name("declarator"):
        name = each.child_by_field_name("declarator")
        if each.type == "init_declarator" and name is not None and name.type == "identifier":
            found.append((get_text(name), f"{head} {kind} {get_text(each)};".strip()))
        elif each.type == "function_declarator" and kind == "dim3":  # dim3 grid(n, m);
            found.append((get_text(each).partition("(")[0].strip(), f"dim3 {get_text(each)};"))
        elif each.type == "identifier":
            found.append((get_text(each), f"{kind} {get_text(each)};"))
    return found


class Structure(NamedTuple):
    """A structure that a function takes by value, and whose fields a draft passes one by one."""

    function: str
    parameter: str
    kind: str
    """Its type, with template arguments."""
    fields: tuple[tuple[str, str], ...]
    """Each field, and the name that stands for it in the rewritten text."""


INTEGER_CAST = re.compile(r"^\((?:const|unsigned|signed|int|long|size_t|u?int\d+_t|\s)+\)")
_SCOPES = ("for_statement", "compound_statement")


def list_scopes(body: Node) -> dict[str, list[tuple[int, int]]]:
    """Map each integer that has several scopes to where these begin and end, in bytes.

    A loop that sets a variable first is one.
    """
    found: dict[str, set[tuple[int, int]]] = {}
    for node in iter_nodes(body):
        begin = node.child_by_field_name("initializer") if node.type == "for_statement" else node
        if begin is None or begin.type not in ("declaration", "assignment_expression"):
            continue
        outer = next(n for n in (node, *iter_parents(node)) if n.type in _SCOPES)
        if begin.type == "declaration" and INTEGER_CAST.match(f"({get_part(begin, 'type')})"):
            for each in begin.children_by_field_name("declarator"):
                name = get_text(each.child_by_field_name("declarator") or each)
                found.setdefault(name, set()).add((outer.start_byte, outer.end_byte))
        elif node != begin and get_part(begin, "left") in found:
            found[get_part(begin, "left")].add((outer.start_byte, outer.end_byte))
    return {name: [*spans] for name, spans in found.items() if len(spans) > 1}


def unwrap(node: Node) -> Node:
    """Return an expression without parentheses and casts to integers around it."""
    while True:
        kind = get_part(node, "type") or get_part(node, "function")
        arguments = node.child_by_field_name("arguments") or node
        is_cast = node.type in ("cast_expression", "call_expression") and bool(
            INTEGER_CAST.match(f"({kind})")
        )
        is_cast |= node.type == "parenthesized_expression"
        is_cast |= node.type == "initializer_list" and len(node.named_children) == 1
        if not is_cast or not arguments.named_children:
            return node
        node = arguments.named_children[-1]
