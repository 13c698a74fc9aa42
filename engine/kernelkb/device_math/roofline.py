"""Computes the roofline floor: the shortest time that a machine's peaks allow for given work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

RoofName = Literal["memory", "compute", "launch"]

MIX_SHARE, MIX_RATE = "memory_read_share@", "memory_gbps@"
"""Before a number from 0 on: the share read, and the bandwidth that this machine has at it."""

MIN_MEMORY_CACHE_RATIO = 2.0
"""Least working set ÷ last-level cache at which memory, not the cache, determines the time."""


class Roof(NamedTuple):
    """One lower bound on the time of any kernel that does a given amount of work."""

    name: RoofName
    floor_us: float


def roofs(
    *,
    algorithmic_bytes: float | None = None,
    bandwidth_gbps: float | None = None,
    flops: float | None = None,
    peak_tflops: float | None = None,
    launch_floor_us: float | None = None,
) -> list[Roof]:
    """Return every roof that is known.

    Args:
        algorithmic_bytes: Bytes that any correct kernel must move through memory.
        bandwidth_gbps: Achievable memory bandwidth, 1e9 bytes per second.
        flops: Operations that any correct kernel must do.
        peak_tflops: Fastest rate of any unit that could do them, 1e12 per second.
        launch_floor_us: Time of an empty kernel or call, in microseconds.
    """
    found: list[Roof] = []
    if algorithmic_bytes and bandwidth_gbps:
        found.append(Roof("memory", algorithmic_bytes / bandwidth_gbps / 1e3))
    if flops and peak_tflops:
        found.append(Roof("compute", flops / peak_tflops / 1e6))
    if launch_floor_us:
        found.append(Roof("launch", launch_floor_us))
    return found


def highest_roof(known: list[Roof]) -> Roof | None:
    """Return the roof with the longest time; None if neither memory nor compute is known."""
    if not any(roof.name != "launch" for roof in known):
        return None
    return max(known, key=lambda roof: roof.floor_us)


def ridge_flop_per_byte(peak_tflops: float, bandwidth_gbps: float) -> float:
    """Return the operations per byte above which arithmetic, not memory, is the roof."""
    return peak_tflops * 1e3 / bandwidth_gbps


def comes_from_memory(cache_ratio: float | None) -> bool:
    """Return whether data must come from DRAM; cached data can be faster than the memory roof.

    Args:
        cache_ratio: Working set ÷ last-level cache; None, unknown, returns True.
    """
    return cache_ratio is None or cache_ratio >= MIN_MEMORY_CACHE_RATIO


def interpolate_rate(rows: Iterable[Iterable[float]], at: float) -> float | None:
    """Return the rate between the two measured places around one; None without rows.

    Args:
        rows: Place and rate of each measurement, in any order; outside, the nearest rate holds.
        at: The place.
    """
    known = sorted((float(place), float(rate)) for place, rate in rows)
    if not known:
        return None
    for (low, before), (high, after) in pairwise(known):
        if low <= at <= high:
            return before + (after - before) * (at - low) / (high - low) if high > low else after
    return known[0][1] if at < known[0][0] else known[-1][1]


def list_own_rates(known: Mapping[str, float]) -> list[tuple[float, float]]:
    """Return share read and bandwidth in GB/s of each mix that was measured on this machine."""
    rows: list[tuple[float, float]] = []
    while (rate := known.get(f"{MIX_RATE}{len(rows)}")) is not None:
        rows.append((known[f"{MIX_SHARE}{len(rows)}"], rate))
    return rows
