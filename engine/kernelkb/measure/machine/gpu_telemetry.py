"""Samples GPU clocks, temperature, power and throttle reasons (NVML) outside the candidate."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kernelkb.measure.machine.nvidia_driver import read_nvml_value
from kernelkb.model.records.measurement import Clocks

_SAMPLE_PERIOD_S = 0.02
"""Chosen: a bench of one second gets some 50 samples."""
THROTTLE_REASONS = {
    0x0000000000000004: "power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "power brake",
}
"""Bit → name; the nvmlClocksThrottleReason constants of nvml.h."""
ABNORMAL_THROTTLE_BITS = 0x8 | 0x20 | 0x40 | 0x80
"""All but the power cap, which is normal for a busy card."""


class GpuSample(NamedTuple):
    """The state of a GPU at one time."""

    time_s: float
    """``time.monotonic()``."""
    sm_mhz: float
    temperature_c: float
    power_w: float
    throttle_bits: int
    """Keys of ``THROTTLE_REASONS``."""
    energy_j: float = 0.0
    """The counter of all energy since the driver was loaded, which changes every 20 to 100 ms; 0
    where there is none: before Volta, and for a slice of a GPU."""


class GpuSampler:
    """Samples one GPU in a thread."""

    def __init__(self, device: str) -> None:
        """Prepare the thread.

        Args:
            device: Index of the GPU, or the UUID of a GPU or of a MIG slice.
        """
        self._device = device
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self.samples: list[GpuSample] = []
        self.sm_max_mhz = 0.0

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()

    def _sample_until_stopped(self) -> None:
        try:
            import pynvml as nvml

            nvml.nvmlInit()
            if self._device.isdigit():
                gpu = nvml.nvmlDeviceGetHandleByIndex(int(self._device))
            else:
                gpu = nvml.nvmlDeviceGetHandleByUUID(self._device)
            self.sm_max_mhz = read_nvml_value(
                lambda: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)
            )
            while not self._stop.wait(_SAMPLE_PERIOD_S):
                self.samples.append(_take_sample(nvml, gpu))
        except Exception:  # no driver, no permission, no such GPU: then there are no samples
            return


def _take_sample(nvml: Any, gpu: Any) -> GpuSample:
    return GpuSample(
        time.monotonic(),
        read_nvml_value(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        read_nvml_value(lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
        read_nvml_value(lambda: nvml.nvmlDeviceGetPowerUsage(gpu)) / 1e3,
        int(read_nvml_value(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))),
        _read_energy_j(nvml, gpu),
    )


def _read_energy_j(nvml: Any, gpu: Any) -> float:
    if read_nvml_value(lambda: nvml.nvmlDeviceGetMigMode(gpu)[0]) == 1:
        return 0.0  # the counter would include what other slices use
    return read_nvml_value(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu)) / 1e3


@contextmanager
def sample_gpu(target: str) -> Iterator[GpuSampler]:
    """Sample the first GPU that CUDA may use inside this block; nothing for the CPU."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    sampler = GpuSampler(first or "0")
    if target == "cuda":
        sampler.start()
    try:
        yield sampler
    finally:
        if target == "cuda":
            sampler.stop()


def was_throttled(samples: Sequence[GpuSample], start: float, end: float) -> bool:
    """Return whether heat or power lowered the clocks between two times (``time.monotonic()``).

    Samples of two periods before and after count too: a short batch may lie between two samples.
    """
    near = [
        s for s in samples if start - 2 * _SAMPLE_PERIOD_S <= s.time_s <= end + 2 * _SAMPLE_PERIOD_S
    ]
    return any(sample.throttle_bits & ABNORMAL_THROTTLE_BITS for sample in near)


def summarize_clocks(
    sampler: GpuSampler, start: float, end: float, dropped_count: int
) -> Clocks | None:
    """Return the range of clocks and the maxima between two times; None without samples."""
    samples = [s for s in sampler.samples if start <= s.time_s <= end]
    if not samples:
        return None
    reasons = 0
    for sample in samples:
        reasons |= sample.throttle_bits
    return Clocks(
        sm_mhz=(min(s.sm_mhz for s in samples), max(s.sm_mhz for s in samples)),
        sm_max_mhz=sampler.sm_max_mhz,
        temperature_c=max(s.temperature_c for s in samples),
        power_w=max(s.power_w for s in samples),
        throttled=tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit),
        dropped_count=dropped_count,
    )
