"""Models a kernel's time from its counters: roofs, latency and launch; and what a change gives.

Each resource is used for a share of the time, at its practical peak. The largest share of a group
stands for the group, since its members carry the same traffic; groups overlap almost entirely (a
4-norm), and what they do not explain is latency, which overlaps with them in part (a 2-norm):

    time = launch + sqrt(roofs² + latency²)        roofs = (memory⁴ + l1⁴ + compute⁴)^(1/4)

All are shares of the measured time, so the model reproduces that time exactly. A change scales the
work of resources, fills idle SMs, adds warps in flight or removes reasons to wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kernelkb.decide.rules import TimeModelRow

_ROOF_EXPONENT = 4.0
LATENCY_EXPONENT = 2.0
MIN_FILL = 0.001
"""Smallest share of the time in which an SM has work: one block of a grid on a large GPU."""
MIN_TIME = 0.001
"""Smallest share of the time that a change leaves; 0 would be a kernel without duration."""
_USUAL_CLOCK = 0.85
"""Share of the highest clock at which a kernel usually runs: tensor cores lower it to 0.87. Below,
the profiler held the clock (``--clock-control base``: 0.80 on an H100)."""
_MIN_CLOCK = 0.25
"""Smallest share of the highest clock that is believed; a T4 is held at 0.37, a T400 at 0.29."""
GPU_WIDE = ("memory", "blocks")
"""Groups that serve all SMs together."""
_BLOCK_CYCLES = {9.0: 1.19}
"""By compute capability, cycles of a GPU between two blocks that begin, at least: what six kernels
with blocks of 32 to 128 threads reach on an H100 and an H200 (1.19 to 1.24). Others: not known."""
L1_CYCLES, L2_CYCLES = 40.0, 260.0
"""Of a load that hits; used where the architecture was not measured (H100: 41 and 263)."""
_MAX_USE = 1000.0
"""Largest use of a resource that is taken as given; more cannot have been measured."""


class KernelTime(NamedTuple):
    """Where the time of a launch goes, as shares of it."""

    use: dict[str, float]
    """By resource: its share of the time at its practical peak; on the SMs, over all of them."""
    groups: dict[str, list[str]]
    """Resources by group: ``memory`` serves all SMs; the others are on each SM."""
    fill: float
    """Mean share of the time in which an SM has work."""
    launch: float
    """Share of an empty kernel's time."""
    latency: float
    """What the roofs do not explain."""
    warps: float | None
    """Warps in flight on the whole GPU."""
    waits: dict[str, float]
    """By reason to wait, the share of a warp's latency."""
    follows: dict[str, str]
    """By reason, the resource whose work its waiting is proportional to, or ``others``."""


class Change(NamedTuple):
    """What a fix changes. Every factor is new ÷ old."""

    work: dict[str, float]
    """By resource, the factor on its work."""
    added: dict[str, float]
    """By resource, use that the change adds, as a share of the present time."""
    waits: dict[str, float]
    """By stall reason, the share of its waiting that stays."""
    latency: float = 1.0
    """Factor on the latency, besides that of warps and waits."""
    fill: float | None = None
    """New share of the time in which an SM has work; None: as it is."""
    warps: float | None = None
    """New number of warps in flight; None: as it is."""


NO_CHANGE = Change({}, {}, {})


class RingAfter(NamedTuple):
    """A ring of stages in shared memory after a change."""

    before: float
    """Stages now."""
    stages: float
    stage_bytes: float
    """Of one stage; 0: not known."""
    blocks: float
    """On an SM, at a time; at least 1."""


class LaunchMove(NamedTuple):
    """How another launch of the same work differs from the measured one; factors are new ÷ old."""

    warps: float = 1.0
    """Mean warps on an SM."""
    busy: float = 1.0
    """Share of the time in which a mean SM has a block."""
    width: float = 1.0
    """Bytes a lane of a global access."""
    unrolled: float = 1.0
    """Independent loads that a warp has in flight."""
    spilled: float = 0.0
    """Warp instructions to local memory that come, as a share of all instructions; below 0: all
    that there are now go."""
    missed: float = 0.0
    """Share of those that come that miss L1, 0 to 1."""
    hits: float = 1.0
    """L1 hits that stay."""
    lane_bytes: float = 4.0
    """Bytes of an access of a lane after the change, where ``width`` is not 1."""
    apart: bool = False
    """Lanes of narrower accesses are as far apart as before, and leave gaps between them."""
    is_evicted: bool = False
    """L1 loses what such loads read before the next one reads it."""
    threads: float = 1.0
    """All threads of the grid."""
    blocks: float = 1.0
    """Blocks of the grid."""
    in_flight: float = 1.0
    """Independent loads of a warp after the change, where ``unrolled`` is not 1."""
    queued: float = 1.0
    """Share of the waiting beyond the latency of loads without load that is a queue, 0 to 1."""
    is_stuck: bool = False
    """What loads wait beyond their latency stays, where the change shortens their waiting."""
    followed: float | None = None
    """How far instructions that are no accesses follow the width, 0 to 1; None: as is likely."""
    ring: RingAfter | None = None
    """Of a launch whose stages change."""


