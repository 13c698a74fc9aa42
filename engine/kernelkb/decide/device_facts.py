"""Computes the facts of a GPU, and what a launch has on it, or would have after a change.

That is blocks per SM, occupancy, waves, what is left of L1, and the time of the changed launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelkb.decide.parse_metric import (
    ChangedShape,
    LaunchShape,
    describe_clusters,
    find_cluster_share,
    parse_launch_changes,
)
from kernelkb.errors import BadValueError

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, HardwareTables
    from kernelkb.decide.time_model import KernelTime, LaunchMove, RingAfter
    from kernelkb.device_math.occupancy import Launch, Limits, Occupancy, Residency

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
        "fewest_sm_count": architecture.get("fewest_sms"),
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
    if filled and grid and count:
        yield from _double_blocks(limits, launch, found, int(grid), count)


def _double_blocks(
    limits: Limits, launch: Launch, now: Occupancy, grid: int, sm_count: int
) -> Iterator[tuple[str, float]]:
    """Yield the registers with which twice the blocks fit, or all else allows, and their warps."""
    from kernelkb.device_math.occupancy import describe_residency, registers_for_blocks

    others = now.limits._replace(registers=None)
    fits = min(limit for limit in others if limit is not None)
    registers = registers_for_blocks(limits, launch.threads, min(2 * now.blocks, fits))
    if now.blocks >= fits or not registers or registers >= launch.registers:
        return
    held = describe_residency(limits, launch, grid, sm_count)
    then = describe_residency(limits, launch._replace(registers=registers), grid, sm_count)
    yield "doubled_block_register_count", float(registers)
    yield "doubled_block_warp_ratio", then.warps / held.warps


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


_ABOUT = 0.05
"""Share below which a difference counts as none."""
_EVEN = 0.8
"""Share of the time in which equal blocks would keep SMs busy, below which the blocks' work counts
as uneven (chosen; 10 of 550 recorded launches are below)."""
_OWN_REGISTERS = 2
"""Registers that a thread has besides those that are live at once (of 40 kernels: 2 to 4)."""
_LIKELY_SPILLS = (0.0, 1.0, 2.5)
"""Instructions that spills added ÷ those that access the least used registers: none where the
compiler finds another order; 0.4 to 2.4 were seen."""
_USUAL_L1 = 128 * 1024
"""Bytes of L1 and shared memory of an SM whose architecture is not described."""
_CODE_UNKNOWN = (0.0, 0.5, 1.5)
"""The same ÷ the share of the registers that go, where the code is not known; 0.2 to 1.5 seen."""


class Pressure(NamedTuple):
    """What a launch's code needs of registers."""

    live: int
    """General registers that are live at once, at most."""
    accesses: tuple[float, ...]
    """Of the executed instructions, the share that accesses each register, ascending."""


class SmFacts(NamedTuple):
    """What a change of a launch needs to know of its GPU."""

    limits: Limits
    sm_count: int
    l1_bytes: int | None
    """L1 and shared memory of an SM together; None: unknown."""
    cycles: dict[str, float]
    """Latency of a load, by the metric's id."""


def predict_launch_change(
    rules: CompiledRules,
    known: Mapping[str, float],
    device: str | None,
    wanted: Mapping[str, str | float],
    pressure: Pressure | None = None,
) -> dict[str, Any]:
    """Return what a launch keeps on the SMs, before and after a change, and the predicted time.

    Args:
        rules: The compiled rules.
        known: Of the launch, completed by ``complete_metrics``.
        device: Its GPU.
        wanted: By a name of ``LAUNCH_CHANGES``, the value as typed; ``+`` or ``-`` adds.
        pressure: What its code needs of registers; None: the code is not known.

    Raises:
        UnknownNameError: No such change.
        BadValueError: A value that a launch cannot have, or the report lacks the launch.
    """
    gpu = _find_sm_facts(rules, known, device)
    now = _read_shape(known, gpu.limits)
    after = parse_launch_changes(now, known, wanted)
    before, then = _describe_both(gpu, known, now, after.shape)
    obstacles, sides = then.occupancy.obstacles, ((now, before), (after, then))
    return {
        "device": rules["hardware"]["devices"][device or ""]["title"],
        "changes": after.changes,
        "assumed": after.assumed,
        "before": _residency_to_dict(gpu, now, before),
        "after": _residency_to_dict(gpu, after.shape, then),
        "cluster": describe_clusters(known, now, after.shape, gpu.sm_count, then.occupancy.blocks),
        "registers": _describe_registers(now, after, known, pressure),
        "obstacles": list(obstacles),
        "time": None if obstacles else _predict_time(rules, known, gpu, sides, pressure),
    }


