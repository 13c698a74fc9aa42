"""Texts that a Python file holds in strings, also where it joins or formats them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping


def iter_texts(tree: ast.Module) -> Iterator[str]:
    """Yield each string of a file once, with the constants of the file that it names filled in.

    What only running the file tells stays as it is written.
    """
    constants: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = _read_text(node.value, constants)
            if text is not None:
                constants[node.targets[0].id] = text
    yield from _iter_texts(tree, constants)


def _iter_texts(node: ast.AST, constants: Mapping[str, str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        text = None if isinstance(child, ast.Name) else _read_text(child, constants)
        if text is None:
            yield from _iter_texts(child, constants)
        elif not isinstance(child, ast.Constant) or isinstance(child.value, str):
            yield text


def _read_text(node: ast.AST, constants: Mapping[str, str]) -> str | None:
    """Return the text of an expression; None for one that is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float)):
        return str(node.value)
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _join([_read_text(node.left, constants), _read_text(node.right, constants)])
    if isinstance(node, ast.JoinedStr):
        return _join([_read_text(part, constants) for part in node.values])
    if isinstance(node, ast.FormattedValue):
        return _read_text(node.value, constants)
    is_format = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_format:
        return _format(node, node.func, constants)
    return None


def _join(parts: list[str | None]) -> str | None:
    return None if None in parts else "".join(part or "" for part in parts)


def _format(call: ast.Call, method: ast.Attribute, constants: Mapping[str, str]) -> str | None:
    """Return what ``"...".format(name=CONSTANT)`` gives."""
    template = _read_text(method.value, constants)
    if method.attr != "format" or template is None:
        return None
    positional = [_read_text(value, constants) for value in call.args]
    named = {each.arg or "": _read_text(each.value, constants) for each in call.keywords}
    if None in positional or None in named.values():
        return None
    try:
        return template.format(*positional, **named)
    except (KeyError, IndexError, ValueError):
        return None
