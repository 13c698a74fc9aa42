"""Keeps what ``kb env --measure`` found, by GPU. Only fast imports: each answer reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelkb.measure.machine.json_cache import read_cache, write_cache

_CACHE_NAME = "practical-peaks-1"
"""The number counts incompatible changes of ``model.records.measurement.PracticalPeaks``."""
_METRICS = {
    "dram_share": "dram_practical_share",
    "l2_share": "l2_practical_share",
    "profiled_empty_us": "profiled_empty_us",
}
"""Metric of the knowledge by field."""


def keep_practical_peaks(peaks: Mapping[str, Any]) -> None:
    """Keep the fields of a ``PracticalPeaks`` for later answers."""
    for name in filter(None, (peaks["device"], peaks["title"])):
        write_cache(_CACHE_NAME, name, dict(peaks))


def read_practical_peaks(gpu: str) -> dict[str, Any] | None:
    """Return the fields of the ``PracticalPeaks`` of a GPU; None if it was not measured here.

    Args:
        gpu: Its id in the knowledge, or its name as the driver reports it.
    """
    kept = read_cache(_CACHE_NAME, gpu)
    return kept if isinstance(kept, dict) else None


def read_peak_metrics(device: str | None) -> dict[str, float]:
    """Return the measured values of metrics that are otherwise the catalogue's; empty without any.

    Args:
        device: Id of the GPU in the knowledge.
    """
    kept = read_practical_peaks(device) if device else None
    values = {metric: (kept or {}).get(field) for field, metric in _METRICS.items()}
    return {metric: value for metric, value in values.items() if isinstance(value, float)}
