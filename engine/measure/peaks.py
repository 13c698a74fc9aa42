"""This machine's own peaks, measured once and kept."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import KbError
from engine.loading.paths import cache_folder
from engine.measure.jobs import run_job, scratch_folder, threads_env
from engine.model.measurement import Machine

_TIMEOUT_S = 120.0


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


def machine_peaks(machine: Machine) -> Peaks:
    """Return the machine's peaks, from the user's cache when the machine is the same.

    Raises:
        KbError: The measurement failed.
    """
    path = Path(cache_folder()) / "peaks-2.json"
    key = f"{machine.target} {machine.title} {machine.core_count} torch {machine.torch}"
    kept = _read(path)
    if key not in kept:
        kept[key] = _measure(machine)._asdict()
        _write(path, kept)
    return Peaks(**kept[key])


def _measure(machine: Machine) -> Peaks:
    with scratch_folder() as folder:
        job = {"mode": "peaks", "target": machine.target}
        done = run_job(job, folder, timeout_s=_TIMEOUT_S, env=threads_env(machine.core_count))
    if done.result is None:
        last = (done.end.output.strip().splitlines() or ["no output"])[-1]
        raise KbError(f"the copy bandwidth of {machine.title} could not be measured: {last}")
    return Peaks(**done.result)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(kept) if isinstance(kept, dict) else {}


def _write(path: Path, kept: dict[str, dict[str, Any]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(kept, file, indent=1)
        Path(name).replace(path)
    except OSError:
        return  # a read-only home costs a measurement each time, no more
