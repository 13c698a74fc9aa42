"""The estimator library: fraction of the kernel's time that a change would remove.

Numbers in brackets are rows of the estimator library: ncu's own rules, GPA's latency-hiding model
(Zhou et al., CGO 2021) and arithmetic. Shares, fractions and results run from 0 to 1; a result may
be negative or above 1 where the inputs contradict each other, and is cut by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelkb.decide.derive import hidden_latency


def _amdahl(*, fraction: float, factor: float) -> float:
    """Speed a fraction of the time up by a factor [E0]."""
    return fraction * (1 - 1 / factor) if factor > 0 else 0.0


def _share(*, share: float) -> float:
    """Remove a share of the time altogether [E0, E18, E25]."""
    return share


def _roofline(*, attainable: float) -> float:
    """Reach the roof [E1]."""
    return 1 - 1 / attainable if attainable > 0 else 0.0


def _headroom(*, sm: float, memory: float) -> float:
    """Bring the busiest unit to its peak [E2]."""
    return 1 - max(sm, memory)


def _traffic(*, utilization: float, ratio: float) -> float:
    """Do ratio times less work in a unit that is busy for that share [E3, E22]."""
    return utilization * (1 - 1 / ratio) if ratio > 0 else 0.0


def _issue_slots(*, issue: float, sm: float, memory: float) -> float:
    """Fill the empty issue slots, as far as the busiest unit allows [E4]."""
    return min(1 - issue, 1 - max(sm, memory))


def _stall(*, share: float, issue: float, sm: float, memory: float) -> float:
    """Remove one stall reason, never more than the empty issue slots or the headroom [E5]."""
    return min(1 - issue, 1 - max(sm, memory), share)


def _occupancy(*, now: float, then: float) -> float:
    """Go from one occupancy to another, as if time followed it [E6, E7]."""
    return 1 - now / then if then > now else 0.0


def _latency_hiding(*, active: float, wanted: float, latency: float) -> float:
    """Go from ``active`` to ``wanted`` warps per scheduler; saturates [E8, GPA]."""
    return hidden_latency(active, wanted, latency)


def _wave_tail(*, waves: float) -> float:
    """Fill the last wave [E9]."""
    return 1 - waves / math.ceil(waves) if waves > 0 else 0.0


def _small_grid(*, grid: float, sms: float, waves: float) -> float:
    """Give every SM a block, then every slot [E10]."""
    return 1 - grid / sms if grid < sms else max(0.0, 1 - waves)


def _idle_sms(*, grid: float, sms: float) -> float:
    """Give every SM a block [E10]."""
    return 1 - grid / sms if grid < sms else 0.0


def _partial_wave(*, waves: float) -> float:
    """Fill every block slot once [E10]."""
    return max(0.0, 1 - waves)


def _partial_warp(*, threads: float) -> float:
    """Use all lanes of the last warp of every block [E11]."""
    return 1 - threads / (32 * math.ceil(threads / 32)) if threads > 0 else 0.0


def _conflicts(*, share: float, utilization: float) -> float:
    """Remove replayed shared-memory wavefronts [E12]."""
    return share * utilization


def _sectors(*, useful_bytes: float, utilization: float) -> float:
    """Use every byte of every 32-byte sector, at one level of memory [E13]."""
    return (1 - useful_bytes / 32) * utilization


def _divergence(*, lanes: float, utilization: float) -> float:
    """Let all 32 lanes take part [E14]."""
    return (1 - lanes / 32) * utilization


def _imbalance(*, balance: float, busy: float) -> float:
    """Let all units end together [E15]."""
    return (1 - balance) * busy


def _fusion(*, share: float, utilization: float) -> float:
    """Fuse half of the separate operations of a pipe [E16]."""
    return 0.5 * share * utilization


def _precision(*, share: float, utilization: float, slow: float, fast: float) -> float:
    """Move the double-precision share to the single-precision pipe [E17]."""
    return share * (1 - slow / fast) * utilization if fast > slow else 0.0


def _relief(*, busiest: float, next_busiest: float) -> float:
    """Relieve a pipe until the next busiest unit limits [E17 refined]."""
    return 1 - next_busiest / busiest if busiest > next_busiest else 0.0


def _remote_memory(*, share: float, link: float, dram: float) -> float:
    """Serve from local memory what came over a link; both in GB/s [E19]."""
    return share * (1 - link / dram) if dram > link else 0.0


def _launch_gap(*, gap: float, call: float) -> float:
    """Shrink the gap between launches to 1 µs, a CUDA-graph node's [E20]."""
    return max(0.0, gap - 1.0) / call if call > 0 else 0.0


def _matrix_floor(*, ratio: float) -> float:
    """Run the products as fast as a library; ratio is time now over that [E21]."""
    return 1 - 1 / ratio if ratio > 1 else 0.0


def _halved_bytes(*, utilization: float) -> float:
    """Store half as many bytes an element [E22]."""
    return utilization * 0.5


def _bytes_in_flight(*, utilization: float, achievable: float) -> float:
    """Keep enough bytes in flight to reach what memory achieves [E23, Little's law]."""
    return 1 - utilization / achievable if achievable > utilization else 0.0


def _overlap(*, load: float, compute: float) -> float:
    """Run two phases at once; both as shares of the time [E26]."""
    return min(load, compute)


def _clock(*, share: float, utilization: float) -> float:
    """Run at the full clock instead of ``share`` of it, as far as the SMs are the limit."""
    return (1 - share) * utilization


def _parallelize(*, busy: float, cores: float) -> float:
    """Go from ``busy`` cores to all of them, perfectly [E0]."""
    return 1 - busy / cores if cores > busy else 0.0


def _vectorize(*, lanes: float) -> float:
    """Do ``lanes`` elements in each instruction instead of one [E0]."""
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
"""By the name that an estimate uses in the knowledge files."""
