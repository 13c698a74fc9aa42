"""Facts of this machine that take seconds to determine, and how long calls took, kept as files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelkb.device_math.roofline import flatten_rates
from kernelkb.safety.files import keep_file
from kernelkb.safety.paths import cache_folder
from kernelkb.safety.untrusted_text import parse_json

_PRACTICAL_CACHE = "practical-peaks-1"
"""The number counts incompatible changes of ``model.records.measurement.PracticalPeaks``."""
_METRICS = {
    "dram_share": "dram_practical_share",
    "l2_share": "l2_practical_share",
    "profiled_empty_us": "profiled_empty_us",
}
"""Metric of the knowledge by field."""

_CALLS_CACHE, _CALLS_KEY = "calls", "seconds"
_MAX_CALLS, _MAX_TIMES_PER_CALL = 300, 5
_MIN_RECORDED_S = 1.0


def read_cache(name: str, key: str) -> Any:
    """Return the cached value of a key of the file ``name``, or None."""
    return _read_json(_cache_path(name)).get(key)


def write_cache(name: str, key: str, value: Any) -> None:
    """Cache a value; where the folder cannot be written, nothing is cached."""
    path = _cache_path(name)
    values = _read_json(path)
    values[key] = value
    keep_file(path, json.dumps(values, indent=1))


def _cache_path(name: str) -> Path:
    return Path(cache_folder()) / f"{name}.json"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def keep_practical_peaks(peaks: Mapping[str, Any]) -> None:
    """Keep the fields of a ``PracticalPeaks`` for later answers."""
    for name in filter(None, (peaks["device"], peaks["title"])):
        write_cache(_PRACTICAL_CACHE, name, dict(peaks))


def read_practical_peaks(gpu: str) -> dict[str, Any] | None:
    """Return the fields of the ``PracticalPeaks`` of a GPU; None if it was not measured here.

    Args:
        gpu: Its id in the knowledge, or its name as the driver reports it.
    """
    kept = read_cache(_PRACTICAL_CACHE, gpu)
    return kept if isinstance(kept, dict) else None


def read_peak_metrics(device: str | None) -> dict[str, float]:
    """Return the measured values of metrics that are otherwise the catalogue's; empty without any.

    And the rates of mixes, as ``device_math.roofline.list_own_rates`` reads them.

    Args:
        device: Id of the GPU in the knowledge.
    """
    kept = read_practical_peaks(device) if device else None
    values = {metric: (kept or {}).get(field) for field, metric in _METRICS.items()}
    values |= flatten_rates(kept or {})
    return {metric: value for metric, value in values.items() if isinstance(value, float)}


def expected_seconds(call: str) -> float | None:
    """Return the median duration of a call's last runs in seconds; None if it never ran."""
    import statistics  # 10 ms, and every answer imports this module

    times = _load_durations().get(call)
    return statistics.median(times) if times else None


def record_duration(call: str, seconds: float) -> None:
    """Record a call's duration in seconds; short calls need no forecast and are skipped."""
    if seconds < _MIN_RECORDED_S:
        return
    known = _load_durations()
    times = [*known.pop(call, []), round(seconds, 1)][-_MAX_TIMES_PER_CALL:]
    newest = dict(list(known.items())[-(_MAX_CALLS - 1) :])
    write_cache(_CALLS_CACHE, _CALLS_KEY, {**newest, call: times})


def _load_durations() -> dict[str, list[float]]:
    durations = read_cache(_CALLS_CACHE, _CALLS_KEY)
    return durations if isinstance(durations, dict) else {}
