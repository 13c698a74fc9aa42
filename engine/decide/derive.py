"""Computes derived metrics from measured metrics and device facts; unknown if an input is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelkb.decide.residency import derive_residency_metrics

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.device_math.roofline import Roof


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
    for metric, op, operands, quantities in rules["derived"]:
        if metric in known:
            continue
        for name in quantities:
            if name not in known:
                break
        else:
            value = _compute_finite(op, [known[o] if isinstance(o, str) else o for o in operands])
            if value is not None:
                known[metric] = value


def _compute_finite(op: str, values: list[float]) -> float | None:
    try:
        value = _apply_operation(op, values)
    except OverflowError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _apply_operation(op: str, values: list[float]) -> float | None:
    match op:
        case "quotient":
            return values[0] / values[1] if values[1] else None
        case "difference":
            return values[0] - values[1]
        case "product":
            return math.prod(values)
        case "sum":
            return math.fsum(values)
        case "max":
            return max(values)
        case "min":
            return min(values)
        case "remainder":
            return math.fmod(values[0], values[1]) if values[1] else None
        case "ceil-quotient":
            return float(math.ceil(values[0] / values[1])) if values[1] else None
        case "latency-hiding":
            return hidden_latency(*values)
        case "wave-loss":
            from kernelkb.device_math.waves import wave_loss

            return wave_loss(values[0])
    raise AssertionError(f"operation {op!r} is not one of model.metric.Derivation")


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
    from kernelkb.device_math.roofline import highest_roof, roofs

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
    from kernelkb.device_math.roofline import comes_from_memory

    return comes_from_memory(ratio)


def _achievable_bandwidth_gbps(known: Mapping[str, float]) -> float | None:
    """Return the copy bandwidth in GB/s: measured, else from the data sheet, else None."""
    if "copy_peak_gbps" in known:
        return known["copy_peak_gbps"]
    if "device.dram_gbps" in known:
        return known["device.dram_gbps"] * known["device.achievable_dram_share"]
    return None
