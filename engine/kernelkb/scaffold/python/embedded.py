"""CUDA text in the strings of a Python file, and what to do where it cannot be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from kernelkb.scaffold.python.nodes import iter_named

_KERNEL = "__global__"


def find_cuda_text(tree: ast.Module) -> str:
    """Return the CUDA text of the file's strings, joined, with the constants that they name.

    What only running the file tells stays as it is written.
    """
    constants: dict[str, str] = {}
    for name, value in iter_named(tree):
        if (text := _read_text(value, constants)) is not None:
            constants.setdefault(name, text)
    texts = [each for each in _iter_texts(tree, constants) if _KERNEL in each and "{" in each]
    return "\n".join(dict.fromkeys(texts))


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
    return None


def _join(parts: list[str | None]) -> str | None:
    return None if None in parts else "".join(part or "" for part in parts)


def describe_copy(name: str, text: str) -> list[str]:
    """Return what to know of a copy of the CUDA text in a Python file.

    Args:
        name: Of the file.
        text: Of its kernels.
    """
    called = dict.fromkeys(re.findall(r"\b[A-Z]\w*[A-Z]\w*(?=\()", text))
    missing = [each for each in called if not re.search(rf"#\s*define\s+{each}\b", text)]
    told = f"source.cu is a copy of the CUDA text in {name}: change it there, too"
    if not missing:
        return [told]
    names = ", ".join(missing)
    return [f"source.cu lacks {names}: {name} puts them in as it runs; write them there", told]


def describe_unread_cuda(name: str, text: str) -> str:
    """Return what to draft in place of a Python file without a text of CUDA; empty if unknown.

    Args:
        name: Of the file.
        text: What it holds.
    """
    for pattern, why in _UNREAD:
        if found := re.search(pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            file = found[1] if found.lastindex else "NAME.cu"
            return f"{name} {why.format(line=f'line {line}', file=file)}: kb init {file}"
    return ""


_UNREAD = (
    (r"[\"']([^\"'\n]*\w\.cuh?)[\"']", "loads its kernel from {file} ({line}); draft that"),
    (
        rf"{_KERNEL}|\b(?:Raw(?:Kernel|Module)|SourceModule|load_inline)\(",
        "completes its CUDA text as it runs ({line}); print that text to {file} and draft that",
    ),
    (
        r"\b(?:Elementwise|Reduction)Kernel\(|@(?:cp|cupy|jit)\.(?:fuse|rawkernel)",
        "has CuPy write the kernel ({line}); write it as a __global__ function to {file} and "
        "draft that",
    ),
    (
        r"(?<=@)(?:numba\.)?cuda\.jit\b",
        "has a kernel of Numba ({line}), which KernelKB does not run; write it as a __global__ "
        "function to {file} and draft that",
    ),
)
"""What a file without a kernel holds instead, with what can be done."""
