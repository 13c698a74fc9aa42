"""Tensors that a launcher makes: what each is like, and the dtypes that it casts to."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from kernelkb.scaffold.python.launches import DTYPES, SHORT_DTYPES
from kernelkb.scaffold.python.nodes import iter_named

_MAKER = re.compile(r"(?:torch\.)?(?:(?:empty|zeros|ones|full|rand|randn)(_like)?|(\w+)\.new_\w+)")
Made = tuple[str, tuple[str, ...], str]
"""The tensor that another one is like, else its sizes; and its dtype, if that is written."""
OTHER = "other"
"""Of a tensor whose dtype is written, and not as that of another tensor or by its name."""


def collect_made(function: ast.FunctionDef) -> dict[str, Made]:
    """Map each tensor that a function makes to what it is like."""
    made: dict[str, Made] = {}
    for name, assigned in iter_named(function):
        value = assigned
        while isinstance(value, ast.Call) and _AS_MADE.search(ast.unparse(value.func)):
            value = value.func.value  # type: ignore[attr-defined]
        own = _read_maker(value) if isinstance(value, ast.Call) else None
        copied = _find_copied(assigned)
        own = own or ((copied, (), "") if copied not in ("", name) else None)
        before = made.get(name, own)
        if own is not None and before is not None:
            own = _find_like(value, own, made, list_casts(function, value.lineno))
            before = made.get(name, own)
            like = own[:2] if own[:2] == before[:2] else ("", ())
            made[name] = (*like, own[2] if own[2] == before[2] else OTHER)
        elif before is not None and (
            cast := find_cast(assigned, list_casts(function, assigned.lineno))
        ):
            made[name] = (*before[:2], cast)
        elif (
            before is None
            and isinstance(assigned, ast.BinOp)
            and isinstance(assigned.right, ast.Constant)
        ):
            base = made.get(ast.unparse(assigned.left))
            made |= {name: (*base[:2], OTHER)} if base is not None else {}
    return made


def _find_like(
    call: ast.expr, own: Made, made: Mapping[str, Made], casts: Mapping[str, str]
) -> Made:
    """Return what a tensor is like with the dtype of the one that it is made like."""
    like, dims, dtype = own
    named = re.search(r"dtype=(\w+)\.dtype\b", ast.unparse(call))
    source = named[1] if named else like or _FIRST.match(ast.unparse(call))[1]  # type: ignore[index]
    dtype = dtype or find_cast(call, casts)
    if not dtype:
        dtype = made[source][2] if source in made else casts.get(source, "")
    return (*made[like][:2], dtype) if like in made else (like, dims, dtype)


def _find_copied(value: ast.expr) -> str:
    """Return the name of the tensor that ``x.contiguous().half()`` is a copy of; else nothing."""
    is_copied = isinstance(value, ast.Call)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if not _COPIES.fullmatch(value.func.attr):
            return ""
        value = value.func.value
    return value.id if is_copied and isinstance(value, ast.Name) else ""


_COPIES = re.compile(r"to|type_as|float|half|double|bfloat16|contiguous|clone|detach|cuda")
_FIRST = re.compile(r"(\w+)")


def list_casts(function: ast.FunctionDef, line: int) -> dict[str, str]:
    """Map each name that is cast to the dtype that it has in a line, or ``OTHER``."""
    found: dict[str, str] = {}
    unsure = {
        node.value
        for test in ast.walk(function)
        if isinstance(test, ast.If | ast.IfExp) and "dtype" not in ast.unparse(test.test)
        for node in ast.walk(test)
        if isinstance(node, ast.Assign)
    }
    for name, value in iter_named(function):
        if value.lineno < line and (cast := find_cast(value, found)):
            is_one = found.get(name, cast) == cast and value not in unsure
            found[name] = cast if is_one else OTHER
    return found


def find_cast(value: ast.expr, casts: Mapping[str, str]) -> str:
    """Return the dtype that an expression casts a tensor to, or ``OTHER``; empty for no cast.

    Args:
        value: The expression.
        casts: See ``list_casts``.
    """
    if isinstance(value, ast.IfExp):
        sides = {find_cast(value.body, casts), find_cast(value.orelse, casts)}
        return sides.pop() if len(sides) == 1 else OTHER
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if _CAST.fullmatch(value.func.attr) and not _MOVES.fullmatch(ast.unparse(value)):
                return _name_cast(value, value.func.attr)
            value = value.func
        elif isinstance(value, ast.Call) or getattr(value, "attr", "") in _ABOUT:
            return ""
        else:
            value = value.value
    return casts.get(value.id, "") if isinstance(value, ast.Name) else ""


def _name_cast(call: ast.Call, method: str) -> str:
    given = [*call.args, *(k.value for k in call.keywords if k.arg == "dtype")]
    texts = [SHORT_DTYPES.get(method, method), *map(ast.unparse, given)]
    for text in texts:
        short = text.removeprefix("torch.")
        if (dtype := SHORT_DTYPES.get(short, short)) in DTYPES:
            return dtype
    return OTHER


def _read_maker(call: ast.Call) -> Made | None:
    """Return what ``torch.empty((M, N), dtype=torch.float16)`` makes; None for another call."""
    match = _MAKER.fullmatch(ast.unparse(call.func))
    if match is None or not call.args:
        return None
    written = next((ast.unparse(k.value) for k in call.keywords if k.arg == "dtype"), "")
    short = written.removeprefix("torch.")
    dtype = SHORT_DTYPES.get(short, short)
    if dtype not in DTYPES:
        is_default = (
            _MADE_FLOAT.fullmatch(match[0]) and {k.arg for k in call.keywords} <= _MAKER_WORDS
        )
        same = "" if written.endswith(".dtype") or (match[1] and not written) else OTHER
        dtype = "float32" if is_default else same
    first = call.args[0]
    if match[1]:
        return ast.unparse(first), (), dtype
    elements = first.elts if isinstance(first, ast.Tuple | ast.List) else call.args
    dims = tuple(ast.unparse(e) for e in elements)
    if all(_DIMENSION.fullmatch(d) for d in dims) and dims != ("shape",):
        return "", dims, dtype
    like = re.fullmatch(r"\*?(\w+)(?:\.(?:shape|size\(\)))?", ast.unparse(first))
    return (like[1] if like else "", (), dtype)


_AS_MADE = re.compile(r"\)\.(?:contiguous|cuda|requires_grad_)$")
_MADE_FLOAT = re.compile(r"torch\.(?:empty|zeros|ones|rand|randn)")
"""Float32 where nothing says another dtype."""
_MAKER_WORDS = {"device", "requires_grad", "pin_memory", "memory_format", "layout", "generator"}
_DIMENSION = re.compile(r"\w+|\w+\.(?:shape\[-?\d+\]|size\(-?\d+\))")
_CAST = re.compile(r"to|type_as|float|half|double|bfloat16|long|int|bool|type|view_as_\w+")
_MOVES = re.compile(r".*\.to\((?:device=)?(?:['\"][\w:]+['\"]|\w*device\w*|\w+\.device)\)")
"""What moves a tensor to a device, in place of a cast."""
_ABOUT = ("shape", "dtype", "device", "size", "numel", "stride", "ndim", "dim", "is_cuda")
