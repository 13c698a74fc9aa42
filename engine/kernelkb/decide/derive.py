"""Computes derived metrics from measured metrics and device facts; unknown if an input is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kernelkb.decide.device_facts import derive_residency_metrics
from kernelkb.device_math.roofline import Roof, comes_from_memory, highest_roof, roofs

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules


def complete_metrics(
    rules: CompiledRules, measured: Mapping[str, float], device: str | None
) -> dict[str, float]:
    """Return the metrics with device facts, the roofline floor and all derived metrics added.

    A metric that was measured is never replaced by a derived one. Values that are not finite
    count as not measured.
    """
    known = {name: value for name, value in measured.items() if math.isfinite(value)}
    facts = rules["devices"].get(device or "", {})
    known.update((f"device.{name}", value) for name, value in facts.items())
    for name, value in derive_residency_metrics(rules, known, device):
        known.setdefault(name, value)
    for name, values in rules["limits"].items():
        known[name] = values.get(device or "", values[""])
    _add_derived_metrics(rules, known)
    before = len(known)
    _add_roofline_floor(known)
    if len(known) > before:
        _add_derived_metrics(rules, known)
    return known


def _add_derived_metrics(rules: CompiledRules, known: dict[str, float]) -> None:
    for metric, program, quantities in rules["derived"]:
        if metric in known:
            continue
        for name in quantities:
            if name not in known:
                break
        else:
            value = evaluate_formula(program, known)
            if value is not None:
                known[metric] = value


def _add_roofline_floor(known: dict[str, float]) -> None:
    measured = known.get("kernel_us")
    if not measured or "attainable_speedup" in known:
        return
    roof = None if "floor_us" in known else binding_roof(known)
    floor = roof.floor_us if roof else known.get("floor_us")
    if floor and math.isfinite(floor) and math.isfinite(measured / floor):
        known["floor_us"] = floor
        known["attainable_speedup"] = measured / floor


def binding_roof(known: Mapping[str, float]) -> Roof | None:
    """Return the roof that limits a kernel with these metrics; None if no roof is known."""
    return highest_roof(
        roofs(
            algorithmic_bytes=known.get("algorithmic_bytes")
            if _is_read_from_memory(known)
            else None,
            bandwidth_gbps=_achievable_bandwidth_gbps(known),
            flops=known.get("algorithmic_flop_count"),
            peak_tflops=known.get("device.peak_tflops"),
            launch_floor_us=known.get("launch_floor_us"),
        )
    )


def _is_read_from_memory(known: Mapping[str, float]) -> bool:
    """Return whether the data must come from DRAM; False if L2 may hold the working set."""
    ratio = known.get("cache_ratio")
    if ratio is None and "device.l2_bytes" in known and "algorithmic_bytes" in known:
        ratio = known["algorithmic_bytes"] / known["device.l2_bytes"]
    return comes_from_memory(ratio)


def _achievable_bandwidth_gbps(known: Mapping[str, float]) -> float | None:
    """Return the copy bandwidth in GB/s: measured, else from the data sheet, else None."""
    if "copy_peak_gbps" in known:
        return known["copy_peak_gbps"]
    if "device.dram_gbps" in known:
        return known["device.dram_gbps"] * known["device.achievable_dram_share"]
    return None


def evaluate_formula(program: Sequence[str | float], known: Mapping[str, float]) -> float | None:
    """Return the value of a formula; None if a quantity is unknown or the value is not finite.

    Args:
        program: As ``kernelkb.model.entries.quantities.parse_formula`` returns it.
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
    from kernelkb.device_math.occupancy import wave_loss  # few calls need it

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
