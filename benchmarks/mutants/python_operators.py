"""Mutation operators for torch and Triton sources: changes of one node of the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from benchmarks.mutants.mutant import Edit, Kind

_OTHER_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*",
    ast.Mod: "//", ast.MatMult: "*", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip
_OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: (">", "<="), ast.LtE: ("<",), ast.Gt: ("<", ">="), ast.GtE: (">",),
    ast.Eq: ("!=", ">="), ast.NotEq: ("==",),
}  # fmt: skip
_OTHER_NAMES = {
    "amax": "amin", "amin": "amax", "sum": "mean", "mean": "sum", "exp": "exp2", "log": "log1p",
    "sqrt": "rsqrt", "rsqrt": "sqrt", "maximum": "minimum", "cumsum": "cumprod", "erf": "tanh",
    "zeros": "ones", "zeros_like": "ones_like", "max": "min", "min": "max", "long": "float",
    "double": "float", "cdiv": "next_power_of_2", "index_select": "index_fill", "square": "abs",
}  # fmt: skip
_NO_INITIAL_VALUE = {"zeros": "empty", "zeros_like": "empty_like", "clone": "new_empty"}


class PythonSource(NamedTuple):
    """A torch or Triton source, and what its kernel.yaml says of it."""

    text: str
    axes: Mapping[str, int]
    entry: str
    is_triton: bool

    def offset(self, node: ast.expr | ast.stmt) -> int:
        """Return where a node starts, in characters."""
        return _offset(self.text, node.lineno, node.col_offset)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node starts and ends, in characters."""
        line, column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.offset(node), _offset(self.text, line, column)

    def code(self, node: ast.expr | ast.stmt) -> str:
        """Return a node's own text."""
        return ast.get_source_segment(self.text, node) or ""


def _offset(text: str, line: int, column: int) -> int:
    return sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column


def find_edits(source: PythonSource) -> Iterator[Edit]:
    """Yield every edit of every operator, in the order of the syntax tree."""
    tree = ast.parse(source.text)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            for node in (node for statement in function.body for node in ast.walk(statement)):
                for operator in _OPERATORS:
                    yield from operator(source, node)
                if isinstance(node, ast.Return) and function.name == source.entry:
                    yield from _edit_return(source, node)


