"""Prices another launch of the same work: fewer or more warps, wider accesses, a ring of stages.

The model of the time is that of ``kernelkb.decide.time_model``; a launch that differs moves its
parts. What the counters of one launch leave open is told as an interval, without a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelkb.decide.time_model import (
    GPU_WIDE,
    L1_CYCLES,
    L2_CYCLES,
    MIN_FILL,
    MIN_TIME,
    Change,
    KernelTime,
    LaunchMove,
    MoveTime,
    add_block_starts,
    compare_unloaded,
    find_tile_latency,
    predict_time,
    split_time,
    sum_groups,
)

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.decide.time_model import RingAfter

SAME = 0.05
"""Share by which times differ that a bench does not tell apart."""
_TOLD_ERROR = (0.1, 0.3, 0.07)
"""Of the logarithm of a time, for 4 of 5 measured changes: where nothing moves, what is added from
a tenth on, and by each unit of the logarithm (162 changes of 81 recorded pairs)."""
_HURTS_MORE = 0.3
"""Added upwards where less is in flight: such changes cost more than told rather than less."""
_QUEUES = ("lg-throttle", "mio-throttle", "tex-throttle", "math-pipe", "dispatch", "not-selected")
"""Reasons to wait that are a queue for a unit: fewer warps wait no longer for it."""
_LOADS = "long-scoreboard"
_MEETINGS = ("barrier", "sleeping")
_SPILL_STORES = 0.5
"""Share of the instructions to local memory that store; L1 passes all of those on to L2."""
_LOADED = 1.5
"""Latency of a load from memory that is in use ÷ that without load (chosen)."""
_REQUEST_SHARES = {"l2-tags": 1.0, "l2-input": 0.5, "l2-other": 0.5, "l1-output": 0.5}
"""Share of a resource's work that follows requests, not sectors (11 pairs of wider accesses)."""
_L1_SECTORS = 4.0
"""Sectors of 32 bytes that 32 lanes of one register fill."""


_SPILLS_MORE = 0.4
"""Added both ways where values may be spilled or are no more (3 of 10 went further without)."""
_FAR = 1.5
"""Worst ÷ best outcome from which no time is told: their middle is then no more than 1.22x off."""
_BUSY = 0.6
"""Share of the time from which a resource is busy (chosen)."""
_SLOW = 1 / 3
"""Latency of loads without load ÷ their waiting, below which something else holds them (chosen)."""
_LOOP_SHARE = 0.2
"""Most of the time that other unrolling gave or took where instructions bind (0.06 to 0.16)."""
_LOOP_TIME = 0.9
"""Time with at least twice the copies of such a loop's body ÷ now: 0.94, 0.91 and 0.86 of three
loops, of which any two give 0.88 to 0.92."""


def predict_move(now: KernelTime, known: Mapping[str, float], move: LaunchMove) -> MoveTime:
    """Return the time of the same work by another launch.

    Work on the SMs grows as fewer of them are busy. Waiting that warps hide grows as fewer warps
    are resident, from a load's latency without load on: what exceeds that is a queue, and stays.
    By Little's law the time is at least the warps' own time; roofs may overlap with it or not, so
    the mean of both is told, and both as bounds. Blocks begin one after another.

    Args:
        now: Where the time goes.
        known: Measured and derived metrics.
        move: How the launch differs.
    """
    now = add_block_starts(now, known)
    unloaded = 1 - move.queued * (1 - min(1.0, compare_unloaded(known)))
    work, added = _scale_work(now, known, move), _add_spills(now, known, move)
    waits = _scale_waits(now, known, move, unloaded)
    latency = _mean_wait(now, waits, move) + _find_spill_wait(now, known, move)
    for name, factor in _keep_unspilled(now, known, move).items():
        work[name] = work.get(name, 1.0) * factor
    fill = min(1.0, max(MIN_FILL, now.fill * move.busy))
    moved = now._replace(fill=fill, follows={})
    overlapped = predict_time(moved, Change(work, added, {}, latency=latency))
    ring = max(overlapped, _find_ring_time(now, known, move) or 0.0)
    least = _find_warp_time(now, known, move, unloaded)
    if least is None:
        return MoveTime(ring, ring, ring)
    if move.width < 1 < move.threads:  # more warps begin and end, which no queue hides
        least = predict_time(moved._replace(latency=least), Change(work, added, {}))
    if least <= max(1.0, ring):
        return MoveTime(ring, ring, ring)
    return MoveTime((ring * least) ** 0.5, ring, least)


