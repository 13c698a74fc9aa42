"""Computes the roofline floor: the shortest time that a machine's peaks allow for given work.

And the ceiling of a mix: how long each part of a kernel's known work takes at the rates that the
GPU was measured to reach for work of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import exp, log
from typing import Any, Literal, NamedTuple

RoofName = Literal["memory", "compute", "launch"]

_OWN = "ceiling@"
"""Before the field, row and column of a rate that was measured on this machine."""
_TABLES = ("mix_gbps", "l2_mix_gbps", "narrow_gbps", "random_gbps", "gather_gbps", "atomic_rates",
           "shared_atomic_rates")  # fmt: skip
"""The fields of ``PracticalPeaks`` that are rows."""
_NUMBERS = (
    *("l2_read_gbps", "fma_rate", "fp64_rate", "integer_rate", "special_rate", "shared_gbps"),
    *("atomic_rate_address", "atomic_rate_sector", "atomic_rate_random"),
)
_SECTOR_BYTES, _WIDEST_LANE = 32.0, 16.0
_SECTOR_WORDS, _RANDOM_WORDS = 8.0, float(1 << 21)
"""Words among which the atomics of ``atomic_rate_sector`` and ``atomic_rate_random`` are spread."""
_PIPES = {
    "fma": "fma_rate",
    "fp64": "fp64_rate",
    "integer": "integer_rate",
    "special": "special_rate",
    "shared": "shared_gbps",
    "tensor fp8": "tensor_fp8_rate",
    "tensor fp16": "tensor_fp16_rate",
    "tensor tf32": "tensor_tf32_rate",
}

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


def interpolate_grid(rows: Iterable[Sequence[float]], first: float, second: float) -> float | None:
    """Return the rate between four measured places, by logarithms; None without rows.

    Args:
        rows: Two places and a rate, all above 0; outside, the nearest rate holds.
        first: The first place, above 0.
        second: The second place, above 0.
    """
    lines: dict[float, list[tuple[float, float]]] = {}
    for one, other, rate in rows:
        lines.setdefault(log(one), []).append((log(other), log(rate)))
    at = log(second)
    found = [(place, interpolate_rate(line, at) or 0.0) for place, line in lines.items()]
    between = interpolate_rate(found, log(first))
    return None if between is None else exp(between)


class Mix(NamedTuple):
    """What a kernel moves and does, by kind: known by construction, or counted."""

    read_bytes: float = 0.0
    """Of device memory, one neighbour after another."""
    write_bytes: float = 0.0
    l2_read_bytes: float = 0.0
    """Of data that stays in L2, one neighbour after another."""
    l2_write_bytes: float = 0.0
    lane_bytes: float = _WIDEST_LANE
    """Of one access of a lane to those, 1 to 16."""
    random_bytes: float = 0.0
    """Of pieces that are read at random places."""
    piece_bytes: float = _SECTOR_BYTES
    """Of one such piece."""
    buffer_ratio: float = 0.125
    """Bytes among which those places are, over those of L2; above 0."""
    atomics: float = 0.0
    """Additions of floats to global memory."""
    atomic_words: float = 1.0
    """Words among which they are spread at random."""
    shared_atomics: float = 0.0
    """Additions of integers to shared memory."""
    shared_atomic_words: float = 1.0
    """Words of a block among which they are spread at random."""
    work: tuple[tuple[str, float], ...] = ()
    """By pipe, a key of ``_PIPES``: instructions of a lane, of tensor cores additions and
    multiplications, of shared bytes."""


class MixTime(NamedTuple):
    """How long one part of a mix takes alone at its ceiling."""

    resource: Literal["memory", "lanes", "l2", "random", "atomics", "shared atomics", "pipe"]
    us: float | None
    """None: the rate was not measured on this GPU."""
    rate: float | None
    """GB/s, or 1e9 operations a second."""


def time_mix(rates: Mapping[str, Any], mix: Mix) -> list[MixTime]:
    """Return the time of each part of a mix at its ceiling.

    Args:
        rates: The fields of ``model.entries.quantities.Ceilings``, as far as they were measured.
        mix: The work.
    """
    streamed, cached = mix.read_bytes + mix.write_bytes, mix.l2_read_bytes + mix.l2_write_bytes
    found: list[MixTime] = []
    if streamed > 0:
        rate = interpolate_rate(rates.get("mix_gbps", ()), mix.read_bytes / streamed)
        found.append(_time_part("memory", streamed, rate))
    if cached > 0:
        rate = _find_l2_rate(rates, mix.l2_read_bytes / cached)
        found.append(_time_part("l2", cached, rate))
    if streamed + cached > 0 and mix.lane_bytes < _WIDEST_LANE:
        rate = interpolate_rate(rates.get("narrow_gbps", ()), mix.lane_bytes)
        found.append(_time_part("lanes", streamed + cached, rate))
    if mix.random_bytes > 0:
        found.append(_time_part("random", mix.random_bytes, _find_random_rate(rates, mix)))
    if mix.atomics > 0:
        found.append(_time_part("atomics", mix.atomics, _find_atomic_rate(rates, mix)))
    if mix.shared_atomics > 0:
        rows = _take_logarithms(rates.get("shared_atomic_rates", ()))
        rate = interpolate_rate(rows, log(mix.shared_atomic_words))
        found.append(_time_part("shared atomics", mix.shared_atomics, rate))
    found += [_time_part("pipe", count, rates.get(_PIPES[pipe])) for pipe, count in mix.work]
    return found


def find_mix_ceiling(rates: Mapping[str, Any], mix: Mix) -> MixTime | None:
    """Return the part that takes longest; the parts overlap, but random reads of memory.

    Those share memory with what is streamed, so both take their time one after the other.

    Args:
        rates: See ``time_mix``.
        mix: The work.

    Returns:
        None without a part whose rate is known.
    """
    known = [part for part in time_mix(rates, mix) if part.us is not None]
    longest = max(known, key=lambda part: part.us or 0.0, default=None)
    if longest is None or mix.buffer_ratio <= 1:
        return longest
    memory = [part.us or 0.0 for part in known if part.resource in ("memory", "random")]
    together = sum(memory)
    return longest._replace(us=max(together, longest.us or 0.0))


def _time_part(
    resource: Literal["memory", "lanes", "l2", "random", "atomics", "shared atomics", "pipe"],
    amount: float,
    rate: float | None,
) -> MixTime:
    return MixTime(resource, amount / rate / 1e3 if rate else None, rate)


def _find_l2_rate(rates: Mapping[str, Any], read_share: float) -> float | None:
    rows = rates.get("l2_mix_gbps", ())
    if not rows:  # reads alone were measured before mixes were
        return rates.get("l2_read_gbps") if read_share == 1 else None
    return interpolate_rate(rows, read_share)


def _find_random_rate(rates: Mapping[str, Any], mix: Mix) -> float | None:
    """Return GB/s of the pieces; without a table by piece, that of whole sectors holds."""
    if rows := rates.get("random_gbps", ()):
        return interpolate_grid(rows, mix.buffer_ratio, mix.piece_bytes)
    if mix.piece_bytes > _SECTOR_BYTES:
        return None
    rate = interpolate_rate(_take_logarithms(rates.get("gather_gbps", ())), log(mix.buffer_ratio))
    return None if rate is None else rate * mix.piece_bytes / _SECTOR_BYTES


def _find_atomic_rate(rates: Mapping[str, Any], mix: Mix) -> float | None:
    rows = list(rates.get("atomic_rates", ()))
    if not rows:  # three spreads were measured before
        spreads = {1.0: "address", _SECTOR_WORDS: "sector", _RANDOM_WORDS: "random"}
        rows = [
            (words, rates[name])
            for words, spread in spreads.items()
            if (name := f"atomic_rate_{spread}") in rates
        ]
    logs = [(log(words), log(rate)) for words, rate in rows]
    found = interpolate_rate(logs, log(mix.atomic_words))
    return None if found is None else exp(found)


def _take_logarithms(rows: Iterable[Sequence[float]]) -> list[tuple[float, float]]:
    return [(log(place), rate) for place, rate in rows]


def flatten_rates(peaks: Mapping[str, Any]) -> dict[str, float]:
    """Return the rates of a ``PracticalPeaks`` as single numbers, for ``list_own_rates``."""
    found: dict[str, float] = {}
    for field in _TABLES:
        for index, row in enumerate(peaks.get(field, ())):
            for column, value in enumerate(row):
                found[f"{_OWN}{field}@{index}.{column}"] = float(value)
    for field in _NUMBERS:
        if isinstance(value := peaks.get(field), float | int):
            found[f"{_OWN}{field}"] = float(value)
    return found


def list_own_rates(known: Mapping[str, float]) -> dict[str, Any]:
    """Return the rates that were measured on this machine, by the field of ``PracticalPeaks``.

    Args:
        known: Metrics, with those of ``flatten_rates``.
    """
    found: dict[str, Any] = {
        field: known[key] for field in _NUMBERS if (key := f"{_OWN}{field}") in known
    }
    for field in _TABLES:
        rows: list[list[float]] = []
        while f"{_OWN}{field}@{len(rows)}.0" in known:
            row: list[float] = []
            while (key := f"{_OWN}{field}@{len(rows)}.{len(row)}") in known:
                row.append(known[key])
            rows.append(row)
        if rows:
            found[field] = rows
    return found
