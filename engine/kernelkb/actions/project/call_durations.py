"""Durations of earlier calls, kept on disk, to forecast the next one."""

from __future__ import annotations

import statistics

from kernelkb.measure.machine.cached_facts import read_cache, write_cache

_CACHE_FILE, _CACHE_KEY = "calls", "seconds"
_MAX_CALLS, _MAX_TIMES_PER_CALL = 300, 5
_MIN_RECORDED_S = 1.0


def expected_seconds(call: str) -> float | None:
    """Return the median duration of a call's last runs in seconds; None if it never ran."""
    times = _load_durations().get(call)
    return statistics.median(times) if times else None


def record_duration(call: str, seconds: float) -> None:
    """Record a call's duration in seconds; short calls need no forecast and are skipped."""
    if seconds < _MIN_RECORDED_S:
        return
    known = _load_durations()
    times = [*known.pop(call, []), round(seconds, 1)][-_MAX_TIMES_PER_CALL:]
    newest = dict(list(known.items())[-(_MAX_CALLS - 1) :])
    write_cache(_CACHE_FILE, _CACHE_KEY, {**newest, call: times})


def _load_durations() -> dict[str, list[float]]:
    durations = read_cache(_CACHE_FILE, _CACHE_KEY)
    return durations if isinstance(durations, dict) else {}
