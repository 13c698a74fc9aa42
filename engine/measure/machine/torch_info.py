"""What torch says about this machine. Importing it takes seconds, so the answer is kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.machine.json_cache import read_cache, write_cache
from kernelkb.measure.machine.nvidia_driver import driver_fingerprint
from kernelkb.measure.process.worker_jobs import run_job, scratch_folder, worker_python
from kernelkb.measure.worker.shared.messages.other_jobs import ProbeResult

_TIMEOUT_S = 120.0
_CACHE_NAME = "probes-2"


class TorchInfo(NamedTuple):
    """What was found out, or why it was not."""

    facts: ProbeResult | None
    """See ``kernelkb.measure.worker.jobs.probe.probe_torch``."""
    error: str | None


def query_torch_info(*, fresh: bool = False) -> TorchInfo:
    """Ask the worker's interpreter about torch and the GPU.

    Args:
        fresh: Ask even where the answer is known and neither torch, nor the driver, nor the GPU
            have changed since.
    """
    python = worker_python()
    if shutil.which(python) is None:
        return TorchInfo(None, f"KB_PYTHON names {python}, which cannot be run")
    key = f"{python} {driver_fingerprint()}"
    known = None if fresh else read_cache(_CACHE_NAME, key)
    if known is not None and _stat_stamp(known["file"]) == known["stamp"]:
        return TorchInfo(known, None)
    with scratch_folder() as folder:
        end = run_job({"mode": "probe"}, folder, timeout_s=_TIMEOUT_S)
    if end.result is None:
        last = (end.process.output.strip().splitlines() or ["no output"])[-1]
        return TorchInfo(None, f"{python} cannot import torch: {last}")
    write_cache(_CACHE_NAME, key, {**end.result, "stamp": _stat_stamp(end.result["file"])})
    return TorchInfo(end.result, None)


def _stat_stamp(file: str) -> list[float] | None:
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return [found.st_mtime, found.st_size]