def _scale_work(now: KernelTime, known: Mapping[str, float], move: LaunchMove) -> dict[str, float]:
    """Return the factor on each resource's use, as a share of the time now."""
    own = [name for group, names in now.groups.items() if group not in GPU_WIDE for name in names]
    factors = {name: _narrow_work(name, known, move) for name in own}
    factors["block-starts"] = move.blocks
    more = _fill_sectors(known, move)
    if move.hits < 1 and (hit := min(0.99, known.get("l1_hit_rate", 0.0))):
        read = known.get("load_sector_count", 0.0) * (1 - hit)
        share = min(1.0, read / max(1.0, known.get("l2_sector_count", read)))
        more *= 1 + share * ((1 - hit * move.hits) / (1 - hit) - 1)
    requests = _fill_requests(known, move)
    factors["dram"] = _fill_memory(known, move, more)
    for name in now.groups.get("memory", []):
        if name.startswith(("l2", "l1")):
            factors[name] = more * (1 + _REQUEST_SHARES.get(name, 0.0) * (requests - 1))
    return factors


def _fill_requests(known: Mapping[str, float], move: LaunchMove) -> float:
    """Return the factor on the requests for the same sectors, of which one has up to four."""
    count, sectors = (known.get(f"l2_{name}_count", 0.0) for name in ("request", "sector"))
    if move.width == 1 or not count:
        return 1.0
    now = min(_L1_SECTORS, max(1.0, sectors / count))
    wider = min(_L1_SECTORS, now * move.width)
    return now / (wider if move.width > 1 else min(now, max(1.0, move.lane_bytes)))


def _fill_sectors(known: Mapping[str, float], move: LaunchMove) -> float:
    """Return the factor on the sectors that L2 serves where wider accesses fill them.

    Lanes that are apart touch as many sectors with a wider access, and need fewer of them.
    """
    names = ("load_sector_count", "store_sector_count", "ideal_sector_count", "l2_sector_count")
    if any(name not in known for name in names) or (move.width <= 1 and not move.apart):
        return 1.0
    loads, stores, ideal, whole = (known[name] for name in names)
    if move.apart:
        misses = loads * (1 - min(1.0, max(0.0, known.get("l1_hit_rate", 0.0))))
        more = stores + (misses if move.is_evicted else 0.0)
        return 1 + min(1.0, more / max(1.0, whole)) * (1 / move.width - 1)
    kept = min(1.0, max(ideal / max(1.0, loads + stores), 1 / move.width))
    misses = loads * (1 - min(1.0, max(0.0, known.get("l1_hit_rate", 0.0))))
    saved = misses - min(misses, loads * kept) + stores * (1 - kept)
    return max(kept, 1 - saved / max(1.0, whole))


def _fill_memory(known: Mapping[str, float], move: LaunchMove, more: float) -> float:
    """Return the factor on the bytes of memory: sectors that are written in parts are read too."""
    whole = known.get("dram_read_bytes", 0.0) + known.get("dram_write_bytes", 0.0)
    if move.width <= 1 or more >= 1 or not whole:
        return 1.0
    return min(1.0, max(1 / move.width, 32 * known.get("ideal_sector_count", whole) / whole))


def _share_spread(move: LaunchMove) -> float:
    """Return 1 where threads become as many more as accesses narrower, 0 where they stay as many.

    There a thread has an access as before; here it has several, which are in flight at a time.
    """
    if move.width == 1 or move.threads <= 0:
        return 0.0
    return min(1.0, max(0.0, log(move.threads) / -log(move.width)))


