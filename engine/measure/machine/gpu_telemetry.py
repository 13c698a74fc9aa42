"""What a GPU says of itself while it is timed, asked from where the candidate is not."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kernelkb.measure.machine.nvidia_driver import read_nvml_value
from kernelkb.model.measurement import Clocks

_SAMPLE_PERIOD_S = 0.02
THROTTLE_REASONS = {
    0x0000000000000004: "power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "power brake",
}
ABNORMAL_THROTTLE_BITS = 0x8 | 0x20 | 0x40 | 0x80
"""A power cap is how a busy card works; these are not."""


class GpuSample(NamedTuple):
    """One look at the GPU."""

    time_s: float
    """On the system's monotonic clock, seconds."""
    sm_mhz: float
    temperature_c: float
    power_w: float
    throttle_bits: int
    """Bits of ``REASONS``."""


class GpuSampler:
    """Samples of one GPU, taken in a thread."""

    def __init__(self, device: str) -> None:
        """Prepare to look.

        Args:
            device: Its number, or the UUID of a GPU or of a part of one.
        """
        self._device = device
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self.samples: list[GpuSample] = []
        self.sm_max_mhz = 0.0

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _sample_until_stopped(self) -> None:
        try:
            import pynvml as nvml

            nvml.nvmlInit()
            number = self._device.isdigit()
            named = nvml.nvmlDeviceGetHandleByIndex if number else nvml.nvmlDeviceGetHandleByUUID
            gpu = named(int(self._device) if number else self._device)
            self.sm_max_mhz = read_nvml_value(
                lambda: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)
            )
            while not self._stop.wait(_SAMPLE_PERIOD_S):
                self.samples.append(_take_sample(nvml, gpu))
        except Exception:  # no driver, no rights, no such GPU: no clocks are known
            return


def _take_sample(nvml: Any, gpu: Any) -> GpuSample:
    return GpuSample(
        time.monotonic(),
        read_nvml_value(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        read_nvml_value(lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
        read_nvml_value(lambda: nvml.nvmlDeviceGetPowerUsage(gpu)) / 1e3,
        int(read_nvml_value(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))),
    )


@contextmanager
def sample_gpu(target: str) -> Iterator[GpuSampler]:
    """Watch the first GPU that CUDA may use inside this block; a CPU says nothing of itself."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    watch = GpuSampler(first or "0")
    if target == "cuda":
        watch.start()
    try:
        yield watch
    finally:
        if target == "cuda":
            watch.stop()


def was_throttled(samples: Sequence[GpuSample], start: float, end: float) -> bool:
    """Return whether heat or power lowered the clock between two moments, or just around them."""
    near = [
        s for s in samples if start - 2 * _SAMPLE_PERIOD_S <= s.time_s <= end + 2 * _SAMPLE_PERIOD_S
    ]
    return any(sample.throttle_bits & ABNORMAL_THROTTLE_BITS for sample in near)


def summarize_clocks(
    sampler: GpuSampler, start: float, end: float, dropped_count: int
) -> Clocks | None:
    """Sum up what was seen between two moments; None where nothing was."""
    seen = [s for s in sampler.samples if start <= s.time_s <= end]
    if not seen:
        return None
    reasons = 0
    for sample in seen:
        reasons |= sample.throttle_bits
    return Clocks(
        sm_mhz=(min(s.sm_mhz for s in seen), max(s.sm_mhz for s in seen)),
        sm_max_mhz=sampler.sm_max_mhz,
        temperature_c=max(s.temperature_c for s in seen),
        power_w=max(s.power_w for s in seen),
        throttled=tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit),
        dropped_count=dropped_count,
    )
