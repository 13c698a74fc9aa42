"""How long calls took, kept from one server to the next: what the same call may take again."""

from __future__ import annotations

import statistics

from kernelkb.measure.machine.json_cache import keep, kept

_FILE, _KEY = "calls", "seconds"
_MOST_CALLS, _MOST_TIMES = 300, 5
_SHORTEST_S = 1.0


def expected(call: str) -> float | None:
    """Return the seconds that a call took, the median of the last few; None before the first."""
    times = _all().get(call)
    return statistics.median(times) if times else None


def took(call: str, seconds: float) -> None:
    """Remember how long a call took; what is over at once needs no forecast."""
    if seconds < _SHORTEST_S:
        return
    known = _all()
    times = [*known.pop(call, []), round(seconds, 1)][-_MOST_TIMES:]
    newest = dict(list(known.items())[-(_MOST_CALLS - 1) :])
    keep(_FILE, _KEY, {**newest, call: times})


def _all() -> dict[str, list[float]]:
    found = kept(_FILE, _KEY)
    return found if isinstance(found, dict) else {}