def _narrow_work(name: str, known: Mapping[str, float], move: LaunchMove) -> float:
    """Return the factor on a resource's work where lanes access more or fewer bytes at once.

    Where threads stay as many, the accesses alone; where they become more, between that and all
    that is not arithmetic: the mean of both.
    """
    width = move.width
    if width == 1:
        return 1.0
    if name == "l1-requests":
        return 1 / width
    if name == "l1-wavefronts":
        return _narrow_wavefronts(known, move)
    floats = known.get({"issue": "fp_issue_share"}.get(name, "fma_float_share"), 0.0)
    if name not in ("issue", "alu", "fma", "fma-heavy"):
        return 1.0
    least = known.get("global_access_count", 0.0) / max(1.0, known.get("instruction_count", 0.0))
    of_accesses = 1 + (1 / width - 1) * min(1.0, least if name == "issue" else 0.0)
    floats = 0.0 if name == "alu" else floats
    of_all = floats + (1 - floats) / width
    share = _share_spread(move) / 2 if move.followed is None else move.followed
    return float(of_accesses ** (1 - share) * of_all**share)


def _narrow_wavefronts(known: Mapping[str, float], move: LaunchMove) -> float:
    names = ("global_wavefront_count", "global_access_count", "ideal_access_sector_count")
    if any(name not in known for name in names) or not known.get("lsu_wavefront_count"):
        return 1.0
    count, accesses, sectors = (known[name] for name in names)
    after = max(accesses / move.width, sectors / _L1_SECTORS)
    after = min(count, after) if move.width > 1 else max(count, accesses / move.width)
    after = max(after, count / move.width) if move.apart else after
    return 1 - (count - after) / max(known["lsu_wavefront_count"], count)


def _scale_waits(
    now: KernelTime, known: Mapping[str, float], move: LaunchMove, unloaded: float
) -> dict[str, float]:
    """Return the factor on the waiting for each reason: above 1 it is hidden less."""
    factors: dict[str, float] = {}
    left = _find_unspilled_wait(known, move)
    others = _narrow_work("issue", known, move)
    exposed = _find_exposed(now, move)
    for name in now.waits:
        factor = (1.0 if name == _LOADS else others) / max(move.warps, MIN_TIME)
        if name == _LOADS:
            factor *= exposed * _scale_loads(known, move) * left
            if factor > 1 and move.unrolled >= 1 and left == 1:
                factor = max(1.0, factor * unloaded)
            elif move.is_stuck and factor < 1:
                factor = 1 - min(1.0, compare_unloaded(known)) * (1 - factor)
        elif name in _MEETINGS:
            factor *= exposed
        elif name in _QUEUES:
            factor = min(1.0, factor) * (left if name == "lg-throttle" else 1.0)
        factors[name] = factor
    return factors


def _find_unspilled_wait(known: Mapping[str, float], move: LaunchMove) -> float:
    """Return the share of the waiting for loads that stays where no value is spilled any more.

    That is at most what global loads wait, each alone.
    """
    if move.spilled >= 0:
        return 1.0
    alone = _LOADED * compare_unloaded(known)
    return min(1.0, max(1 - known.get("local_sector_share", 0.0), alone))


def _scale_loads(known: Mapping[str, float], move: LaunchMove) -> float:
    """Return the factor on the waiting for loads, which is at most that of each load alone."""
    factor = float(move.width ** -((1 + _share_spread(move)) / 2)) / move.unrolled
    if move.unrolled < 1:
        alone = _LOADED * compare_unloaded(known) / max(1.0, move.in_flight)
        factor = max(1.0, min(factor, alone))
    return factor


def _find_exposed(now: KernelTime, move: LaunchMove) -> float:
    """Return the share of the waiting for tiles that more stages leave.

    While a stage is filled, the others are computed with; what a tile waits now and what is done
    with it are the parts of a warp's time.
    """
    ring = move.ring
    if ring is None or ring.stages <= ring.before:
        return 1.0
    waits = sum(now.waits.get(name, 0.0) for name in (_LOADS, *_MEETINGS))
    waits /= max(1.0, sum(now.waits.values()))
    return max(0.0, 1 - (ring.stages - ring.before) * (1 / waits - 1)) if waits > 0 else 1.0


