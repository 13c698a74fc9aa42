"""Defines the records of metrics and of the recipes that collect them, and parses formulas.

Python's own parser reads formulas, so precedence and numbers are Python's. A formula becomes a
postfix program, which ``kernelkb.decide.derive`` evaluates without parsing.
"""

from __future__ import annotations

import ast
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kernelkb.model.base import EvidenceLevel, Name, Record, Slug, Target

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


Unit = Literal["ratio", "share", "truth", "us", "bytes", "gbps", "count", "cycles", "seconds"]
_DIMENSIONAL_UNITS = ("us", "bytes", "gbps", "count", "cycles", "seconds")


def _to_formulas(value: object) -> object:
    """Return one formula, or several, as a sequence."""
    return value if isinstance(value, list | tuple) else [value]


Formulas = Annotated[tuple[Formula, ...], BeforeValidator(_to_formulas)]
"""One formula, or several in order of preference: the first whose quantities are known holds."""


class Metric(Record):
    """One quantity that conditions may refer to."""

    id: Name
    """Ends in the unit, as ``kernel_us`` does; ratios, shares and truths have no unit."""
    title: str
    definition: str
    unit: Unit
    range: tuple[float, float | None] = (0.0, None)
    """Lowest and highest possible value; null means no upper bound."""
    direction: Literal["higher-is-better", "lower-is-better", "context"]
    level: EvidenceLevel
    targets: tuple[Target, ...] = ("cpu", "cuda")
    flag: Literal["speedup", "bandwidth", "occupancy", "kernel-us"] | None = None
    """The headline command-line flag that sets this metric on its targets."""
    raw: dict[Literal["ncu", "ncu-details"], tuple[str, ...]] = Field(
        default_factory=dict, alias="from"
    )
    """Raw names for each tool; the first one in a report is used. ``counter[label]`` is one
    instance of a counter. On the details page of ncu a name is ``section/title``."""
    raw_scale: float = 1.0
    """Factor from a raw value to this metric's unit."""
    raw_zero: Literal["known", "unknown"] = "known"
    """known: a raw 0 is a value. unknown: the tool reports 0 for an average over no samples."""
    derive: Formulas = ()
    """How it follows from other quantities; empty if it does not."""
    recipe: Slug | None = None
    """The recipe that collects it; null if it is derived or only the caller can give it."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_unit_suffix(self) -> Self:
        if self.id in OPERATORS:
            raise ValueError(f"{self.id} is a function of formulas; choose another id")
        if self.unit in _DIMENSIONAL_UNITS and not self.id.endswith(f"_{self.unit}"):
            raise ValueError(f"{self.id} has unit {self.unit}; name it {self.id}_{self.unit}")
        return self


class Recipe(Record):
    """One way to collect a group of metrics."""

    id: Slug
    title: str
    target: Target | None = None
    command: str
    """Shell command; ``{kernel}`` stands for the kernel's name, ``{target}`` for cpu or cuda."""
    verb: Literal["build", "bench", "profile"] | None = None
    """The command of ``kb`` that collects them for a kernel of the project; None: none does."""
    cost: float = Field(gt=0)
    """Relative cost of collecting, in profiler replay passes; 2 for what a build prints."""
    includes: tuple[Slug, ...] = ()
    """Recipes whose metrics this one collects as well."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class MetricCatalogue(Record):
    """The file ``metrics.yaml``."""

    metrics: tuple[Metric, ...] = ()
    recipes: tuple[Recipe, ...] = ()
