"""Starts the interpreter of a runner process, with its environment variables."""

from __future__ import annotations

import json
import os
import site
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from kernelkb.measure.worker.shared.messages.runner_commands import ServeJob
from kernelkb.measure.worker.shared.messages.specs import RunnerSpec, Target

StartRunner: TypeAlias = Callable[
    [Sequence[str], ServeJob, Path, IO[bytes], Mapping[str, str]], "subprocess.Popen[bytes]"
]
"""Starts the process of a runner, with the arguments of ``start_interpreter``."""
_WORKER_SCRIPT = Path(__file__).parents[2] / "start.py"

_CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
# Without fixed thresholds malloc adapts them to what was freed before: of two equal processes one
# reuses its heap and the other takes a page fault for every 4 KiB of every output.
_MALLOC_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}


def build_environment(
    spec: RunnerSpec, target: Target, private_folder: Path | None
) -> dict[str, str]:
    """Return all environment variables of a runner.

    Args:
        spec: The runner.
        target: ``cpu`` or ``cuda``.
        private_folder: The only folder that a sandboxed runner may write to, besides its cache
            folder; None without a sandbox.
    """
    # The judge's idle OpenMP threads must not spin; a runner's may.
    variables = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    # A pool of compiler processes takes longer to start than a reference takes to compile.
    variables["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    variables |= _MALLOC_VARIABLES
    if target == "cpu":
        # Unbound threads that were stopped may all resume on one core and spin there in turn.
        # The order is the same for all runners, of which one runs at a time, since cores are not
        # equal: devices interrupt the first, so it comes last.
        cores = sorted(os.sched_getaffinity(0))
        places = (f"{{{core}}}" for core in cores[1:] + cores[:1])
        variables["OMP_PLACES"] = ",".join(places)
        variables["OMP_PROC_BIND"] = "true"
    if private_folder is None:
        return variables
    folder = str(private_folder)
    variables |= dict.fromkeys(("HOME", "TMPDIR", "CUDA_CACHE_PATH"), folder)
    variables |= dict.fromkeys(_CACHE_VARIABLES, spec["cache_folder"] or folder)
    # torch may be installed below the user's home folder.
    return {**variables, "PYTHONUSERBASE": site.getuserbase()}


def make_job(
    spec: RunnerSpec, target: Target, channel: socket.socket, *, is_confined: bool
) -> ServeJob:
    """Return the job of a runner that answers on a channel.

    Args:
        spec: The runner.
        target: ``cpu`` or ``cuda``.
        channel: Its end of the channel, which it inherits.
        is_confined: Whether it is sandboxed; if not, it adopts the orphans of its code itself.
    """
    return {
        "mode": "serve",
        "target": target,
        "code": spec["code"],
        "channel": channel.fileno(),
        "adopts_orphans": not is_confined,
    }


def start_interpreter(
    sandbox: Sequence[str],
    job: ServeJob,
    folder: Path,
    log_file: IO[bytes],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start a runner's interpreter.

    Args:
        sandbox: The command that confines it; empty for none.
        job: Written to the folder.
        folder: Its working directory.
        log_file: Receives what it prints.
        environment: All its variables.
    """
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(job), encoding="utf-8")
    return subprocess.Popen(
        [*sandbox, sys.executable, "-P", str(_WORKER_SCRIPT), str(job_file)],
        stdin=subprocess.DEVNULL,
        stdout=log_file,
        stderr=subprocess.STDOUT,
        pass_fds=(job["channel"],),
        env=environment,
        cwd=folder,
    )