def _find_ring_time(now: KernelTime, known: Mapping[str, float], move: LaunchMove) -> float | None:
    """Return the time where fewer stages hide less: what tiles take to arrive, less what hides it.

    Those are the work with the other stages, and that of other blocks.
    """
    ring = move.ring
    if ring is None or ring.stages >= ring.before or ring.stage_bytes <= 0:
        return None
    names = ("l2_sector_count", "sm_count", "sm_elapsed_cycles")
    sectors, count, cycles = (known.get(name, 0.0) for name in names)
    if not sectors or not count or not cycles:
        return None
    rounds = sectors * 32 / count / ring.stage_bytes / ring.blocks
    waits = dict.fromkeys((_LOADS, *_MEETINGS), 0.0)
    memory = dict.fromkeys(now.groups["memory"], 0.0)
    hidden = 1 / max(1.0, move.warps)
    alone = predict_time(now._replace(follows={}), Change(memory, {}, waits, latency=hidden))
    moved = max(now.use[name] for name in memory)
    waited = find_tile_latency(known) * rounds / cycles + moved
    return alone + max(0.0, waited - alone * (ring.stages - 1 / ring.blocks))


def _mean_wait(now: KernelTime, factors: Mapping[str, float], move: LaunchMove) -> float:
    known = sum(now.waits.values())
    other = 1 / max(move.warps, MIN_TIME)
    if not known:
        return other / (move.width * move.unrolled)
    mean = sum(share * factors[name] for name, share in now.waits.items())
    return mean / known if known > 1 else mean + (1 - known) * other


def _find_warp_time(
    now: KernelTime, known: Mapping[str, float], move: LaunchMove, unloaded: float
) -> float | None:
    """Return the time that the warps' own latency takes by Little's law; None: not to be told."""
    is_worse = min(move.warps, move.width, move.unrolled) < 1
    if not is_worse or move.unrolled > 1 or move.ring or not now.waits:
        return None
    own = {name: share for name, share in now.waits.items() if name not in (*_QUEUES, *_MEETINGS)}
    others = _narrow_work("issue", known, move)
    alone = {name: share * others for name, share in own.items()}
    if _LOADS in alone:
        left = _find_unspilled_wait(known, move)
        queue = unloaded if move.unrolled == 1 and left == 1 else 1.0
        alone[_LOADS] = own[_LOADS] * queue * _scale_loads(known, move) * left
    kept, before = sum(alone.values()), sum(own.values())
    meet = sum(now.waits.get(name, 0.0) for name in _MEETINGS)
    kept += meet * (min(1.0, kept / before) if before else 1.0)
    return now.launch + kept * (1 - now.launch) / max(move.warps, MIN_TIME)


def _add_spills(now: KernelTime, known: Mapping[str, float], move: LaunchMove) -> dict[str, float]:
    """Return the use that instructions to local memory add."""
    count = known.get("instruction_count", 0.0) * max(0.0, move.spilled)
    if not count:
        return {}
    totals = {"issue": "instruction_count", "l1-wavefronts": "lsu_wavefront_count"}
    sectors = count * _L1_SECTORS * (_SPILL_STORES + (1 - _SPILL_STORES) * move.missed)
    added: dict[str, float] = {}
    for name, use in now.use.items():
        if total := known.get(totals.get(name, ""), 0.0):
            added[name] = use * count / total
        elif name.startswith("l2-") and name != "l2-atomics":
            added[name] = use * sectors / max(1.0, known.get("l2_sector_count", 0.0))
    return added


