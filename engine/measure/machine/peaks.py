"""This machine's own peaks, measured once and kept."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.errors import KbError
from kernelkb.measure.machine.json_cache import read_cache, write_cache
from kernelkb.measure.process.worker_jobs import run_job, scratch_folder, threads_env
from kernelkb.measure.worker.shared.messages.other_jobs import PeaksJob
from kernelkb.model.measurement import Machine

_TIMEOUT_S = 120.0
_CACHE_NAME = "peaks-2"


class Peaks(NamedTuple):
    """What this machine can do at best."""

    copy_gbps: float
    """Large copy, bytes read plus bytes written, 1e9 per second."""
    dispatch_us: float
    """An empty foreign call on a CPU, the smallest node of a CUDA graph on a GPU."""
    launch_us: float
    """An empty kernel, launched by itself and waited for; 0 on a CPU."""
    gemm_gflops: dict[str, float]
    """A large matrix product by torch, by type: 1e9 multiplications and additions per second."""


def get_machine_peaks(machine: Machine, *, remeasure: bool = False) -> Peaks:
    """Return the machine's peaks, from the user's cache when the machine is the same.

    Args:
        machine: What was validated.
        remeasure: Measure once more, for whoever found something faster than what is kept: the
            machine may have been busy then. Of both the better is returned, and kept.

    Raises:
        KbError: The measurement failed.
    """
    key = f"{machine.target} {machine.title} {machine.core_count} torch {machine.torch}"
    found = read_cache(_CACHE_NAME, key)
    if found is not None and not remeasure:
        return Peaks(**found)
    peaks = _measure_peaks(machine)
    if found is not None:
        peaks = _combine_best(peaks, Peaks(**found))
    write_cache(_CACHE_NAME, key, peaks._asdict())
    return peaks


def _combine_best(one: Peaks, other: Peaks) -> Peaks:
    rates = {
        dtype: max(one.gemm_gflops.get(dtype, 0.0), other.gemm_gflops.get(dtype, 0.0))
        for dtype in {**one.gemm_gflops, **other.gemm_gflops}
    }
    return Peaks(
        copy_gbps=max(one.copy_gbps, other.copy_gbps),
        dispatch_us=min(one.dispatch_us, other.dispatch_us),
        launch_us=min(one.launch_us, other.launch_us),
        gemm_gflops=rates,
    )


def _measure_peaks(machine: Machine) -> Peaks:
    with scratch_folder() as folder:
        job: PeaksJob = {"mode": "peaks", "target": machine.target}
        done = run_job(job, folder, timeout_s=_TIMEOUT_S, env=threads_env(machine.core_count))
    if done.result is None:
        last = (done.process.output.strip().splitlines() or ["no output"])[-1]
        raise KbError(f"the copy bandwidth of {machine.title} could not be measured: {last}")
    return Peaks(**done.result)
