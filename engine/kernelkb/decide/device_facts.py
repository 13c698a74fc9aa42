"""Computes the facts of a GPU that conditions may name, listed or described by its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules

_ACHIEVABLE_SHARES = {"achievable_dram_share": 0.9, "achievable_tensor_share": 0.8}
"""Of a GPU that is described on the command line, as for unmeasured ones in devices.yaml."""


def compute_device_facts(
    fields: Mapping[str, Any], architecture: Mapping[str, Any]
) -> dict[str, float]:
    """Return the value of each ``device.<fact>`` of a GPU; what its fields leave open is left out.

    Args:
        fields: Those of ``kernelkb.model.entries.device.Device``; None is unknown.
        architecture: The fields of ``kernelkb.model.entries.device.Architecture``.
    """
    peaks = [
        fields[name]
        for name in ("fp32_tflops", "fp16_tensor_tflops", "fp8_tensor_tflops")
        if fields.get(name)
    ]
    dram, fp32 = fields.get("dram_gbps"), fields.get("fp32_tflops")
    l2, fp16 = fields.get("l2_mb"), fields.get("fp16_tensor_tflops")
    facts = {
        "cc": float(fields["cc"]),
        "sm_count": fields.get("sm_count"),
        "sm_clock_mhz": fields.get("sm_clock_mhz"),
        "l2_bytes": l2 and l2 * 2**20,
        "dram_gbps": dram,
        "achievable_dram_share": fields["achievable_dram_share"],
        "fp32_tflops": fp32,
        "fp16_tensor_tflops": fp16,
        "fp64_tflops": fields.get("fp64_tflops"),
        "peak_tflops": max(peaks, default=None),
        "ridge_fp32": fp32 * 1e3 / dram if fp32 and dram else None,
        "tensor_flop_us": fp16 and fp16 * 1e6 * fields["achievable_tensor_share"],
        "dram_bytes_us": dram and dram * fields["achievable_dram_share"] * 1e3,
        "max_threads_sm": architecture["max_threads_sm"],
        "max_blocks_sm": architecture["max_blocks_sm"],
    }
    return {name: value for name, value in facts.items() if value is not None}


def describe_gpu(
    rules: CompiledRules, cc: str, device: str | None, given: Mapping[str, float]
) -> dict[str, Any]:
    """Return the fields of a GPU that its user describes; see ``model.entries.device.Device``.

    A peak that is not given follows from SMs, clock and the units of the architecture, if known.

    Args:
        rules: The compiled rules, with the catalogue.
        cc: Compute capability, such as ``10.3``.
        device: Id of the listed GPU whose numbers count where none is given; None: no such GPU.
        given: Numbers by field.
    """
    arch = rules["hardware"]["architectures"][cc]
    name = f"sm_{cc.replace('.', '')}"
    listed = rules["hardware"]["devices"][device] if device else {}
    base = {"id": name, "title": name, "cc": cc, **_ACHIEVABLE_SHARES, **listed}
    fields = {**base, **given}
    if device is None:
        computed = _compute_peaks(arch, fields)
        fields = {**computed, **fields, "title": _make_title(name, given)}
    return fields


def add_described_gpu(rules: CompiledRules, fields: Mapping[str, Any]) -> tuple[CompiledRules, str]:
    """Return the rules with one GPU more or replaced, and its id."""
    device = str(fields["id"])
    arch = rules["hardware"]["architectures"][fields["cc"]]
    hardware = rules["hardware"]
    changed = {
        **rules,
        "devices": {**rules["devices"], device: compute_device_facts(fields, arch)},
        "hardware": {**hardware, "devices": {**hardware["devices"], device: dict(fields)}},
    }
    return changed, device  # type: ignore[return-value]  # the same keys, two of them replaced


def _compute_peaks(arch: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, float]:
    count, clock = fields.get("sm_count"), fields.get("sm_clock_mhz")
    if not count or not clock:
        return {}
    units = {
        "fp32_tflops": arch["fp32_lanes"],
        "fp64_tflops": arch["fp64_lanes"],
        "fp16_tensor_tflops": arch["tc_fp16_fma"],
    }
    return {name: count * n * 2 * clock / 1e6 for name, n in units.items() if n}


def _make_title(name: str, given: Mapping[str, float]) -> str:
    count = given.get("sm_count")
    return f"a GPU of {name} with {count:.0f} SMs" if count else f"a GPU of {name}"