def _find_spill_wait(now: KernelTime, known: Mapping[str, float], move: LaunchMove) -> float:
    """Return what waiting for spilled values adds, as a factor on the latency."""
    count = known.get("instruction_count", 0.0) * max(0.0, move.spilled) / 2
    slots = [known.get(name, 0.0) for name in ("sm_active_warps", "sm_count", "sm_elapsed_cycles")]
    if not count or not all(slots) or not now.latency:
        return 0.0
    cycles = L1_CYCLES + (L2_CYCLES - L1_CYCLES) * move.missed
    warps, sms, elapsed = slots
    return count * cycles / (warps * move.warps * sms * elapsed) / now.latency


def _keep_unspilled(
    now: KernelTime, known: Mapping[str, float], move: LaunchMove
) -> dict[str, float]:
    """Return the factor on each resource's work where no value goes through local memory now."""
    if move.spilled >= 0:
        return {}
    l2, l1 = known.get("spill_free_l2_factor", 1.0), known.get("spill_free_wavefront_factor", 1.0)
    issue = 1 - known.get("local_instruction_share", 0.0)
    known_names, levels = {"issue": issue, "dram": l2, "l2-atomics": 1.0}, {"l2-": l2, "l1-": l1}
    return {name: known_names.get(name, levels.get(name[:3], 1.0)) for name in now.use}


class OpenEnds(NamedTuple):
    """What of a move no counter tells."""

    spills: tuple[float, float]
    """Instructions to local memory that come, as a share of all: at least and at most."""
    left: float
    """L1 hits that stay, at least."""
    uneven: tuple[LaunchMove, ...] = ()
    """The move where the blocks' work, which is uneven now, spreads otherwise than is likely."""


class MoveOutcome(NamedTuple):
    """What a launch could take, if what no counter tells is so."""

    question: str
    """What is not known, in words; empty for the likely outcome."""
    time: MoveTime


