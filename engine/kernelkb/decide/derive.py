"""Computes derived metrics from measured metrics and device facts; unknown if an input is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kernelkb.decide.device_facts import derive_residency_metrics
from kernelkb.device_math.roofline import (
    Mix,
    Roof,
    comes_from_memory,
    find_mix_ceiling,
    highest_roof,
    list_own_rates,
    roofs,
    time_mix,
)

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.model.answers.recommendation import Ceiling


def complete_metrics(
    rules: CompiledRules, measured: Mapping[str, float], device: str | None
) -> dict[str, float]:
    """Return the metrics with device facts, the roofline floor and all derived metrics added.

    A metric that was measured is never replaced by a derived one. Values that are not finite
    count as not measured.
    """
    known = {name: value for name, value in measured.items() if math.isfinite(value)}
    known.setdefault("product_name", 0.0)  # no name says so
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


NEAR_FLOOR = 1.5
"""Time over that at the ceiling up to which a kernel is near its floor."""
_SCATTERED_SECTORS, _SCATTERED_BYTES = 24.0, 16.0
"""Sectors of a load from which, and useful bytes of a sector up to which, each lane reads a sector
of its own (32 are all lanes of one word)."""
_STAYS_IN_L2 = 0.95
"""L2 hit rate from which the working set is taken to be in L2 (chosen)."""
_SPREAD = 2.0
"""Concentration of atomics up to which their addresses are spread (1 is evenly)."""


def find_nearest_ceiling(
    rules: CompiledRules, known: Mapping[str, float], us: float, device: str | None
) -> Ceiling | None:
    """Return the ceiling that a kernel comes closest to; None without one.

    Those of L2 end no work, so they are told only of kernels that are near no other.

    Args:
        rules: The compiled rules, with the ceilings that are shipped.
        known: Measured and derived metrics, and rates that were measured on this machine.
        us: Time of the kernel.
        device: Id of the GPU; None if unknown.
    """
    rates, source = list_rates(rules, known, device)
    found = [_find_memory_ceiling(known, us, rates, source)]
    if (tensor := known.get("tensor_utilization")) is not None:
        says = "its counter's own peak"
        found.append(_make_ceiling("tensor", 1.0, tensor, None, ("assumed", says)))
    if empty := rates.get("profiled_empty_us"):
        found.append(_make_ceiling("launch", 1.0, empty / us, None, source))
    nearest = max((one for one in found if one), key=lambda one: one["reached"], default=None)
    if nearest is None or nearest["reached"] * NEAR_FLOOR < 1:
        return _find_l2_ceiling(known, us, rates, source) or nearest
    return nearest


_Source = tuple[Literal["measured", "shipped", "assumed"], str]
_TENSOR_FIELDS = {
    "tensor_tf32_rate": "tf32_tensor_tflops",
    "tensor_fp16_rate": "fp16_tensor_tflops",
    "tensor_fp8_rate": "fp8_tensor_tflops",
}
"""Fields of a device in the catalogue; those of tensor cores were not measured on any GPU."""


def list_rates(
    rules: CompiledRules, known: Mapping[str, float], device: str | None
) -> tuple[dict[str, Any], _Source]:
    """Return the ceilings of a GPU for ``device_math.roofline.time_mix``, and where they are from.

    Those that were measured on this machine, else those that are shipped, else a share of the data
    sheet. The rates of tensor cores are always such a share.

    Args:
        rules: The compiled rules.
        known: Metrics with facts of the device, and rates that were measured on this machine.
        device: Id of the GPU; None if unknown.
    """
    fields = rules["hardware"]["devices"].get(device or "", {})
    shipped, own = fields.get("ceilings") or {}, list_own_rates(known)
    is_own = "mix_gbps" in own  # without an own measurement the metric below is assumed
    rates = dict(own if is_own else shipped)
    if is_own and "profiled_empty_us" in known:
        rates["profiled_empty_us"] = known["profiled_empty_us"]
    source = _name_source(shipped, is_own=is_own)
    if not rates.get("mix_gbps") and "device.dram_gbps" in known:
        part = known["device.achievable_dram_share"]
        rates["mix_gbps"] = [[1.0, known["device.dram_gbps"] * part]]
        source = "assumed", f"assumed: {part:.0%} of the data sheet"
    for rate, name in _TENSOR_FIELDS.items():
        if tflops := fields.get(name):
            rates[rate] = tflops * 1e3 * fields["achievable_tensor_share"]
    return rates, source


def _find_memory_ceiling(
    known: Mapping[str, float], us: float, rates: Mapping[str, Any], source: _Source
) -> Ceiling | None:
    read, written = known.get("dram_read_bytes"), known.get("dram_write_bytes")
    if read is None or written is None or read + written <= 0:
        return None
    rate = next(part.rate for part in time_mix(rates, Mix(read_bytes=read, write_bytes=written)))
    if rate is None:
        return None
    moved = read + written
    return _make_ceiling("memory", rate, moved / us / 1e3 / rate, read / moved, source)


def _find_l2_ceiling(
    known: Mapping[str, float], us: float, rates: Mapping[str, Any], source: _Source
) -> Ceiling | None:
    """Return the ceiling of L2 for the pattern that counters tell; None where it was not measured.

    A working set whose size is not known has the ceiling of the smallest that was measured.
    """
    names = ("plain_read_sector_count", "plain_write_sector_count", "l2_hit_rate")
    if any(name not in known for name in names) or known["l2_hit_rate"] < _STAYS_IN_L2:
        return None
    read, written = (known[name] * 32 for name in names[:2])
    sectors, useful = (
        known.get("sectors_per_load", 0.0),
        known.get("sector_load_useful_bytes", 32.0),
    )
    is_scattered = sectors >= _SCATTERED_SECTORS and useful <= _SCATTERED_BYTES
    if is_scattered and rates.get("random_gbps"):
        told, mix = "a sector a lane", Mix(random_bytes=read, l2_write_bytes=written)
    elif rates.get("l2_mix_gbps") and not is_scattered:
        told, mix = "streamed", Mix(l2_read_bytes=read, l2_write_bytes=written)
    else:
        return None
    if rates.get("atomic_rates") and 0 < known.get("atomic_concentration", 0.0) <= _SPREAD:
        counts = ("l2_reduction_sector_count", "l2_atomic_sector_count")
        spread = max(words for words, _ in rates["atomic_rates"])
        count = sum(known.get(name, 0.0) for name in counts)
        mix = mix._replace(atomics=count, atomic_words=spread)
    ceiling = find_mix_ceiling(rates, mix)
    if ceiling is None or ceiling.us is None or ceiling.rate is None:
        return None
    told = "additions a ns, spread" if ceiling.resource == "atomics" else f"GB/s, {told}"
    says = f"{told}; {source[1]}"
    return _make_ceiling("l2", ceiling.rate, ceiling.us / us, None, (source[0], says))


def _name_source(shipped: Mapping[str, Any], *, is_own: bool) -> _Source:
    if is_own or not shipped:
        return "measured", "kb env --measure here"
    return "shipped", f"kb env --measure, {shipped['gpu']}, {shipped['measured_on']}"


def _make_ceiling(
    resource: Literal["memory", "tensor", "launch", "l2"],
    rate: float,
    reached: float,
    read_share: float | None,
    source: _Source,
) -> Ceiling | None:
    """Return the ceiling with how much of it is reached; None where that is beyond all numbers."""
    if not math.isfinite(reached):
        return None
    return {
        "resource": resource,
        "rate": round(rate, 1),
        "reached": round(reached, 4),
        "read_share": None if read_share is None else round(read_share, 4),
        "source": source[0],
        "says": source[1],
    }
