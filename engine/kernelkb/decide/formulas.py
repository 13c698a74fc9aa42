"""Evaluates the postfix programs of formulas; unknown if an operand is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence


def evaluate_formula(program: Sequence[str | float], known: Mapping[str, float]) -> float | None:
    """Return the value of a formula; None if a quantity is unknown or the value is not finite.

    Args:
        program: As ``kernelkb.model.entries.metric.parse_formula`` returns it.
        known: Metrics and device facts by name.
    """
    stack: list[float] = []
    push, pop = stack.append, stack.pop
    try:
        for item in program:
            if not isinstance(item, str):
                push(item)
            elif item in _BINARY:
                right = pop()
                push(_BINARY[item](pop(), right))
            elif item in known:
                push(known[item])
            elif item in _UNARY:
                push(_UNARY[item](pop()))
            elif item == "hidden_latency":
                latency, wanted = pop(), pop()
                push(hidden_latency(pop(), wanted, latency))
            else:
                return None
    except (ArithmeticError, ValueError):
        return None
    return stack[0] if math.isfinite(stack[0]) else None


def hidden_latency(active: float, wanted: float, latency: float) -> float:
    """Return the share of the time that more warps would remove by hiding latency, 0 to 1.

    GPA's model (Zhou et al., CGO 2021): a warp can issue in one of ``latency`` cycles, so at least
    one of ``n`` warps can issue with probability 1 - (1 - 1/latency)^n. The gain saturates with n.

    Args:
        active: Warps per scheduler before.
        wanted: Warps per scheduler after.
        latency: Cycles between two instructions of a warp.
    """
    idle = 1 - 1 / latency if latency > 1 else 0.0
    reached = 1 - idle**wanted
    return 1 - (1 - idle**active) / reached if wanted > active and reached > 0 else 0.0


def _wave_loss(waves: float) -> float:
    from kernelkb.device_math.waves import wave_loss  # few calls need it

    loss = wave_loss(waves)
    if loss is None:
        raise ValueError("there is no wave")
    return loss


_BINARY: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "min": min,
    "max": max,
    "mod": math.fmod,
}
_UNARY: dict[str, Callable[[float], float]] = {
    "ceil": lambda value: float(math.ceil(value)),
    "sqrt": math.sqrt,
    "last_wave_loss": _wave_loss,
}
