"""Whether a function's body reads an array, writes it, or passes it to unknown code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from kernelkb.scaffold.c.c_declarations import get_text, has_const
from kernelkb.scaffold.draft.call_signature import Parameter

if TYPE_CHECKING:
    from tree_sitter import Node

Access = Literal["read", "written", "updated", "passed on"]
"""``updated`` is read and written (``y[i] += 1``); ``passed on`` is an argument of unknown code."""

_TESTS = ("==", "!=", "<", ">", "<=", ">=", "&&", "||")
_STILL_POINTER = (
    "binary_expression",
    "cast_expression",
    "conditional_expression",
    "update_expression",
)
_NO_ACCESS = (
    "binary_expression",
    "condition_clause",
    "conditional_expression",
    "expression_statement",
    "init_declarator",
    "pointer_declarator",
    "sizeof_expression",
    "unary_expression",
)
"""Around a pointer: it is declared, tested or moved, and its array is left alone."""
_BY_VALUE = re.compile(
    r"__(?!st)\w+|sizeof|printf|make_\w+|\w+_t|\w*_rn"
    r"|float|double|int|half|h?f?(?:abs|max|min|exp\d*|log\w*|r?sqrt|tanh?|sinh?|cosh?|pow|fma"
    r"|erfc?|floor|ceil|round|rint|isnan|isinf|isfinite)f?"
)
"""Functions that take numbers by value, so that an element handed to them is only read."""


def classify_array(parameter: Parameter, uses: Mapping[str, Sequence[Node]]) -> Parameter:
    """Return an array parameter with the role that a body shows, and whether that is certain.

    Args:
        parameter: An array; one that is not const arrives as an output.
        uses: The body's identifiers, by their text.
    """
    is_index = any(_is_in_subscript(use) for use in uses.get(parameter.name, ()))
    parameter = parameter._replace(is_index=is_index)
    if parameter.role == "input":
        return parameter
    accesses = _collect_accesses(parameter.name, uses, frozenset({parameter.name}))
    if accesses <= {"read"}:
        return parameter._replace(role="input")
    is_certain = "passed on" not in accesses
    read = {"read"} if _is_cleared(parameter.name, uses) else {"read", "updated"}
    return parameter._replace(is_read=bool(read & accesses), is_certain=is_certain)


def _is_cleared(name: str, uses: Mapping[str, Sequence[Node]]) -> bool:
    """Whether the body sets elements to a literal, so that adding to them reads no old value."""
    for use in uses.get(name, ()):
        node, is_pointer = _climb_to_access(use)
        right = node.parent and node.parent.child_by_field_name("right")
        if not is_pointer and right is not None and right.type == "number_literal":
            operator = node.parent and node.parent.child_by_field_name("operator")
            if get_text(operator) == "=":
                return True
    return False


def _is_in_subscript(use: Node) -> bool:
    node: Node | None = use
    while node is not None and not node.type.endswith(("_statement", "declaration")):
        if node.type == "subscript_argument_list":
            return True
        node = node.parent
    return False


def _collect_accesses(
    name: str, uses: Mapping[str, Sequence[Node]], visited: frozenset[str]
) -> set[Access]:
    accesses: set[Access] = set()
    for use in uses.get(name, ()):
        node, is_pointer = _climb_to_access(use)
        parent = node.parent
        if parent is None:
            continue
        alias = _find_alias(node, parent) if is_pointer else None
        if is_pointer and _makes_const(parent):
            accesses.add("read")
        elif alias is not None and alias not in visited:
            accesses |= _collect_accesses(alias, uses, visited | {alias})
        elif parent.type == "argument_list":
            accesses.add(_classify_argument(node, parent, is_pointer=is_pointer))
        elif not is_pointer:
            accesses.add(_classify_element(node, parent))
        elif parent.type not in _NO_ACCESS and parent.child_by_field_name("left") != node:
            accesses.add("passed on")
    return accesses


def _climb_to_access(use: Node) -> tuple[Node, bool]:
    """Return the largest expression that is an array's pointer or element, and whether a pointer.

    Casts, offsets and parentheses keep a pointer a pointer; a subscript, ``*`` and ``->`` make it
    an element, and ``&`` makes that a pointer again.
    """
    node, is_pointer = use, True
    while (parent := node.parent) is not None:
        is_argument = parent.child_by_field_name("argument") == node
        if parent.type == "pointer_expression":
            is_pointer = get_text(parent.children[0]) == "&"
        elif parent.type in ("subscript_expression", "field_expression") and is_argument:
            is_pointer = False
        elif parent.type != "parenthesized_expression" and (
            not is_pointer
            or parent.type not in _STILL_POINTER
            or _makes_const(parent)
            or parent.child_by_field_name("condition") == node
            or get_text(parent.child_by_field_name("operator")) in _TESTS
        ):
            break
        node = parent
    return node, is_pointer


def _makes_const(parent: Node) -> bool:
    """Whether a pointer is cast, or copied to a variable, that cannot be written through."""
    is_cast = parent.type == "cast_expression"
    if not is_cast and parent.type != "init_declarator":
        return False
    return has_const(parent.child_by_field_name("type") if is_cast else parent.parent)


def _find_alias(node: Node, parent: Node) -> str | None:
    """Return the local variable that a pointer is copied to."""
    target = None
    if parent.child_by_field_name("value") == node:
        target = parent.child_by_field_name("declarator")
    elif parent.child_by_field_name("right") == node:
        target = parent.child_by_field_name("left")
    if target is not None and target.type == "pointer_declarator":
        target = target.child_by_field_name("declarator")
    return get_text(target) if target is not None and target.type == "identifier" else None


def _classify_argument(node: Node, arguments: Node, *, is_pointer: bool) -> Access:
    called = arguments.parent and arguments.parent.child_by_field_name("function")
    base = (called and called.child_by_field_name("name")) or called
    name = get_text(base).rpartition("::")[2]
    is_first = arguments.named_children[0] == node
    if name.startswith("__ld"):
        return "read"
    if name.startswith("__st") and is_first:
        return "written"
    if name.startswith("atomic") and is_first:
        return "written" if name == "atomicExch" else "updated"
    is_by_value = name.startswith("(") or _BY_VALUE.fullmatch(name)
    return "read" if is_by_value and not is_pointer else "passed on"


def _classify_element(node: Node, parent: Node) -> Access:
    if parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
        operator = get_text(parent.child_by_field_name("operator"))
        return "written" if operator == "=" else "updated"
    if parent.type == "init_declarator" and not has_const(parent.parent):
        target = parent.child_by_field_name("declarator")
        return "passed on" if target and target.type == "reference_declarator" else "read"
    return "updated" if parent.type == "update_expression" else "read"
