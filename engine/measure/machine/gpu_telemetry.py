"""What a GPU says of itself while it is timed, asked from where the candidate is not."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kernelkb.measure.machine.nvidia_driver import told
from kernelkb.model.measurement import Clocks

_PERIOD_S = 0.02
REASONS = {
    0x0000000000000004: "power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "power brake",
}
ALARM = 0x8 | 0x20 | 0x40 | 0x80
"""A power cap is how a busy card works; these are not."""


class Sample(NamedTuple):
    """One look at the GPU."""

    at: float
    """On the system's monotonic clock, seconds."""
    sm_mhz: float
    temperature_c: float
    power_w: float
    reasons: int
    """Bits of ``REASONS``."""


class Watch:
    """Samples of one GPU, taken in a thread."""

    def __init__(self, which: str) -> None:
        """Prepare to look.

        Args:
            which: Its number, or the UUID of a GPU or of a part of one.
        """
        self._which = which
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.samples: list[Sample] = []
        self.sm_max_mhz = 0.0

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        try:
            import pynvml as nvml

            nvml.nvmlInit()
            number = self._which.isdigit()
            named = nvml.nvmlDeviceGetHandleByIndex if number else nvml.nvmlDeviceGetHandleByUUID
            gpu = named(int(self._which) if number else self._which)
            self.sm_max_mhz = told(lambda: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM))
            while not self._stop.wait(_PERIOD_S):
                self.samples.append(_sample(nvml, gpu))
        except Exception:  # no driver, no rights, no such GPU: no clocks are known
            return


def _sample(nvml: Any, gpu: Any) -> Sample:
    return Sample(
        time.monotonic(),
        told(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        told(lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
        told(lambda: nvml.nvmlDeviceGetPowerUsage(gpu)) / 1e3,
        int(told(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))),
    )


@contextmanager
def watched(target: str) -> Iterator[Watch]:
    """Watch the first GPU that CUDA may use inside this block; a CPU says nothing of itself."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    watch = Watch(first or "0")
    if target == "cuda":
        watch.start()
    try:
        yield watch
    finally:
        if target == "cuda":
            watch.stop()


def alarmed(samples: Sequence[Sample], start: float, end: float) -> bool:
    """Return whether heat or power lowered the clock between two moments, or just around them."""
    near = [s for s in samples if start - 2 * _PERIOD_S <= s.at <= end + 2 * _PERIOD_S]
    return any(sample.reasons & ALARM for sample in near)


def clocks(watch: Watch, start: float, end: float, dropped: int) -> Clocks | None:
    """Sum up what was seen between two moments; None where nothing was."""
    seen = [s for s in watch.samples if start <= s.at <= end]
    if not seen:
        return None
    reasons = 0
    for sample in seen:
        reasons |= sample.reasons
    return Clocks(
        sm_mhz=(min(s.sm_mhz for s in seen), max(s.sm_mhz for s in seen)),
        sm_max_mhz=watch.sm_max_mhz,
        temperature_c=max(s.temperature_c for s in seen),
        power_w=max(s.power_w for s in seen),
        throttled=tuple(name for bit, name in REASONS.items() if reasons & bit),
        dropped_count=dropped,
    )
