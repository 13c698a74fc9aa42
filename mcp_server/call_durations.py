"""How long calls took, kept from one server to the next: what the same call may take again."""

from __future__ import annotations

import statistics

from kernelkb.measure.machine.json_cache import read_cache, write_cache

_CACHE_FILE, _CACHE_KEY = "calls", "seconds"
_MAX_CALLS, _MAX_TIMES_PER_CALL = 300, 5
_MIN_RECORDED_S = 1.0


def expected_seconds(call: str) -> float | None:
    """Return the seconds that a call took, the median of the last few; None before the first."""
    times = _load_durations().get(call)
    return statistics.median(times) if times else None


def record_duration(call: str, seconds: float) -> None:
    """Remember how long a call took; what is over at once needs no forecast."""
    if seconds < _MIN_RECORDED_S:
        return
    known = _load_durations()
    times = [*known.pop(call, []), round(seconds, 1)][-_MAX_TIMES_PER_CALL:]
    newest = dict(list(known.items())[-(_MAX_CALLS - 1) :])
    write_cache(_CACHE_FILE, _CACHE_KEY, {**newest, call: times})


def _load_durations() -> dict[str, list[float]]:
    found = read_cache(_CACHE_FILE, _CACHE_KEY)
    return found if isinstance(found, dict) else {}
