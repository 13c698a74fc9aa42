"""What torch says about this machine. Importing it takes seconds, so the answer is kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.measure.machine.json_cache import keep, kept
from kernelkb.measure.machine.nvidia_driver import identity
from kernelkb.measure.process.worker_jobs import run_job, scratch_folder, worker_python

_TIMEOUT_S = 120.0
_FILE = "probes-2"


class Probe(NamedTuple):
    """What was found out, or why it was not."""

    facts: dict[str, Any] | None
    """See ``kernelkb.measure.worker.jobs.probe.probe``."""
    complaint: str | None


def probe(*, fresh: bool = False) -> Probe:
    """Ask the worker's interpreter about torch and the GPU.

    Args:
        fresh: Ask even where the answer is known and neither torch, nor the driver, nor the GPU
            have changed since.
    """
    python = worker_python()
    if shutil.which(python) is None:
        return Probe(None, f"KB_PYTHON names {python}, which cannot be run")
    key = f"{python} {identity()}"
    known = None if fresh else kept(_FILE, key)
    if known is not None and _stamp(known["file"]) == known["stamp"]:
        return Probe(known, None)
    with scratch_folder() as folder:
        end = run_job({"mode": "probe"}, folder, timeout_s=_TIMEOUT_S)
    if end.result is None:
        last = (end.end.output.strip().splitlines() or ["no output"])[-1]
        return Probe(None, f"{python} cannot import torch: {last}")
    keep(_FILE, key, {**end.result, "stamp": _stamp(end.result["file"])})
    return Probe(end.result, None)


def _stamp(file: str) -> list[float] | None:
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return [found.st_mtime, found.st_size]