class MoveTime(NamedTuple):
    """The predicted time of another launch; shares of the time now."""

    time: float
    low: float
    """What it can be at best, where counters cannot tell; at most ``time``."""
    high: float
    """At worst; at least ``time``."""


def build_kernel_time(row: TimeModelRow, known: Mapping[str, float]) -> KernelTime | None:
    """Return where the time of a launch goes; None without a resource of memory and one of the SMs.

    Args:
        row: The resources, with their practical peaks.
        known: Measured and derived metrics.
    """
    use: dict[str, float] = {}
    groups: dict[str, list[str]] = {}
    for resource in row["resources"]:
        value, peak = known.get(resource["use"]), resource["peak"]
        limit = known.get(peak) if isinstance(peak, str) else peak
        if value is not None and limit:
            use[resource["id"]] = min(_MAX_USE, max(0.0, value / limit))
            groups.setdefault(resource["group"], []).append(resource["id"])
    if "memory" not in groups or len(groups) < 2:
        return None
    fill = min(1.0, max(MIN_FILL, known.get(row["fill"]) or 1.0))
    duration, empty = known.get(row["duration"]), known.get(row["empty_kernel"], row["empty_us"])
    launch = min(empty / duration, 0.5) if duration else 0.0
    roofs = combine_roofs(sum_groups(use, groups, fill))
    if roofs > 1 - launch:
        use = {name: value * (1 - launch) / roofs for name, value in use.items()}
        roofs = 1 - launch
    latency = max(0.0, (1 - launch) ** LATENCY_EXPONENT - roofs**LATENCY_EXPONENT)
    waits = {name: known[m] for name, (m, _) in row["waits"].items() if m and m in known}
    follows = {name: target for name, (_, target) in row["waits"].items() if target}
    warps = known.get(row["warps"])
    now = KernelTime(
        use, groups, fill, launch, latency ** (1 / LATENCY_EXPONENT), warps or None, waits, follows
    )
    clock = find_held_clock(row, known)
    return now if clock is None else restore_clock(now, clock)


def add_block_starts(now: KernelTime, known: Mapping[str, float]) -> KernelTime:
    """Return where the time goes, with the starts of blocks as a resource, where they count."""
    cycles, least = known.get("sm_elapsed_cycles"), _BLOCK_CYCLES.get(known.get("device.cc", 0.0))
    if not cycles or least is None or not known.get("grid_block_count"):
        return now
    share = min(1 - now.launch, known["grid_block_count"] * least / cycles)
    use, groups = {**now.use, "block-starts": share}, {**now.groups, "blocks": ["block-starts"]}
    roofs = combine_roofs(sum_groups(use, groups, now.fill))
    if roofs > 1 - now.launch:
        use = {name: value * (1 - now.launch) / roofs for name, value in use.items()}
        roofs = 1 - now.launch
    left = (1 - now.launch) ** LATENCY_EXPONENT - roofs**LATENCY_EXPONENT
    latency = max(0.0, left) ** (1 / LATENCY_EXPONENT)
    return now._replace(use=use, groups=groups, latency=latency)


def compare_unloaded(known: Mapping[str, float]) -> float:
    """Return what all loads would wait, each alone and without load, ÷ the measured waiting.

    Below 1 the rest is a queue; above 1 loads wait together. 1 where it is not known.
    """
    names = ("stall_long_scoreboard_cycles", "instruction_count", "load_request_count")
    if any(not known.get(name) for name in names):
        return 1.0
    waited, count, loads = (known[name] for name in names)
    l1 = min(1.0, max(0.0, known.get("l1_hit_rate", 0.0)))
    alone = l1 * known.get("device.l1_cycles", L1_CYCLES) + (1 - l1) * find_tile_latency(known)
    return alone * loads / (waited * count)


def find_tile_latency(known: Mapping[str, float]) -> float:
    """Return the cycles of a load that misses L1, without load on."""
    hit = min(1.0, max(0.0, known.get("l2_hit_rate", 0.0)))
    cycles = known.get("device.l2_cycles", L2_CYCLES), known.get("device.dram_cycles", 480.0)
    return hit * cycles[0] + (1 - hit) * cycles[1]