def _describe_both(
    gpu: SmFacts, known: Mapping[str, float], now: LaunchShape, after: LaunchShape
) -> tuple[Residency, Residency]:
    """Return what the launch and the changed one keep on the SMs."""
    from kernelkb.device_math.occupancy import describe_residency

    fitting = _count(known, "limit_shared_memory_block_count") or None
    before = describe_residency(gpu.limits, now.launch, now.grid, gpu.sm_count, fitting)
    if told := _count(known, "shared_carveout_bytes"):
        before = before._replace(carveout=(told, told))
    then = describe_residency(gpu.limits, after.launch, after.grid, gpu.sm_count)
    is_same = after.launch == now.launch
    return before, then._replace(carveout=before.carveout) if is_same else then


def _find_sm_facts(rules: CompiledRules, known: Mapping[str, float], device: str | None) -> SmFacts:
    if device is None or _build_launch(known) is None or not _is_shared_memory_known(known):
        raise BadValueError(
            "the report lacks the launch or its GPU; ncu --set full, or --section LaunchStats, "
            "records block, registers and shared memory"
        )
    cc = _compute_capability(rules, device)
    own = rules["hardware"]["architectures"][cc]
    count = _count(known, "sm_count") or int(known.get("device.sm_count", 0))
    if not count:
        raise BadValueError("the report does not tell the GPU's SMs; name it with --gpu")
    levels = own.get("latency") or {}
    cycles = {
        f"device.{name}_cycles": levels[name] for name in ("l1", "l2", "dram") if levels.get(name)
    }
    whole = own.get("l1_kb")
    return SmFacts(build_limits(rules["hardware"], cc), count, whole and whole * 1024, cycles)


def _read_shape(known: Mapping[str, float], limits: Limits) -> LaunchShape:
    """Return a measured launch, with barriers as far as the driver's limit tells them."""
    from kernelkb.device_math.occupancy import Launch, count_barriers

    barriers = count_barriers(limits, _count(known, "limit_barriers_block_count"))
    return LaunchShape(
        (_build_launch(known) or Launch(1, 1))._replace(barriers=barriers),
        max(1, _count(known, "grid_block_count")),
        max(1, _count(known, "cluster_block_count")),
    )


def _count(known: Mapping[str, float], name: str) -> int:
    return round(known.get(name, 0))


def _residency_to_dict(gpu: SmFacts, shape: LaunchShape, found: Residency) -> dict[str, Any]:
    from kernelkb.device_math.occupancy import register_cap

    one, waves, limits, whole = found.occupancy, found.waves, gpu.limits, gpu.l1_bytes
    low, high = found.carveout
    return {
        "threads": shape.launch.threads,
        "grid": shape.grid,
        "registers": shape.launch.registers,
        "register_cap": register_cap(limits, shape.launch.threads),
        "shared_limit": limits.shared_opt_in,
        "blocks_per_sm": one.blocks,
        "warps_per_sm": one.warps,
        "warps_max": limits.warps,
        "limits": one.limits._asdict(),
        "limited_by": list(one.limiters),
        "mean_warps_per_sm": round(found.warps, 2),
        "waves": round(waves.waves, 3) if waves else None,
        "last_wave_share": round(waves.tail_blocks / waves.slots, 3) if waves else None,
        "idle_sms": waves.idle_sms if waves else None,
        "shared_bytes": shape.launch.shared_bytes,
        "carveout_bytes": [low, high],
        "l1_bytes": [whole - high, whole - low] if whole else None,
    }


def _describe_registers(
    now: LaunchShape, then: ChangedShape, known: Mapping[str, float], pressure: Pressure | None
) -> dict[str, Any] | None:
    """Return whether fewer or more registers hold the code's values; None: as many."""
    registers, before = then.shape.launch.registers, now.launch.registers
    if registers == before:
        return None
    live = pressure.live if pressure and _keeps_code(now, then) else None
    _, likely, _ = _find_spilled(now, then, known, pressure)
    missing = max(0, live + _OWN_REGISTERS - registers) if live is not None else None
    return {
        "live": live,
        "missing": missing,
        "spills_now": round(known["spill_store_bytes"]) if "spill_store_bytes" in known else None,
        "local_instruction_share": round(likely, 4) if live is not None else None,
        "end_spills": likely < 0,
    }


def _keeps_code(now: LaunchShape, then: ChangedShape) -> bool:
    """Return whether a thread does as much as before, so that the present code tells of it."""
    count = now.launch.threads * now.grid
    return not then.ratios and abs(then.shape.launch.threads * then.shape.grid / count - 1) < _ABOUT


def _find_spilled(
    now: LaunchShape, then: ChangedShape, known: Mapping[str, float], pressure: Pressure | None
) -> tuple[float, float, float]:
    """Return the instructions to local memory that come, as a share: least, likely and most.

    Below 0: those of now go.
    """
    before, after = now.launch.registers, then.shape.launch.registers
    spills = known.get("local_instruction_share", 0.0) > _ABOUT
    if after > before and spills:
        return 0.0, -1.0, -1.0
    if after >= before or not _keeps_code(now, then):
        return 0.0, 0.0, 0.0
    if pressure is None:
        low, likely, high = (factor * (1 - after / before) for factor in _CODE_UNKNOWN)
        return low, likely, high
    missing = max(0, pressure.live + _OWN_REGISTERS - after)
    least_used = sum(pressure.accesses[:missing])
    low, likely, high = (least_used * factor for factor in _LIKELY_SPILLS)
    return low, likely, high


