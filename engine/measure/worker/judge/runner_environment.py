"""The variables of a runner's process."""

from __future__ import annotations

import os
import site
from pathlib import Path
from typing import Any

Job = dict[str, Any]

_CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
# Or of two equal processes one recycles its heap, and one takes a page fault for every 4 KiB of
# every output: malloc decides that by what it has freed before.
_MALLOC_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}


def build_runner_environment(job: Job, private_folder: Path | None) -> dict[str, str]:
    """Return a runner's variables: the judge's idle threads must not spin, a runner's may."""
    found = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    # A pool of compilers takes longer to start than a reference takes to compile.
    found["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    found |= _MALLOC_VARIABLES
    if job["target"] == "cpu":
        # Threads that are stopped and go on may all land on one core, and spin there in turn.
        cores = sorted(os.sched_getaffinity(0))
        first = job.get("turn", 0) % len(cores)
        found["OMP_PLACES"] = ",".join(f"{{{core}}}" for core in cores[first:] + cores[:first])
        found["OMP_PROC_BIND"] = "true"
    if private_folder is None:
        return found
    # Whatever a library wants to keep goes where the runner may write.
    own = dict.fromkeys(("HOME", "TMPDIR", "CUDA_CACHE_PATH"), str(private_folder))
    own |= dict.fromkeys(_CACHE_VARIABLES, job.get("caches") or str(private_folder))
    return {**found, **own, "PYTHONUSERBASE": site.getuserbase()}  # torch may lie below the home
