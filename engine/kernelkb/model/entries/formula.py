"""Parses formulas of quantities, such as ``min(dram_bytes / device.dram_gbps, 1)``.

Python's own parser reads them, so precedence and numbers are Python's. A formula becomes a postfix
program, which ``kernelkb.decide.formulas`` evaluates without parsing.
"""

from __future__ import annotations

import ast
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

Program = tuple[str | float, ...]
"""Postfix: a number, the name of a quantity, or an operator that replaces the values before it."""

_BINARY_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
_FOLDED_FUNCTIONS = ("min", "max")
"""Functions of two or more values."""
_FUNCTION_ARITIES = {"ceil": 1, "sqrt": 1, "mod": 2, "last_wave_loss": 1, "hidden_latency": 3}
OPERATORS = frozenset({*_BINARY_OPERATORS.values(), *_FOLDED_FUNCTIONS, *_FUNCTION_ARITIES})


def parse_formula(text: str) -> Program:
    """Return the postfix program of a formula.

    Raises:
        ValueError: The text is no formula; names what is allowed.
    """
    try:
        return tuple(_flatten(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a formula: {error}") from error


def list_quantities(text: str) -> list[str]:
    """Return the quantities that a formula names, each once, in order."""
    tokens = parse_formula(text)
    names = (t for t in tokens if isinstance(t, str) and t not in OPERATORS)
    return list(dict.fromkeys(names))


def _to_text(value: object) -> object:
    """Return a number, as YAML reads a formula of one number, as text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _check_formula(text: str) -> str:
    parse_formula(text)
    return text


Formula = Annotated[str, BeforeValidator(_to_text), AfterValidator(_check_formula)]
"""Arithmetic with numbers, quantities, ``+ - * /``, parentheses, ``min``, ``max``, ``ceil``,
``sqrt``, ``mod``, ``last_wave_loss`` and ``hidden_latency``."""


def _flatten(node: ast.expr) -> list[str | float]:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return [float(number)]
        case ast.Name():
            return [node.id]
        case ast.Attribute(value=ast.Name(id="device")):
            return [f"device.{node.attr}"]
        case ast.UnaryOp(op=ast.USub()):
            return [0.0, *_flatten(node.operand), "-"]
        case ast.BinOp() if type(node.op) in _BINARY_OPERATORS:
            symbol = _BINARY_OPERATORS[type(node.op)]
            return [*_flatten(node.left), *_flatten(node.right), symbol]
        case ast.Call(func=ast.Name(id=function), keywords=[]):
            return _flatten_call(function, node.args)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in a formula")


def _flatten_call(function: str, arguments: list[ast.expr]) -> list[str | float]:
    tokens = [token for argument in arguments for token in _flatten(argument)]
    if function in _FOLDED_FUNCTIONS and len(arguments) > 1:
        first = _flatten(arguments[0])
        rest = [token for argument in arguments[1:] for token in (*_flatten(argument), function)]
        return [*first, *rest]
    if _FUNCTION_ARITIES.get(function) == len(arguments):
        return [*tokens, function]
    known = ", ".join((*_FOLDED_FUNCTIONS, *_FUNCTION_ARITIES))
    raise ValueError(f"{function} of {len(arguments)} values is no function; known: {known}")
