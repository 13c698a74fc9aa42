"""Values that a launch's grid and block depend on, from the host function that launches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.c.c_functions import find_dtype
from kernelkb.scaffold.c.syntax import Declaration, LaunchSite, get_text, iter_nodes

if TYPE_CHECKING:
    from tree_sitter import Node

_WORD = re.compile(r"(?<![\w.>:])[A-Za-z_]\w*(?![\w]*\s*::)")
_KNOWN_WORDS = frozenset(
    (
        *("dim3", "int", "unsigned", "float", "double", "size_t", "sizeof", "static_cast", "const"),
        *("auto", "uint32_t", "int64_t", "int32_t", "long", "std", "ceil", "ceilf", "min", "max"),
        *("true", "false", "char", "short", "bool", "half", "int4", "float4", "reinterpret_cast"),
        *("float2", "half2", "__half", "__half2", "int2", "uint4", "uint8_t", "uint64_t", "uint"),
        *("__nv_bfloat16", "__nv_bfloat162", "constexpr", "signed", "nullptr", "ceill", "pow"),
    )
)
_HOST_ONLY = (
    "decltype",
    "cudaGetDevice",
    "argv",
    "argc",
    "atoi",
    "cudaMalloc",
    "getenv",
    "rand(",
    "new ",
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
    constants: Mapping[str, str]
    name: str
    is_of_caller: bool


class LaunchContext(NamedTuple):
    """What an identifier of the host function may stand for."""

    known: Mapping[str, str]
    """Expressions of the launcher, such as ``{"N": "n"}``."""
    constants: Mapping[str, str]
    """Macros, global constants and functions of the file, which stay as they are."""


def collect_configuration(
    site: LaunchSite, context: LaunchContext
) -> tuple[list[str], list[str]] | None:
    """Return the host's statements that a launch's grid and block need, and the configuration.

    Args:
        site: The launch.
        context: What identifiers of the host stand for.

    Returns:
        None where a value comes from elsewhere and no number can stand for it.
    """
    host = _Host(
        _collect_locals(site.host),
        _collect_kinds(site.host),
        context.known,
        context.constants,
        site.host.name,
        site.is_of_caller,
    )
    statements: dict[str, str] = {}
    configuration = list(site.configuration[:3])
    for text in configuration:
        if _MEMBER.search(text) or not _collect_statements(text, host, statements, 0):
            return None
    return list(statements.values()), configuration


def _collect_statements(text: str, host: _Host, statements: dict[str, str], depth: int) -> bool:
    for word in dict.fromkeys(_WORD.findall(text)):
        if word in statements or word in _KNOWN_WORDS or host.known.get(word) == word:
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
        elif word not in host.constants and (host.is_of_caller or not _is_of_header(word, text)):
            return False
    return True


def _is_of_header(word: str, text: str) -> bool:
    """Whether a word is a function, or a constant by its spelling: of a header then."""
    return bool(_CONSTANT_NAME.fullmatch(word) or re.search(rf"\b{word}\s*[(<]", text))


def _collect_local(word: str, host: _Host, statements: dict[str, str], depth: int) -> bool:
    """Add what sets a local variable, else a mark for an integer, with what the source says."""
    needed = host.locals.get(word, "")
    is_set = "=" in needed or "(" in needed or host.kinds[word] == "dim3"
    is_plain = is_set and not any(mark in needed for mark in _HOST_ONLY)
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


def find_local_value(name: str, host: Declaration) -> str:
    """Return the initial value of a constant local variable, as written; empty without one."""
    needed = _collect_locals(host).get(name, "")
    match = re.fullmatch(rf"[^=]*\b{re.escape(name)}\s*=\s*([^;]+);", needed)
    return match[1] if match else ""


def _collect_kinds(host: Declaration) -> dict[str, str]:
    """Map each parameter and local variable of a host function to its type."""
    kinds: dict[str, str] = {}
    nodes = [*host.parameters, *(iter_nodes(host.body) if host.body is not None else ())]
    for node in nodes:
        if node.type not in ("declaration", "parameter_declaration"):
            continue
        kind = get_text(node.child_by_field_name("type"))
        for each in node.children_by_field_name("declarator"):
            name = each.child_by_field_name("declarator") or each
            if name.type == "identifier":
                kinds.setdefault(get_text(name), kind)
    return kinds


def _collect_locals(host: Declaration) -> dict[str, str]:
    """Map each local variable of a host function to the statements that declare and set it."""
    found: dict[str, str] = {}
    for node in iter_nodes(host.body) if host.body is not None else ():
        if node.type == "declaration":
            found |= {name: text for name, text in _read_declared(node) if name not in found}
        left = node.child_by_field_name("left")
        if node.type == "assignment_expression" and left is not None:
            name = get_text(left).partition(".")[0]
            is_unset = name in found and "=" not in found[name] and "(" not in found[name]
            if is_unset or (name in found and get_text(left) not in found[name]):
                found[name] += f" {get_text(node)};"
    return found


def _read_declared(node: Node) -> list[tuple[str, str]]:
    head = " ".join(
        get_text(child)
        for child in node.children
        if child.type in ("type_qualifier", "storage_class_specifier")
    ).replace("static", "")
    kind = get_text(node.child_by_field_name("type"))
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
