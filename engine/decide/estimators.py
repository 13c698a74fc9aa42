"""Estimates the share of a kernel's time that a change would remove, one function per change.

[E0] to [E26] are the numbers of the estimates in the source ``kernelkb-derivation``: ncu's own
rules, GPA's latency-hiding model (Zhou et al., CGO 2021) and arithmetic. Shares, fractions,
utilizations and results range from 0 to 1. Contradictory inputs can give a result below 0 or above
1, which the caller clips.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelkb.decide.formulas import hidden_latency


def _amdahl(*, fraction: float, factor: float) -> float:
    """Return the share removed if ``fraction`` of the time becomes ``factor`` times faster [E0]."""
    return fraction * (1 - 1 / factor) if factor > 0 else 0.0


def _share(*, share: float) -> float:
    """Return a share that the change removes entirely [E0, E18, E25]."""
    return share


def _roofline(*, attainable: float) -> float:
    """Return the share removed at the roofline floor, from the attainable speedup [E1]."""
    return 1 - 1 / attainable if attainable > 0 else 0.0


def _headroom(*, sm: float, memory: float) -> float:
    """Return the share removed if the busiest unit, SM or memory, reaches its peak [E2]."""
    return 1 - max(sm, memory)


def _traffic(*, utilization: float, ratio: float) -> float:
    """Return the share removed if a unit of this utilization does 1/ratio of its work [E3, E22]."""
    return utilization * (1 - 1 / ratio) if ratio > 0 else 0.0


def _issue_slots(*, issue: float, sm: float, memory: float) -> float:
    """Return the share removed if issue slots are filled, up to the busiest unit's peak [E4]."""
    return min(1 - issue, 1 - max(sm, memory))


def _stall(*, share: float, issue: float, sm: float, memory: float) -> float:
    """Return the share removed without one stall reason, with the limits of issue slots [E5]."""
    return min(1 - issue, 1 - max(sm, memory), share)


def _occupancy(*, now: float, then: float) -> float:
    """Return the share removed at occupancy ``then``, if time is inverse to it [E6, E7]."""
    return 1 - now / then if then > now else 0.0


def _latency_hiding(*, active: float, wanted: float, latency: float) -> float:
    """Return the share removed with ``wanted`` warps per scheduler; saturates [E8, GPA]."""
    return hidden_latency(active, wanted, latency)


def _wave_tail(*, waves: float) -> float:
    """Return the share removed if the last wave is full [E9]."""
    return 1 - waves / math.ceil(waves) if waves > 0 else 0.0


def _small_grid(*, grid: float, sms: float, waves: float) -> float:
    """Return the share removed if every SM has a block; with grid >= sms, every slot [E10]."""
    return 1 - grid / sms if grid < sms else max(0.0, 1 - waves)


def _idle_sms(*, grid: float, sms: float) -> float:
    """Return the share removed if every SM has a block [E10]."""
    return 1 - grid / sms if grid < sms else 0.0


def _partial_wave(*, waves: float) -> float:
    """Return the share removed if the grid fills every block slot once [E10]."""
    return max(0.0, 1 - waves)


def _partial_warp(*, threads: float) -> float:
    """Return the share removed if all lanes of a block's last warp are used [E11]."""
    return 1 - threads / (32 * math.ceil(threads / 32)) if threads > 0 else 0.0


def _conflicts(*, share: float, utilization: float) -> float:
    """Return the share removed without replayed shared-memory wavefronts [E12]."""
    return share * utilization


def _sectors(*, useful_bytes: float, utilization: float) -> float:
    """Return the share removed if all 32 bytes of each sector of a memory level are used [E13]."""
    return (1 - useful_bytes / 32) * utilization


def _divergence(*, lanes: float, utilization: float) -> float:
    """Return the share removed if all 32 lanes of each warp are active [E14]."""
    return (1 - lanes / 32) * utilization


def _imbalance(*, balance: float, busy: float) -> float:
    """Return the share removed if all units of a kind finish at the same time [E15]."""
    return (1 - balance) * busy


def _fusion(*, share: float, utilization: float) -> float:
    """Return the share removed if half of a pipe's separate operations are fused [E16]."""
    return 0.5 * share * utilization


def _precision(*, share: float, utilization: float, slow: float, fast: float) -> float:
    """Return the share removed if a share of the work moves to a pipe of a higher rate [E17]."""
    return share * (1 - slow / fast) * utilization if fast > slow else 0.0


def _relief(*, busiest: float, next_busiest: float) -> float:
    """Return the share removed if the busiest unit drops to the next one's use [E17 refined]."""
    return 1 - next_busiest / busiest if busiest > next_busiest else 0.0


def _remote_memory(*, share: float, link: float, dram: float) -> float:
    """Return the share removed if remote data is read from DRAM; link and dram in GB/s [E19]."""
    return share * (1 - link / dram) if dram > link else 0.0


def _launch_gap(*, gap: float, call: float) -> float:
    """Return the share removed if a launch gap shrinks to 1 µs, as in a CUDA graph [E20].

    ``gap`` and ``call`` are in µs.
    """
    return max(0.0, gap - 1.0) / call if call > 0 else 0.0


def _matrix_floor(*, ratio: float) -> float:
    """Return the share removed at a library's speed; ratio is time ÷ the library's time [E21]."""
    return 1 - 1 / ratio if ratio > 1 else 0.0


def _halved_bytes(*, utilization: float) -> float:
    """Return the share removed if each element has half as many bytes [E22]."""
    return utilization * 0.5


def _bytes_in_flight(*, utilization: float, achievable: float) -> float:
    """Return the share removed with enough bytes in flight [E23, Little's law].

    Both arguments are shares of the peak bandwidth.
    """
    return 1 - utilization / achievable if achievable > utilization else 0.0


def _overlap(*, load: float, compute: float) -> float:
    """Return the share removed if loads and computation, shares of the time, overlap [E26]."""
    return min(load, compute)


def _clock(*, share: float, utilization: float) -> float:
    """Return the share removed at the full clock; ``share`` is the present clock ÷ the full one."""
    return (1 - share) * utilization


def _parallelize(*, busy: float, cores: float) -> float:
    """Return the share removed if all cores instead of ``busy`` ones work; linear scaling [E0]."""
    return 1 - busy / cores if cores > busy else 0.0


def _vectorize(*, lanes: float) -> float:
    """Return the share removed if one instruction processes ``lanes`` elements, not one [E0]."""
    return 1 - 1 / lanes if lanes > 1 else 0.0


ESTIMATORS: dict[str, Callable[..., float]] = {
    function.__name__.lstrip("_").replace("_", "-"): function
    for function in (
        _amdahl,
        _share,
        _roofline,
        _headroom,
        _traffic,
        _issue_slots,
        _stall,
        _occupancy,
        _latency_hiding,
        _wave_tail,
        _small_grid,
        _idle_sms,
        _partial_wave,
        _partial_warp,
        _conflicts,
        _sectors,
        _divergence,
        _imbalance,
        _fusion,
        _precision,
        _relief,
        _remote_memory,
        _launch_gap,
        _matrix_floor,
        _halved_bytes,
        _bytes_in_flight,
        _overlap,
        _clock,
        _parallelize,
        _vectorize,
    )
}
"""Each estimator by its name in the knowledge files."""
