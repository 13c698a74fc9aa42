"""GPU clocks during a measurement."""

from __future__ import annotations

from kernelkb.model.base import Record


class Clocks(Record):
    """GPU clocks, temperature and throttle reasons (NVML) during the timing."""

    sm_mhz: tuple[float, float]
    """Lowest and highest."""
    sm_max_mhz: float
    temperature_c: float
    power_w: float
    throttled: tuple[str, ...] = ()
    """NVML's reasons for lowered clocks; batches under thermal or power throttling are dropped."""
    dropped_count: int = 0
    """Pairs of batches that were dropped for these reasons."""
