"""What the NVIDIA driver says without CUDA and torch: the GPUs, and their clocks during a bench."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.model.records.measurement import Clocks
from kernelkb.progress import record_event

_PROC = Path("/proc/driver/nvidia")
_PARAMETERS_FILE, _VERSION_FILE, _GPUS_FOLDER = _PROC / "params", _PROC / "version", _PROC / "gpus"

_SAMPLE_PERIOD_S = 0.02
"""Chosen: a bench of one second gets some 50 samples."""
_TOLD_SAMPLES = 50
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


class NvidiaGpu(NamedTuple):
    """One GPU and its state now."""

    device_index: int
    name: str
    uuid: str
    cc: str
    memory_bytes: int
    used_bytes: int
    sm_mhz: float
    sm_max_mhz: float
    temperature_c: float
    throttle_bits: int
    exclusive_process: bool
    """Only one process at a time may use it, but judge and candidate are two."""
    mig: bool
    """Multi-instance mode: CUDA sees slices of it."""
    other_pids: tuple[int, ...]
    """Processes that compute on it now, without ours."""


class NvidiaDriver(NamedTuple):
    """The driver and its GPUs."""

    version: str
    cuda_version: str
    """The newest CUDA that it supports."""
    gpus: tuple[NvidiaGpu, ...]


@contextmanager
def _open_nvml() -> Iterator[Any]:
    import pynvml as nvml

    nvml.nvmlInit()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def query_driver() -> NvidiaDriver | None:
    """Return the driver and its GPUs; None without a driver."""
    try:
        with _open_nvml() as nvml:
            cuda = int(nvml.nvmlSystemGetCudaDriverVersion_v2())  # 12040 is 12.4
            return NvidiaDriver(
                _decode_text(nvml.nvmlSystemGetDriverVersion()),
                f"{cuda // 1000}.{cuda % 1000 // 10}",
                tuple(_query_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())),
            )
    except Exception:  # no library, no driver, no device: NVML has an error class for each
        return None


def driver_fingerprint() -> str:
    """Return a text that changes with the driver and the GPUs; empty without a driver.

    It comes from files of /proc, since starting NVML takes longer; NVML where there are none (WSL).
    """
    try:
        texts = [
            path.read_text("utf-8")
            for path in (_VERSION_FILE, *sorted(_GPUS_FOLDER.glob("*/information")))
        ]
    except OSError:
        return _fingerprint_by_nvml()
    return " ".join([*texts, os.environ.get("CUDA_VISIBLE_DEVICES", "all")])


def _fingerprint_by_nvml() -> str:
    try:
        with _open_nvml() as nvml:
            gpus = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
            parts = [nvml.nvmlSystemGetDriverVersion(), *map(nvml.nvmlDeviceGetUUID, gpus)]
    except Exception:  # see above
        return ""
    return " ".join([*map(_decode_text, parts), os.environ.get("CUDA_VISIBLE_DEVICES", "all")])


def _query_gpu(nvml: Any, index: int) -> NvidiaGpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    own_pids = {os.getpid(), os.getppid()}
    exclusive = nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    return NvidiaGpu(
        device_index=index,
        name=_decode_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_decode_text(nvml.nvmlDeviceGetUUID(handle)),
        cc=f"{major}.{minor}",
        memory_bytes=int(memory.total),
        used_bytes=int(memory.used),
        sm_mhz=read_nvml_value(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        sm_max_mhz=read_nvml_value(
            lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        ),
        temperature_c=read_nvml_value(
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        ),
        throttle_bits=int(
            read_nvml_value(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        ),
        exclusive_process=read_nvml_value(lambda: nvml.nvmlDeviceGetComputeMode(handle))
        == exclusive,
        mig=read_nvml_value(lambda: nvml.nvmlDeviceGetMigMode(handle)[0]) == 1,
        other_pids=tuple(pid for pid in _list_compute_pids(nvml, handle) if pid not in own_pids),
    )


def _list_compute_pids(nvml: Any, handle: Any) -> tuple[int, ...]:
    """Return the processes that compute on a GPU; none where the driver does not list them."""
    try:
        return tuple(
            int(process.pid) for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        )
    except Exception:  # NVML has an error class for each reason
        return ()


def read_nvml_value(query: Callable[[], Any]) -> float:
    """Return a number from NVML; 0 where this GPU does not support the query."""
    try:
        return float(query())
    except Exception:  # NVML has an error class for each reason
        return 0.0


def _decode_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def may_read_counters() -> bool | None:
    """Return whether this user may read performance counters; None where unknown."""
    try:
        text = _PARAMETERS_FILE.read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("RmProfilingAdminOnly:"):
            return line.split()[-1] == "0" or os.geteuid() == 0
    return None


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
        run = copy_context().run  # with this thread's recorder of events
        self._thread = threading.Thread(target=run, args=(self._sample_until_stopped,), daemon=True)
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
                if len(self.samples) % _TOLD_SAMPLES == 1:
                    self._tell(self.samples[-1])
        except Exception:  # no driver, no permission, no such GPU: then there are no samples
            return

    def _tell(self, sample: GpuSample) -> None:
        """Record a sample for who watches from another process, every second."""
        told = {"sm_mhz": sample.sm_mhz, "sm_max_mhz": self.sm_max_mhz, "power_w": sample.power_w}
        reasons = [name for bit, name in THROTTLE_REASONS.items() if sample.throttle_bits & bit]
        record_event("gpu", **told, temperature_c=sample.temperature_c, text=", ".join(reasons))


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
