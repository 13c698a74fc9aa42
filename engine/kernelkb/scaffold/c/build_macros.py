"""Macros that a Python program sets when it compiles a source: ``f"-DTILE={TILE}"``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_MAX_FILES = 60
_MACRO = re.compile(r"-D(\w+)=(-?[\w.]+)")
_UNDEFINED = re.compile(r"-U__CUDA_NO_\w+")
"""Gives operators of cuda_fp16.h and cuda_bf16.h back to an extension of torch."""


def find_macros(source: Path, root: Path) -> tuple[str, ...]:
    """Return the flags for the macros of a source that a program near it sets.

    Args:
        source: The file.
        root: The project; programs of the source's folder and of those above it are read.
    """
    text = source.read_text(encoding="utf-8", errors="replace")
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    found: dict[str, str] = {}
    undefined: dict[str, None] = {}
    for program in _iter_programs(source.resolve(), root.resolve()):
        flags = " ".join(_list_flags(program))
        undefined |= dict.fromkeys(_UNDEFINED.findall(flags))
        for name, value in _MACRO.findall(flags):
            if name in words and not re.search(rf"#[ \t]*define[ \t]+{name}\b", text):
                found.setdefault(name, value)
    return (*(f"-D{name}={value}" for name, value in found.items()), *undefined)


def _iter_programs(source: Path, root: Path) -> Iterator[str]:
    count = 0
    for folder in source.parents:
        if not folder.is_relative_to(root):
            return
        for path in sorted(folder.glob("*.py")):
            count += 1
            if count > _MAX_FILES:
                return
            text = path.read_text(encoding="utf-8", errors="replace")
            if "-D" in text or "-U" in text:
                yield text


def _list_flags(program: str) -> list[str]:
    """List the strings of a program; names in braces become the constants that they stand for."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError):
        return []
    constants = {
        node.targets[0].id: str(node.value.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    flags = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            flags.append("".join(_read_part(part, constants) for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            flags.append(node.value)
    return [flag for flag in flags if flag.startswith(("-D", "-U"))]


def _read_part(part: ast.expr, constants: dict[str, str]) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    value = part.value if isinstance(part, ast.FormattedValue) else part
    return constants.get(value.id, "?") if isinstance(value, ast.Name) else "?"