def find_held_clock(row: TimeModelRow, known: Mapping[str, float]) -> float | None:
    """Return the SM clock as a share of the highest where a profiler held it; else None."""
    clock = known.get(row["clock"], 1.0)
    return clock if _MIN_CLOCK <= clock < _USUAL_CLOCK else None


def restore_clock(now: KernelTime, clock: float) -> KernelTime:
    """Return where the time goes at the usual clock, from a profile at a share of it.

    Work on the SMs then takes less time, half of the latency does, and memory, L2 and the launch
    take as long as before.
    """
    use = dict(now.use)
    for group, names in now.groups.items():
        if group != "memory":
            use.update({name: use[name] * clock for name in names})
    usual = now._replace(use=use, latency=now.latency * (1 + clock) / 2)
    total = predict_time(usual, NO_CHANGE)
    return usual._replace(
        use={name: value / total for name, value in use.items()},
        latency=usual.latency / total,
        launch=now.launch / total,
    )


def sum_groups(
    use: Mapping[str, float], groups: Mapping[str, list[str]], fill: float
) -> dict[str, float]:
    """Return each group's share of the time: that of its busiest resource, on the filled SMs."""
    return {
        group: max(use[name] for name in names) / (1.0 if group in GPU_WIDE else fill)
        for group, names in groups.items()
    }


def combine_roofs(shares: Mapping[str, float]) -> float:
    """Return the share of the time that the roofs explain together."""
    return _compute_norm(list(shares.values()), _ROOF_EXPONENT)


def _compute_norm(values: Sequence[float], exponent: float) -> float:
    """Return the norm of an exponent, scaled by the largest value, so that no power overflows."""
    largest = max(values, default=0.0)
    if largest == 0:
        return 0.0
    total: float = sum((value / largest) ** exponent for value in values)
    return largest * float(total ** (1 / exponent))


def predict_time(now: KernelTime, change: Change) -> float:
    """Return the time after a change, as a share of the time before it."""
    use = {
        name: value * change.work.get(name, 1.0) + change.added.get(name, 0.0)
        for name, value in now.use.items()
    }
    fill = now.fill if change.fill is None else max(change.fill, now.fill)
    roofs = combine_roofs(sum_groups(use, now.groups, fill))
    latency = now.latency * compute_latency_factor(now, change)
    return max(now.launch + _compute_norm([roofs, latency], LATENCY_EXPONENT), MIN_TIME)


def compute_latency_factor(now: KernelTime, change: Change) -> float:
    """Return the factor on the latency: fewer reasons to wait, and more warps that wait at once.

    A reason shrinks with the work that it follows. Warps at a barrier wait for warps that wait for
    the other reasons, so that waiting shrinks as those do.
    """
    kept: dict[str, float] = {}
    for name, share in now.waits.items():
        target = now.follows.get(name)
        if target != "others":
            work = min(1.0, change.work.get(target, 1.0)) if target else 1.0
            kept[name] = share * change.waits.get(name, 1.0) * work
    before = sum(share for name, share in now.waits.items() if name in kept)
    mean = sum(kept.values()) / before if before else 1.0
    after = sum(kept.values()) + sum(
        share * change.waits.get(name, 1.0) * min(1.0, mean)
        for name, share in now.waits.items()
        if name not in kept
    )
    known = sum(now.waits.values())
    more_warps = 1.0
    if change.warps and now.warps and change.warps > now.warps:
        more_warps = now.warps / change.warps
    return max(0.0, min(1.0, after + max(0.0, 1 - known))) * more_warps * change.latency


def split_time(now: KernelTime) -> dict[str, float]:
    """Return the time by cause, as shares that sum to 1.

    ``launch``; ``fill``: SMs without work; each group of resources; each reason to wait;
    ``unexplained``: latency without a counter for its reason.
    """
    shares = {"launch": now.launch, "fill": (1 - now.fill) * (1 - now.launch)}
    busy = 1 - sum(shares.values())
    groups = sum_groups(now.use, now.groups, now.fill)
    roofs = combine_roofs(groups)
    both = roofs**LATENCY_EXPONENT + now.latency**LATENCY_EXPONENT
    explained = busy * roofs**LATENCY_EXPONENT / both if both else 0.0
    for group, share in groups.items():
        part = (share / roofs) ** _ROOF_EXPONENT if roofs else 0.0
        shares[group] = explained * part
    waiting = busy - explained
    known = min(1.0, sum(now.waits.values()))
    scale = known / sum(now.waits.values()) if known else 0.0
    for name, share in now.waits.items():
        shares[name] = waiting * share * scale
    shares["unexplained"] = waiting * (1 - known)
    return shares
