"""Jobs for the worker: what to run, in a child, with what limits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import kernelkb
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.process.subprocesses import ProcessResult, run_supervised
from kernelkb.model.kernel import Array, Input

_WORKER_SCRIPT = Path(next(iter(kernelkb.__path__))) / "measure" / "worker" / "start.py"

MODULE_SEED = 42
"""Draws the weights of a ``torch.nn.Module``, the same in reference and candidate."""

Job = dict[str, Any]
_SCRATCH_FOLDERS: set[str] = set()
_REMOVAL_TIMEOUT_S = 2.0


class JobRun(NamedTuple):
    """A finished child and what it left behind."""

    result: Job | None
    """None when the child did not get to the end."""
    process: ProcessResult
    last_step: str
    """The case that was being run last."""


def worker_python() -> str:
    """Return the interpreter that holds torch: KB_PYTHON, else this one."""
    return os.environ.get("KB_PYTHON") or sys.executable


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder for one job's files; it is gone afterwards, whatever happened."""
    with remove_afterwards(Path(tempfile.mkdtemp(prefix="kernelkb-"))) as folder:
        yield folder


@contextmanager
def remove_afterwards(folder: Path) -> Iterator[Path]:
    """Yield a folder that is there; it is gone after this block, and at the end of this process."""
    _SCRATCH_FOLDERS.add(str(folder))
    try:
        yield folder
    finally:
        remove_tree(folder)
        _SCRATCH_FOLDERS.discard(str(folder))  # not before: whoever ends this process waits for it


def remove_tree(folder: str | Path) -> None:
    """Remove a folder with all that is in it, however deep somebody has made it.

    Python's own way calls itself for each level, before 3.13.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], check=False)


def remove_scratch_folders() -> None:
    """Remove every scratch folder: for whoever is about to end this process.

    A thread that was cancelled may be removing the same one; where each takes what the other is
    about to take, both fail, so it is done again.
    """
    end = time.monotonic() + _REMOVAL_TIMEOUT_S
    for name in tuple(_SCRATCH_FOLDERS):
        remove_tree(name)
        while os.path.lexists(name) and time.monotonic() < end:
            time.sleep(0.01)
            remove_tree(name)


def run_job(
    job: Job,
    folder: Path,
    *,
    timeout_s: float,
    wrapper: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
) -> JobRun:
    """Run one job in a child.

    Args:
        job: See ``kernelkb.measure.worker.main``; must name its ``mode``.
        folder: Where the job, its result and its files go.
        timeout_s: Wall-clock limit.
        wrapper: A program that runs the child for us, such as ncu with its arguments.
        env: Variables on top of our own.
    """
    job_file = folder / f"{job['mode']}.json"
    job_file.write_text(json.dumps(job), encoding="utf-8")
    result_file = folder / "result.json"
    result_file.unlink(missing_ok=True)
    argv = [*wrapper, worker_python(), "-P", str(_WORKER_SCRIPT), str(job_file)]
    quiet = {"PYTHONWARNINGS": "ignore", **(env or {})}  # the log is for what the kernel says
    end = run_supervised(argv, log=folder / f"{job['mode']}.log", timeout_s=timeout_s, env=quiet)
    progress = folder / "progress"
    return JobRun(
        _read_result(result_file) if end.returncode == 0 else None,
        end,
        progress.read_text(encoding="utf-8") if progress.exists() else "",
    )


def threads_env(core_count: int) -> dict[str, str]:
    """Give judge, candidate and rivals the same number of threads; the judge's do not spin."""
    return {"OMP_NUM_THREADS": str(core_count), "OMP_WAIT_POLICY": "passive"}


def make_case_spec(
    kernel_folder: KernelFolder, name: str, sizes: Mapping[str, int], selftest: bool = False
) -> Job:
    """Return one case of a job: concrete shapes, and the axes in the entry point's order."""
    kernel = kernel_folder.kernel
    return {
        "name": name,
        "selftest": selftest,
        "axis_names": list(kernel.axes),
        "axes": [sizes[axis] for axis in kernel.axes],
        "inputs": [_make_input_spec(array, sizes) for array in kernel.inputs],
        "outputs": [
            {**_make_array_spec(array, sizes), "starts_as": array.starts_as}
            for array in kernel.outputs
        ],
    }


def make_reference_spec(kernel_folder: KernelFolder) -> Job:
    """Return where the torch reference is, and what kind it is of."""
    reference = kernel_folder.kernel.reference
    file = str(kernel_folder.folder / reference.file)
    if reference.module:
        return {"kind": "module", "file": file, "entry": reference.module, "seed": MODULE_SEED}
    return {
        "kind": "python",
        "file": file,
        "entry": reference.function,
        "returns": True,
        "inputs": reference.inputs,
    }


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Return sizes as text: ``rows=3 cols=1000``."""
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())


def _make_input_spec(array: Input, sizes: Mapping[str, int]) -> Job:
    if array.value is not None:
        value = bool(array.value) if array.dtype == "bool" else array.value
        return {"name": array.name, "value": value}
    return {**_make_array_spec(array, sizes), "fill": array.fill, "scale": array.scale}


def _make_array_spec(array: Array, sizes: Mapping[str, int]) -> Job:
    shape = [d if isinstance(d, int) else sizes[d] for d in array.shape]
    return {"name": array.name, "shape": shape, "dtype": array.dtype}


def _read_result(path: Path) -> Job | None:
    try:
        result: Job = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result
