"""This machine's peaks: copy bandwidth, GEMM rates, launch cost; measured once, then cached."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.errors import KbError
from kernelkb.measure.machine.json_cache import read_cache, write_cache
from kernelkb.measure.process.scratch_folders import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job, threads_env
from kernelkb.measure.worker.shared.messages.other_jobs import PeaksJob
from kernelkb.model.records.measurement import Machine

_TIMEOUT_S = 120.0
"""Chosen: many times what an idle machine takes."""
_CACHE_NAME = "peaks-2"
"""The number counts incompatible changes of ``Peaks``."""


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
    cached = read_cache(_CACHE_NAME, key)
    if cached is not None and not remeasure:
        return Peaks(**cached)
    peaks = _measure_peaks(machine)
    if cached is not None:
        peaks = _combine_best(peaks, Peaks(**cached))
    write_cache(_CACHE_NAME, key, peaks._asdict())
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
        done = run_job(job, folder, timeout_s=_TIMEOUT_S, env=threads_env(machine.core_count))
    if done.result is None:
        last = (done.process.output.strip().splitlines() or ["no output"])[-1]
        raise KbError(f"the peaks of {machine.title} could not be measured: {last}")
    return Peaks(**done.result)
