"""What the NVIDIA driver says, without CUDA and without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_PROC = Path("/proc/driver/nvidia")
_PARAMETERS_FILE, _VERSION_FILE, _GPUS_FOLDER = _PROC / "params", _PROC / "version", _PROC / "gpus"


class NvidiaGpu(NamedTuple):
    """One GPU of this machine."""

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
    """Only one process at a time may use it, so judge and candidate cannot both."""
    mig: bool
    other_pids: tuple[int, ...]
    """Processes that use it now, none of them ours."""


class NvidiaDriver(NamedTuple):
    """The driver and its GPUs."""

    version: str
    cuda_version: str
    """The newest CUDA that it can run."""
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
    """Return what the driver says; None where there is no driver."""
    try:
        with _open_nvml() as nvml:
            number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
            return NvidiaDriver(
                _decode_text(nvml.nvmlSystemGetDriverVersion()),
                f"{number // 1000}.{number % 1000 // 10}",
                tuple(_query_gpu(nvml, at) for at in range(nvml.nvmlDeviceGetCount())),
            )
    except Exception:  # no library, no driver, no device: each has an error type of its own
        return None


def driver_fingerprint() -> str:
    """Return what changes when another driver or other GPUs are there; empty without a driver.

    Linux says it in files; where it does not, as in WSL, the library is started for it.
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
    family = {os.getpid(), os.getppid()}
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
        other_pids=tuple(pid for pid in _list_compute_pids(nvml, handle) if pid not in family),
    )


def _list_compute_pids(nvml: Any, handle: Any) -> tuple[int, ...]:
    """Return the processes that compute on a GPU; none where it does not say."""
    try:
        return tuple(int(one.pid) for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except Exception:  # each refusal has an error type of its own
        return ()


def read_nvml_value(query: Callable[[], Any]) -> float:
    """Return a number that not every GPU tells; 0 where this one does not."""
    try:
        return float(query())
    except Exception:  # each refusal has an error type of its own
        return 0.0


def _decode_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def may_read_counters() -> bool | None:
    """Return whether this user may read performance counters; None where nobody says."""
    try:
        text = _PARAMETERS_FILE.read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("RmProfilingAdminOnly:"):
            return line.split()[-1] == "0" or os.geteuid() == 0
    return None
