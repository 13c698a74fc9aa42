"""Facts of this machine that take seconds to determine, as files in the user's cache folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelkb.safety.files import keep_file
from kernelkb.safety.paths import cache_folder

_PRACTICAL_CACHE = "practical-peaks-1"
"""The number counts incompatible changes of ``model.records.measurement.PracticalPeaks``."""
_METRICS = {
    "dram_share": "dram_practical_share",
    "l2_share": "l2_practical_share",
    "profiled_empty_us": "profiled_empty_us",
}
"""Metric of the knowledge by field."""


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
        values = json.loads(path.read_text(encoding="utf-8"))
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

    Args:
        device: Id of the GPU in the knowledge.
    """
    kept = read_practical_peaks(device) if device else None
    values = {metric: (kept or {}).get(field) for field, metric in _METRICS.items()}
    return {metric: value for metric, value in values.items() if isinstance(value, float)}