def tell_time(
    rules: CompiledRules,
    now: KernelTime,
    known: Mapping[str, float],
    move: LaunchMove,
    ends: OpenEnds,
) -> dict[str, Any]:
    """Return the predicted time, with an interval that holds 4 of 5 measured ones.

    Where what no counter tells moves the time by more than ``_FAR``, or blocks have unequal work in
    another grid, no ``factor`` is told: it is None, and the reason asks what is not known. Where
    ptxas may spill, ``unspilled`` has the time if it does not.

    Args:
        rules: The compiled rules.
        now: Where the time goes.
        known: Measured and derived metrics.
        move: How the launch differs, as is likely.
        ends: What of that is not known.
    """
    likely = predict_move(now, known, move)
    outcomes = [MoveOutcome(_OVERLAP, likely), *_list_outcomes(now, known, move, ends)]
    best = min(one.time.low for one in outcomes)
    worst = max(one.time.high for one in outcomes)
    kept = _tell_unspilled(rules, now, known, move, ends)
    if worst > _FAR * best or ends.uneven:
        return {**_tell_open(outcomes, best, worst, _has_less(move)), "unspilled": kept}
    if _is_loop_alone(now, move, likely.time):
        return _tell_loop(likely, move.unrolled)
    low, high = _find_interval(move, [one.time for one in outcomes])
    point = likely.time
    words = "faster" if point < 1 - SAME else "slower" if point > 1 + SAME else "same"
    return {
        "factor": round(point, 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "verdict": words,
        "because": _explain(rules, now, known, move, words, ends.left),
        "unspilled": kept,
    }


def _tell_unspilled(
    rules: CompiledRules,
    now: KernelTime,
    known: Mapping[str, float],
    move: LaunchMove,
    ends: OpenEnds,
) -> dict[str, Any] | None:
    """Return the time if ptxas spills nothing; None where that is not known, or sure.

    That is what the fixes for registers promise: both have one model of the warps and the time.
    """
    if ends.spills[1] <= 0:
        return None
    without = ends._replace(spills=(0.0, 0.0))
    found = tell_time(rules, now, known, move._replace(spilled=0.0), without)
    return {name: found[name] for name in ("factor", "low", "high")} if found["factor"] else None


def _has_less(move: LaunchMove) -> bool:
    ring = move.ring is not None and move.ring.stages < move.ring.before
    return min(move.warps, move.busy, move.width, move.unrolled) < 1 - SAME or ring


def _find_interval(move: LaunchMove, times: list[MoveTime]) -> tuple[float, float]:
    """Return the interval of the first of several times."""
    point = times[0].time
    at_rest, moved, slope = _TOLD_ERROR
    size = abs(log(point))
    width = at_rest + moved * min(1.0, 10 * size) + slope * size
    low = min(point * exp(-width), *(one.low for one in times))
    return low, max(point * exp(width + _has_less(move) * _HURTS_MORE), *(x.high for x in times))


def _tell_open(
    outcomes: list[MoveOutcome], best: float, worst: float, has_less: bool
) -> dict[str, Any]:
    """Return an interval alone, and the question that it hangs on most."""
    at_rest, _, slope = _TOLD_ERROR
    at_rest += _SPILLS_MORE * any(question == _SPILLS for question, _ in outcomes)
    low = best * exp(-at_rest - slope * abs(log(best)))
    high = worst * exp(at_rest + slope * abs(log(worst)) + has_less * _HURTS_MORE)
    words = "faster" if high < 1 - SAME else "slower" if low > 1 + SAME else "unknown"
    first = log(outcomes[0].time.time)
    spans = [max(abs(log(x.low) - first), abs(log(x.high) - first)) for _, x in outcomes]
    question = outcomes[spans.index(max(spans))].question
    return {
        "factor": None,
        "low": round(low, 3),
        "high": round(high, 3),
        "verdict": words,
        "because": question,
        "unspilled": None,
    }


_OVERLAP = "how far the warps' waiting overlaps with what is busy"
_SPILLS = "how many values ptxas puts into local memory, and how far inside of loops"
_HITS = "how many of the L1 hits are lost"
_GAPS = "whether lanes still access neighbours (low end), or each its own bytes (high end)"
_FOLLOWED = "how many of the other instructions come or go with the accesses"
_QUEUE = "how far loads wait in a queue, which fewer warps shorten"
_STUCK = "what loads wait for beyond the latency: no counted resource is busy"
_UNEVEN = "how the blocks' work, which is uneven now, spreads over the other grid"
_LOOP_COPIES = "instructions bind, and a loop's own run once for each of its copies"
_LEAST_UNROLLED = 2.0
_LOOP = "how many instructions of the loop's own, and which order of the others, that gives"


def _list_outcomes(
    now: KernelTime,
    known: Mapping[str, float],
    move: LaunchMove,
    ends: OpenEnds,
) -> list[MoveOutcome]:
    """Return what the launch could take for each thing that no counter tells."""
    others = [share for share in ends.spills if share != move.spilled]
    moves = [(_SPILLS, move._replace(spilled=share)) for share in others]
    moves += [(_UNEVEN, one) for one in ends.uneven]
    if ends.left < 1:
        moves.append((_HITS, move._replace(hits=ends.left)))
    if move.warps < 1:
        moves.append((_QUEUE, move._replace(queued=0.0)))
    if move.width != 1:
        moves += [(_FOLLOWED, move._replace(followed=share)) for share in (0.0, 1.0)]
    if move.width < 1 and _share_spread(move) < 1 - SAME:  # else a thread has one access, as now
        moves.append((_GAPS, move._replace(apart=True, followed=1.0)))
        moves.append((_GAPS, move._replace(apart=True, is_evicted=True)))
    if max(now.use.values()) < _BUSY and compare_unloaded(known) < _SLOW:
        moves.append((_STUCK, move._replace(is_stuck=True)))
    return [MoveOutcome(why, predict_move(now, known, one)) for why, one in moves]


def _tell_loop(likely: MoveTime, unrolled: float) -> dict[str, Any]:
    """Return what other unrolling gives where a loop's own instructions count, as ``tell_time``."""
    found = _tell_open([MoveOutcome(_LOOP, likely)], 1 - _LOOP_SHARE, 1 + _LOOP_SHARE, False)
    if 1 / _LEAST_UNROLLED < unrolled < _LEAST_UNROLLED:
        return found
    point = _LOOP_TIME if unrolled > 1 else 1 / _LOOP_TIME
    words = "faster" if point < 1 else "slower"
    return {**found, "factor": round(point, 3), "verdict": words, "because": _LOOP_COPIES}


def _is_loop_alone(now: KernelTime, move: LaunchMove, point: float) -> bool:
    """Return whether a loop is unrolled otherwise in a kernel that its own instructions bind."""
    groups = sum_groups(now.use, now.groups, now.fill)
    busiest = max(groups, key=lambda name: groups[name])
    is_same = abs(point - 1) < SAME and move.unrolled != 1
    return is_same and busiest == "compute" and groups[busiest] > _BUSY


def _find_waiting(now: KernelTime) -> float:
    """Return the share of the time in which SMs have blocks that the roofs do not explain."""
    split = split_time(now)
    roofs = sum(split[group] for group in now.groups)
    return 1 - roofs / max(roofs, 1 - split["fill"] - split["launch"])


_PARTS = (
    ("warps",), ("busy",), ("width", "threads", "lane_bytes"), ("unrolled", "in_flight"), ("ring",),
    ("spilled", "missed"), ("blocks",),
)  # fmt: skip
"""What of a move belongs together."""


def _count_others(ring: RingAfter | None) -> str:
    count = ring.stages - 1 if ring else 0
    return "no other is" if count < 1 else "1 other is" if count == 1 else f"{count:g} others are"


def _take_part(alone: LaunchMove, move: LaunchMove, names: tuple[str, ...]) -> LaunchMove:
    return alone._replace(**{name: getattr(move, name) for name in names})


def _explain(
    rules: CompiledRules,
    now: KernelTime,
    known: Mapping[str, float],
    move: LaunchMove,
    words: str,
    left: float,
) -> str:
    """Return which part of the model of the time moved most."""
    alone = LaunchMove()
    parts = {
        group[0]: abs(log(predict_move(now, known, _take_part(alone, move, group)).time))
        for group in _PARTS
    }
    name = max(parts, key=lambda one: parts[one])
    groups = sum_groups(now.use, now.groups, now.fill)
    titles = {row["id"]: row["title"] for row in rules["time_model"]["resources"]}
    top = max(now.use, key=lambda one: now.use[one])
    idle, use = _find_waiting(now), min(1.0, max(groups.values()))
    if words == "same" and parts[name] < SAME:
        busiest = f"{titles[top]} takes {use:.0%} of the time and stays"
        busiest = busiest if use > idle else f"{idle:.0%} of the time is waiting, and stays"
        more = f"; at most {1 - left:.0%} of the L1 hits go" if left < 1 else ""
        return f"{busiest}{more}"
    return _word_part(name, now, move, idle)


def _word_part(name: str, now: KernelTime, move: LaunchMove, idle: float) -> str:
    fill = min(1.0, now.fill * move.busy)
    loads, barrier = (now.waits.get(wait, 0.0) for wait in ("long-scoreboard", "barrier"))
    return {
        "warps": f"{idle:.0%} of the time is waiting, which {move.warps:.2g}x the warps hide",
        "busy": f"SMs have a block for {now.fill:.0%} -> {fill:.0%} of the time",
        "width": f"{move.width:.2g}x the bytes of an access, so {1 / move.width:.2g}x the requests",
        "unrolled": f"{move.unrolled:.2g}x the loads in flight; waiting for loads is "
        f"{loads:.0%} of the waits",
        "ring": f"a tile arrives while {_count_others(move.ring)} "
        "worked on; waiting for loads and barriers is "
        f"{loads + barrier:.0%} of the waits",
        "blocks": f"{move.blocks:.2g}x the blocks begin one after another",
        "spilled": "values go through local memory no more"
        if move.spilled < 0
        else f"{move.spilled:.0%} more instructions, through local memory",
    }[name]