def _edit_arithmetic(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and type(node.op) in _OTHER_OPERATORS:
        left, right, span = source.code(node.left), source.code(node.right), source.span(node)
        yield Edit("dropped term", "right", *span, left)
        yield Edit("dropped term", "left", *span, right)
        other = _OTHER_OPERATORS[type(node.op)]
        yield Edit("wrong operator", "arithmetic", *span, f"(({left}) {other} ({right}))")
        if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.MatMult):
            sign = {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//"}.get(type(node.op), "@")
            yield Edit("wrong operator", "exchanged", *span, f"(({right}) {sign} ({left}))")
    if isinstance(node, ast.UnaryOp):
        kind: Kind = "wrong comparison" if isinstance(node.op, ast.Invert) else "wrong constant"
        yield Edit(kind, "sign", *source.span(node), source.code(node.operand))
    if isinstance(node, ast.AugAssign):
        target, value = source.code(node.target), source.code(node.value)
        yield Edit("dropped term", "not-added", *source.span(node), f"{target} = {value}")
        yield Edit("wrong operator", "subtracted", *source.span(node), f"{target} -= {value}")


def _edit_comparison(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    left, right = source.code(node.left), source.code(node.comparators[0])
    for other in _OTHER_COMPARISONS.get(type(node.ops[0]), ()):
        kind: Kind = "wrong comparison"
        if other in (">=", "<=") and not isinstance(node.ops[0], ast.Eq):
            kind = "wrong for NaN, ties or extremes"
        yield Edit(kind, "comparison", *source.span(node), f"{left} {other} {right}")
    yield Edit(
        "off-by-one bounds", "compared-more", *source.span(node.comparators[0]), f"({right} + 1)"
    )
    yield Edit(
        "off-by-one bounds", "compared-less", *source.span(node.comparators[0]), f"({right} - 1)"
    )


def _edit_constant(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant) or isinstance(node.value, str | None):
        return
    span, value = source.span(node), node.value
    if isinstance(value, bool):
        yield Edit("wrong constant", "flag", *span, str(not value))
    elif isinstance(value, int):
        for other in {value + 1, value - 1, 2 * value} - {value}:
            yield Edit("wrong constant", "integer", *span, str(other))
    elif isinstance(value, float):
        others = (value * 2, value * 1.01, 0.0, -value) if value else (1.0, 1e-3, -1.0)
        for number in others:
            yield Edit("wrong constant", "number", *span, repr(number))


def _edit_subscript(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Slice):
        for part, name in ((node.lower, "lower"), (node.upper, "upper")):
            if part is not None:
                code = source.code(part)
                for change in ("+ 1", "- 1"):
                    text = f"{code} {change}"
                    yield Edit("off-by-one bounds", name, *source.span(part), text)
                yield Edit("dropped tail", f"{name}-8", *source.span(part), f"({code}) // 8 * 8")
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        parts = [source.code(part) for part in node.slice.elts]
        if len(set(parts)) > 1:
            yield Edit("swapped indices", "order", *source.span(node.slice), ", ".join(parts[::-1]))
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        yield Edit("swapped indices", "shape", *source.span(node), f"{source.code(node)}[::-1]")


def _edit_axis(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    is_read = isinstance(node, ast.Name | ast.Subscript) and isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.expr) or not is_read:
        return
    code = source.code(node)
    if ".shape[" in code and code.endswith("]"):
        for size in sorted(set(source.axes.values())):
            yield Edit("constant instead of axis", "shape", *source.span(node), str(size))
    for axis, size in source.axes.items():
        if code == axis:
            yield Edit("constant instead of axis", "name", *source.span(node), str(size))
            for other in source.axes:
                if other != axis and other in source.text:
                    yield Edit("swapped indices", "other-axis", *source.span(node), other)


def _edit_call(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Call):
        return
    code, span, called = source.code(node), source.span(node), source.code(node.func)
    head, _, name = called.rpartition(".")
    if name in _OTHER_NAMES:
        changed = code.replace(f"{called}(", f"{head}.{_OTHER_NAMES[name]}(", 1)
        yield Edit("wrong operator", "call", *span, changed.removeprefix("."))
    if name in _NO_INITIAL_VALUE and head == "torch":
        changed = code.replace(f".{name}(", f".{_NO_INITIAL_VALUE[name]}(", 1)
        yield Edit("missing initialisation", "empty", *span, changed)
    if head and head not in ("torch", "tl", "triton") and isinstance(node.func, ast.Attribute):
        yield Edit("dropped term", "method", *span, source.code(node.func.value))
    for keyword in node.keywords:
        if keyword.arg in ("mask", "other", "min", "max", "dtype", "keepdim", "dim", "stable"):
            part = f", {keyword.arg}={source.code(keyword.value)}"
            if part in code:
                yield Edit("wrong constant", f"no-{keyword.arg}", *span, code.replace(part, "", 1))
    if len(node.args) >= 2:
        first, second = source.code(node.args[0]), source.code(node.args[1])
        start, end = source.span(node.args[0])[0], source.span(node.args[1])[1]
        if name not in ("maximum", "add"):
            yield Edit("swapped indices", "arguments", start, end, f"{second}, {first}")


def _edit_value(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    """Round, clip or stale values of an assignment."""
    if not isinstance(node, ast.Assign | ast.AugAssign) or isinstance(node.value, ast.Constant):
        return
    code, span = source.code(node.value), source.span(node.value)
    if source.is_triton:
        for dtype in ("float16", "bfloat16"):
            text = f"({code}).to(tl.{dtype}).to(tl.float32)"
            yield Edit("wrong dtype or accumulator", dtype, *span, text)
    elif not isinstance(node.value, ast.Tuple):
        for dtype in ("half", "bfloat16", "int"):
            text = f"({code}).{dtype}().float()"
            yield Edit("wrong dtype or accumulator", dtype, *span, text)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield Edit("dropped term", "statement", *source.span(node), "pass")


def _edit_return(source: PythonSource, node: ast.Return) -> Iterator[Edit]:
    """Change what the entry function returns."""
    if node.value is None:
        return
    code, span = source.code(node.value), source.span(node)
    first = f"({code})[0]" if isinstance(node.value, ast.Tuple) else f"({code})"
    rest = f", ({code})[1]" if isinstance(node.value, ast.Tuple) else ""
    changes: tuple[tuple[Kind, str, str], ...] = (
        ("one wrong lane", "lane-zero", "result.view(-1)[31::32] = 0"),
        ("one wrong lane", "lane-double", "result.view(-1)[3::7] *= 2"),
        ("one wrong lane", "lane-first", "result.view(-1)[:1] = -result.view(-1)[:1]"),
        ("dropped tail", "last", "result.view(-1)[-1:] = 0"),
        ("wrong for NaN, ties or extremes", "nan", "result = result.nan_to_num()"),
        ("wrong for NaN, ties or extremes", "clipped", "result = result.clamp(-1000, 1000)"),
        ("wrong dtype or accumulator", "half", "result = result.half().to(result.dtype)"),
        ("wrong dtype or accumulator", "bfloat16", "result = result.bfloat16().to(result.dtype)"),
        ("wrong for one size", "odd", "result = result * (result.shape[-1] % 2 == 0)"),
        ("wrong for one size", "long", "result = result * (result.shape[-1] <= 32)"),
        ("wrong for one size", "single", "result = result * (result.shape[0] != 1)"),
        ("wrong for one size", "64", "result = result * (result.shape[-1] != 64)"),
        ("swapped indices", "reversed", "result = result.flip(0)"),
        ("swapped indices", "shifted", "result = result.roll(1)"),
        ("stale scratch", "earlier", _STALE),
    )
    for kind, name, change in changes:
        text = f"result = {first}.contiguous()\n    {change}\n    return result{rest}"
        yield Edit(kind, f"return-{name}", *span, text)


_STALE = (
    "kept = globals().setdefault('KEPT', {})\n"
    "    result = kept.setdefault(tuple(result.shape), result.clone())"
)


def _edit_exit(source: PythonSource, node: ast.AST) -> Iterator[Edit]:
    """Leave a loop early."""
    if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and not source.is_triton:
        first, name = node.body[0], node.target.id
        for code in (f"if {name} > 0: break\n", f"if {name} == 2: continue\n"):
            at = source.offset(first)
            text = code + " " * first.col_offset
            yield Edit("early return", "leave-loop", at, at, text)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield Edit("early return", "no-call", *source.span(node), "pass")


_OPERATORS: tuple[Callable[[PythonSource, ast.AST], Iterator[Edit]], ...] = (
    _edit_arithmetic,
    _edit_comparison,
    _edit_constant,
    _edit_subscript,
    _edit_axis,
    _edit_call,
    _edit_value,
    _edit_exit,
)
