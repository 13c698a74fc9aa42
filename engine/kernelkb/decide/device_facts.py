"""Computes the facts of a GPU, and the blocks per SM, occupancy and waves of a launch on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, HardwareTables
    from kernelkb.device_math.occupancy import Launch, Limits

_ACHIEVABLE_SHARES = {"achievable_dram_share": 0.9, "achievable_tensor_share": 0.8}
"""Of a GPU that is described on the command line, as for unmeasured ones in devices.yaml."""


def compute_device_facts(
    fields: Mapping[str, Any], architecture: Mapping[str, Any]
) -> dict[str, float]:
    """Return the value of each ``device.<fact>`` of a GPU; what its fields leave open is left out.

    Args:
        fields: Those of ``kernelkb.model.entries.quantities.Device``; None is unknown.
        architecture: The fields of ``kernelkb.model.entries.quantities.Architecture``.
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


# The calculators are imported only if the launch is known: most calls give only a few metrics.


def build_limits(hardware: HardwareTables, cc: str) -> Limits:
    """Return the limits of an architecture, given its compute capability, such as ``9.0``."""
    from kernelkb.device_math.occupancy import Limits

    common, own = hardware["common"], hardware["architectures"][cc]
    return Limits(
        warp=common["warp"],
        partitions=common["subpartitions"],
        threads=own["max_threads_sm"],
        threads_block=common["max_threads_block"],
        blocks=own["max_blocks_sm"],
        registers=common["regs_sm"],
        registers_block=common["regs_block"],
        registers_thread=common["regs_thread_max"],
        register_unit=common["reg_alloc_unit_per_warp"],
        shared=own["smem_sm"],
        shared_opt_in=own["smem_optin_block"],
        shared_static=common["static_smem_block"],
        shared_reserved=own["smem_reserved_block"],
        shared_unit=own["smem_gran"],
        carveouts=tuple(size * 1024 for size in own["carveouts_kb"]),
        barriers=own["barriers_sm"],
        barriers_block=common["barriers_block"],
    )


def derive_residency_metrics(
    rules: CompiledRules, known: Mapping[str, float], device: str | None
) -> Iterator[tuple[str, float]]:
    """Yield (metric, value) for the blocks per SM, occupancy and waves of a launch on a known GPU.

    Nothing is yielded without block size and registers. If the shared memory of a block is
    unknown, only the limits by warps, block slots and registers are.
    """
    launch = _build_launch(known)
    if device is None or launch is None:
        return
    from kernelkb.device_math.occupancy import occupancy, waves

    facts = rules["hardware"]["devices"][device]
    limits = build_limits(rules["hardware"], facts["cc"])
    if launch.threads > limits.threads_block:
        return
    found = occupancy(limits, launch)
    yield "limit_warps_block_count", float(found.limits.warps)
    yield "limit_blocks_block_count", float(found.limits.blocks)
    if found.limits.registers is not None:
        yield "limit_registers_block_count", float(found.limits.registers)
    if not _is_shared_memory_known(known):
        return
    room = found.limits.shared_memory
    shared = limits.blocks if room is None else min(room, limits.blocks)
    yield "limit_shared_memory_block_count", float(shared)
    yield "theoretical_occupancy", found.share
    grid, count = known.get("grid_block_count"), facts.get("sm_count")
    filled = waves(int(grid), found.blocks, count) if grid and count else None
    if filled:
        yield "waves", filled.waves


def describe_next_step(
    rules: CompiledRules, known: Mapping[str, float], device: str | None
) -> str | None:
    """Return the smallest change that fits one more block on an SM, as text; None if unknown."""
    launch = _build_launch(known)
    if device is None or launch is None or not _is_shared_memory_known(known):
        return None
    from kernelkb.device_math.occupancy import one_more_block

    step = one_more_block(
        build_limits(rules["hardware"], _compute_capability(rules, device)), launch
    )
    if step is None:
        return None
    changes = " and ".join(
        f"{change.field.replace('_', ' ')} {change.now} -> {change.to}" for change in step.changes
    )
    found = step.occupancy
    return f"{changes} makes room for {found.blocks} blocks an SM, occupancy {found.share:.3g}"


def _compute_capability(rules: CompiledRules, device: str) -> str:
    return str(rules["hardware"]["devices"][device]["cc"])


def _build_launch(known: Mapping[str, float]) -> Launch | None:
    threads, registers = known.get("block_thread_count", 0), known.get("register_count", 0)
    if threads < 1 or registers < 1:
        return None
    from kernelkb.device_math.occupancy import Launch

    return Launch(
        threads=int(threads),
        registers=int(registers),
        static_bytes=int(known.get("static_shared_bytes", 0)),
        dynamic_bytes=int(known.get("dynamic_shared_bytes", 0)),
    )


def _is_shared_memory_known(known: Mapping[str, float]) -> bool:
    return "static_shared_bytes" in known and "dynamic_shared_bytes" in known
