"""Queries the NVIDIA driver and its GPUs (NVML, /proc), without CUDA and without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_PROC = Path("/proc/driver/nvidia")
_PARAMETERS_FILE, _VERSION_FILE, _GPUS_FOLDER = _PROC / "params", _PROC / "version", _PROC / "gpus"


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
