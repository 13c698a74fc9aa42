"""What torch says of this machine and the peaks that it reaches; cached, as importing is slow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import KbError
from kernelkb.measure.machine.cached_facts import read_cache, write_cache
from kernelkb.measure.machine.nvidia_driver import driver_fingerprint
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job, threads_env, worker_python
from kernelkb.measure.worker.shared.messages.jobs import PeaksJob, ProbeResult
from kernelkb.model.records.measurement import Machine

_PROBE_TIMEOUT_S = 120.0
"""Importing torch took 18 s on a machine under full load; 1.4 s is usual."""
_PROBE_CACHE = "probes-2"
"""The number counts incompatible changes of the facts."""

_PEAKS_TIMEOUT_S = 120.0
"""Chosen: many times what an idle machine takes."""
_PEAKS_CACHE = "peaks-2"
"""The number counts incompatible changes of ``Peaks``."""


class TorchInfo(NamedTuple):
    """The facts about torch, or the reason why there are none."""

    facts: ProbeResult | None
    """See ``kernelkb.measure.worker.jobs.probe.probe_torch``."""
    error: str | None


def query_torch_info(*, fresh: bool = False) -> TorchInfo:
    """Return the facts about torch and the GPU, from the cache unless torch or the driver changed.

    Args:
        fresh: Query again, even if the facts are cached.
    """
    python = worker_python()
    if shutil.which(python) is None:
        return TorchInfo(None, f"KB_PYTHON is {python}, which is not an executable program")
    key = f"{python} {driver_fingerprint()}"
    cached = None if fresh else read_cache(_PROBE_CACHE, key)
    if cached is not None and _stat_stamp(cached["file"]) == cached["stamp"]:
        return TorchInfo(cached, None)
    with scratch_folder() as folder:
        end = run_job({"mode": "probe"}, folder, timeout_s=_PROBE_TIMEOUT_S)
    if end.result is None:
        last = (end.process.output.strip().splitlines() or ["no output"])[-1]
        return TorchInfo(None, f"{python} cannot import torch: {last}")
    write_cache(_PROBE_CACHE, key, {**end.result, "stamp": _stat_stamp(end.result["file"])})
    return TorchInfo(end.result, None)


def _stat_stamp(file: str) -> list[float] | None:
    """Return a file's modification time and size; None when it is gone."""
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return [status.st_mtime, status.st_size]


class Peaks(NamedTuple):
    """The best rates and costs measured on this machine."""

    copy_gbps: float
    """A large copy: bytes read plus bytes written, 1e9 per second."""
    dispatch_us: float
    """An empty ctypes call on a CPU; the smallest node of a CUDA graph on a GPU."""
    launch_us: float
    """An empty kernel, launched alone and synchronised; 0 on a CPU."""
    gemm_gflops: dict[str, float]
    """torch's large matrix product by dtype: 1e9 multiplications and additions per second."""


def get_machine_peaks(machine: Machine, *, remeasure: bool = False) -> Peaks:
    """Return the machine's peaks, from the user's cache where it has them.

    Args:
        machine: From ``inspect_machine``.
        remeasure: Measure again, because a kernel beat the cached peaks: the machine may have been
            busy when they were measured. The better of both is returned and cached.

    Raises:
        KbError: The measurement failed.
    """
    key = f"{machine.target} {machine.title} {machine.core_count} torch {machine.torch}"
    cached = read_cache(_PEAKS_CACHE, key)
    if cached is not None and not remeasure:
        return Peaks(**cached)
    peaks = _measure_peaks(machine)
    if cached is not None:
        peaks = _combine_best(peaks, Peaks(**cached))
    write_cache(_PEAKS_CACHE, key, peaks._asdict())
    return peaks


def _combine_best(first: Peaks, second: Peaks) -> Peaks:
    rates = {
        dtype: max(first.gemm_gflops.get(dtype, 0.0), second.gemm_gflops.get(dtype, 0.0))
        for dtype in {**first.gemm_gflops, **second.gemm_gflops}
    }
    return Peaks(
        copy_gbps=max(first.copy_gbps, second.copy_gbps),
        dispatch_us=min(first.dispatch_us, second.dispatch_us),
        launch_us=min(first.launch_us, second.launch_us),
        gemm_gflops=rates,
    )


def _measure_peaks(machine: Machine) -> Peaks:
    with scratch_folder() as folder:
        job: PeaksJob = {"mode": "peaks", "target": machine.target}
        done = run_job(job, folder, timeout_s=_PEAKS_TIMEOUT_S, env=threads_env(machine.core_count))
    if done.result is None:
        last = (done.process.output.strip().splitlines() or ["no output"])[-1]
        raise KbError(f"the peaks of {machine.title} could not be measured: {last}")
    return Peaks(**done.result)