_Side = tuple[LaunchShape, "Residency"]
_NewSide = tuple[ChangedShape, "Residency"]


def _predict_time(
    rules: CompiledRules,
    known: Mapping[str, float],
    gpu: SmFacts,
    sides: tuple[_Side, _NewSide],
    pressure: Pressure | None,
) -> dict[str, Any] | None:
    """Return the time after ÷ the time now with its interval and reason; None: not modelled."""
    from kernelkb.decide.launch_move import OpenEnds, tell_time
    from kernelkb.decide.time_model import LaunchMove, build_kernel_time

    now = build_kernel_time(rules["time_model"], known)
    (shape, held), (changed, kept) = sides
    if now is None or not held.warps:
        return None
    known = {**known, **gpu.cycles}
    ratios, spills = changed.ratios, _find_spilled(shape, changed, known, pressure)
    left = _find_l1_left(held, kept, gpu.l1_bytes)
    after = changed.shape
    blocks = after.grid / shape.grid
    clustered = find_cluster_share(known, shape, after, gpu.sm_count, kept.occupancy.blocks)
    move = LaunchMove(
        warps=kept.warps / held.warps * clustered,
        busy=kept.busy / held.busy * clustered,
        width=ratios.get("vector", 1.0),
        unrolled=ratios.get("unroll", 1.0),
        spilled=spills[1],
        missed=_find_missed(after, kept, pressure, gpu.l1_bytes),
        threads=blocks * after.launch.threads / shape.launch.threads,
        blocks=blocks,
        lane_bytes=_find_new(changed, "vector", 4.0),
        in_flight=_find_new(changed, "unroll", 1.0),
        ring=_describe_ring(changed, min(kept.occupancy.blocks, after.grid / gpu.sm_count)),
    )
    uneven = _list_uneven(now, gpu, held, kept, move)
    return tell_time(rules, now, known, move, OpenEnds((spills[0], spills[2]), left, uneven))


def _list_uneven(
    now: KernelTime, gpu: SmFacts, before: Residency, after: Residency, move: LaunchMove
) -> tuple[LaunchMove, ...]:
    """Return the move with work that spreads evenly, and with all of it as uneven as it may be.

    SMs that have a block for less time than equal blocks would keep them busy have blocks of
    unequal work. The time in which others are idle may go, or grow as blocks do.
    """
    filled = now.fill + now.launch
    if move.blocks == 1 or filled >= _EVEN * before.busy:
        return ()
    lost = before.busy / now.fill - 1
    larger = max(1.0, 1 / move.blocks)
    resident = (now.warps or 0.0) / gpu.sm_count
    even = move._replace(
        busy=after.busy / now.fill,
        warps=max(move.warps, after.warps / resident) if resident else move.warps,
    )
    share = (1 + lost) / (1 + lost * larger)
    worst = move._replace(busy=move.busy * share, warps=move.warps * share)
    return even, worst


def _find_new(changed: ChangedShape, name: str, default: float) -> float:
    return next((float(one["to"]) for one in changed.changes if one["name"] == name), default)


def _describe_ring(changed: ChangedShape, blocks: float) -> RingAfter | None:
    """Return the ring of a launch whose stages change; None: no such change."""
    from kernelkb.decide.time_model import RingAfter

    ratio = changed.ratios.get("stages", 1.0)
    if ratio == 1:
        return None
    then, launch = _find_new(changed, "stages", 1.0), changed.shape.launch
    size = launch.dynamic_bytes or launch.static_bytes
    return RingAfter(then / ratio, then, size / then, max(1.0, blocks))


def _find_l1_left(before: Residency, after: Residency, whole: int | None) -> float:
    """Return the share of the L1 that is left at least; 1 where it does not shrink for sure."""
    if not whole or after.carveout[1] <= before.carveout[1]:
        return 1.0
    return max(0.0, (whole - after.carveout[1]) / max(1, whole - before.carveout[1]))


def _find_missed(
    shape: LaunchShape, held: Residency, pressure: Pressure | None, whole: int | None
) -> float:
    """Return the share of the values that registers do not hold that L1 does not hold either."""
    if pressure is None:
        return 0.0
    values = max(0, pressure.live + _OWN_REGISTERS - shape.launch.registers)
    needed = 4 * values * held.occupancy.blocks * shape.launch.threads
    return max(0.0, 1 - ((whole or _USUAL_L1) - held.carveout[0]) / max(1, needed))
