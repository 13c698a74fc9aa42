"""Facts about torch and the GPU from the worker's interpreter; cached, as importing is slow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.machine.json_cache import read_cache, write_cache
from kernelkb.measure.machine.nvidia_driver import driver_fingerprint
from kernelkb.measure.process.scratch_folders import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job, worker_python
from kernelkb.measure.worker.shared.messages.other_jobs import ProbeResult

_TIMEOUT_S = 120.0
"""Importing torch took 18 s on a machine under full load; 1.4 s is usual."""
_CACHE_NAME = "probes-2"
"""The number counts incompatible changes of the facts."""


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
    cached = None if fresh else read_cache(_CACHE_NAME, key)
    if cached is not None and _stat_stamp(cached["file"]) == cached["stamp"]:
        return TorchInfo(cached, None)
    with scratch_folder() as folder:
        end = run_job({"mode": "probe"}, folder, timeout_s=_TIMEOUT_S)
    if end.result is None:
        last = (end.process.output.strip().splitlines() or ["no output"])[-1]
        return TorchInfo(None, f"{python} cannot import torch: {last}")
    write_cache(_CACHE_NAME, key, {**end.result, "stamp": _stat_stamp(end.result["file"])})
    return TorchInfo(end.result, None)


def _stat_stamp(file: str) -> list[float] | None:
    """Return a file's modification time and size; None when it is gone."""
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return [status.st_mtime, status.st_size]
