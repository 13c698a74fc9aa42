"""What the NVIDIA driver says, without CUDA and without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_PROC = Path("/proc/driver/nvidia")
_PARAMETERS, _VERSION, _GPUS = _PROC / "params", _PROC / "version", _PROC / "gpus"


class Gpu(NamedTuple):
    """One GPU of this machine."""

    at: int
    name: str
    uuid: str
    cc: str
    memory_bytes: int
    used_bytes: int
    sm_mhz: float
    sm_max_mhz: float
    temperature_c: float
    throttle_bits: int
    exclusive: bool
    """Only one process at a time may use it, so judge and candidate cannot both."""
    mig: bool
    others: tuple[int, ...]
    """Processes that use it now, none of them ours."""


class Driver(NamedTuple):
    """The driver and its GPUs."""

    version: str
    cuda: str
    """The newest CUDA that it can run."""
    gpus: tuple[Gpu, ...]


@contextmanager
def _library() -> Iterator[Any]:
    import pynvml as nvml

    nvml.nvmlInit()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def driver() -> Driver | None:
    """Return what the driver says; None where there is no driver."""
    try:
        with _library() as nvml:
            number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
            return Driver(
                _text(nvml.nvmlSystemGetDriverVersion()),
                f"{number // 1000}.{number % 1000 // 10}",
                tuple(_gpu(nvml, at) for at in range(nvml.nvmlDeviceGetCount())),
            )
    except Exception:  # no library, no driver, no device: each has an error type of its own
        return None


def identity() -> str:
    """Return what changes when another driver or other GPUs are there; empty without a driver.

    Linux says it in files; where it does not, as in WSL, the library is started for it.
    """
    try:
        texts = [
            path.read_text("utf-8") for path in (_VERSION, *sorted(_GPUS.glob("*/information")))
        ]
    except OSError:
        return _identity_by_library()
    return " ".join([*texts, os.environ.get("CUDA_VISIBLE_DEVICES", "all")])


def _identity_by_library() -> str:
    try:
        with _library() as nvml:
            gpus = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
            parts = [nvml.nvmlSystemGetDriverVersion(), *map(nvml.nvmlDeviceGetUUID, gpus)]
    except Exception:  # see above
        return ""
    return " ".join([*map(_text, parts), os.environ.get("CUDA_VISIBLE_DEVICES", "all")])


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    family = {os.getpid(), os.getppid()}
    exclusive = nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    return Gpu(
        at=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        cc=f"{major}.{minor}",
        memory_bytes=int(memory.total),
        used_bytes=int(memory.used),
        sm_mhz=told(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        sm_max_mhz=told(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        temperature_c=told(
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        ),
        throttle_bits=int(told(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
        exclusive=told(lambda: nvml.nvmlDeviceGetComputeMode(handle)) == exclusive,
        mig=told(lambda: nvml.nvmlDeviceGetMigMode(handle)[0]) == 1,
        others=tuple(pid for pid in _users(nvml, handle) if pid not in family),
    )


def _users(nvml: Any, handle: Any) -> tuple[int, ...]:
    """Return the processes that compute on a GPU; none where it does not say."""
    try:
        return tuple(int(one.pid) for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except Exception:  # each refusal has an error type of its own
        return ()


def told(ask: Callable[[], Any]) -> float:
    """Return a number that not every GPU tells; 0 where this one does not."""
    try:
        return float(ask())
    except Exception:  # each refusal has an error type of its own
        return 0.0


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def counters_allowed() -> bool | None:
    """Return whether this user may read performance counters; None where nobody says."""
    try:
        text = _PARAMETERS.read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("RmProfilingAdminOnly:"):
            return line.split()[-1] == "0" or os.geteuid() == 0
    return None
