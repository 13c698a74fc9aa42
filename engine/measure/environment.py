"""Can this machine build, run and time a kernel? Each line says what was found and the cure."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

from engine.measure.hardware import cache_bytes, core_count, cpu_title, simd_lanes
from engine.measure.jobs import run_job, scratch_folder, worker_python
from engine.model.base import Target
from engine.model.measurement import Environment, EnvironmentLine, Machine

Wanted = Literal["auto", "cpu", "cuda"]
_PROBE_TIMEOUT_S = 120.0
_ENOUGH_DISK = 2**30


def inspect(wanted: Wanted, workdir: Path) -> Environment:
    """Validate the machine for a target.

    Args:
        wanted: ``auto`` takes CUDA where there is a GPU that torch sees and nvcc, else the CPU.
        workdir: Where builds will be written.

    Returns:
        All lines; ``machine`` is None when one of them is a failure.
    """
    started = time.monotonic()
    probe, torch_line = _probe()
    nvcc, ncu = find_nvcc(), find_ncu()
    gpu = probe.get("gpu") if probe else None
    target: Target = "cuda" if wanted == "cuda" or (wanted == "auto" and gpu and nvcc) else "cpu"
    lines = [torch_line, _ninja(), _disk(workdir)]
    if target == "cuda":
        lines += [_gpu_line(gpu, probe), _compiler("nvcc", nvcc, _NVCC_CURE), _ncu_line(ncu)]
        compiler = nvcc
    else:
        compiler = find_cxx()
        lines += [_cpu_line(), _compiler("C++ compiler", compiler, _CXX_CURE)]
    failed = any(line.status == "failure" for line in lines)
    machine = None if failed or not (probe and compiler) else _machine(target, probe, compiler)
    seconds = time.monotonic() - started
    return Environment(target=target, lines=tuple(lines), machine=machine, seconds=seconds)


_CXX_CURE = "install one (Debian, Ubuntu: apt-get install g++) or set CXX to it"
_NVCC_CURE = "install the CUDA toolkit, put nvcc on PATH or set CUDA_HOME; or use --target cpu"
_TORCH_CURE = "pip install 'kernelkb[torch]', or set KB_PYTHON to the interpreter that has torch"


def find_cxx() -> str | None:
    """Return the C++ compiler: CXX when it is set, else the first of c++, g++, clang++."""
    chosen = os.environ.get("CXX")
    names = (chosen,) if chosen else ("c++", "g++", "clang++")
    return next((path for name in names if (path := shutil.which(name))), None)


def find_nvcc() -> str | None:
    """Return nvcc of CUDA_HOME, else of PATH, else of the usual place."""
    home = os.environ.get("CUDA_HOME")
    if home:
        return shutil.which("nvcc", path=f"{home}/bin")
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def find_ncu() -> str | None:
    """Return Nsight Compute's command line."""
    return shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")


def find_ninja() -> str | None:
    """Return ninja: the package's own, else the one on PATH."""
    try:
        from ninja import BIN_DIR
    except ImportError:
        return shutil.which("ninja")
    return shutil.which("ninja", path=BIN_DIR) or shutil.which("ninja")


def version_line(program: str) -> str:
    """Return the line of ``--version`` that holds the version."""
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    release = [line for line in lines if "release" in line]
    return (release or lines or ["no version given"])[0].strip()


_PROBED: dict[str, dict[str, Any]] = {}  # importing torch takes seconds: once for each process


def _probe() -> tuple[dict[str, Any] | None, EnvironmentLine]:
    python = worker_python()
    if python in _PROBED:
        return _PROBED[python], _torch_line(_PROBED[python])
    if shutil.which(python) is None:
        found = f"KB_PYTHON names {python}, which cannot be run"
        return None, EnvironmentLine(name="torch", status="failure", found=found, cure=_TORCH_CURE)
    with scratch_folder() as folder:
        end = run_job({"mode": "probe"}, folder, timeout_s=_PROBE_TIMEOUT_S)
    if end.result is None:
        last = end.end.output.strip().splitlines() or ["no output"]
        found = f"{python} cannot import torch: {last[-1]}"
        return None, EnvironmentLine(name="torch", status="failure", found=found, cure=_TORCH_CURE)
    _PROBED[python] = end.result
    return end.result, _torch_line(end.result)


def _torch_line(probe: dict[str, Any]) -> EnvironmentLine:
    found = f"torch {probe['torch']} in Python {probe['python']}"
    return EnvironmentLine(name="torch", status="ok", found=found)


def _ninja() -> EnvironmentLine:
    ninja = find_ninja()
    if ninja is None:
        cure = "pip install ninja"
        return EnvironmentLine(name="ninja", status="failure", found="not found", cure=cure)
    return EnvironmentLine(name="ninja", status="ok", found=f"ninja {version_line(ninja)}")


def _disk(workdir: Path) -> EnvironmentLine:
    existing = next(p for p in (workdir, *workdir.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 2**30:.0f} GiB free for builds"
    if not os.access(existing, os.W_OK):
        cure = "run in a project that you may write to"
        return EnvironmentLine(name="disk", status="failure", found="not writable", cure=cure)
    if free < _ENOUGH_DISK:
        cure = f"free some space, or delete {workdir}"
        return EnvironmentLine(name="disk", status="warning", found=found, cure=cure)
    return EnvironmentLine(name="disk", status="ok", found=found)


def _compiler(name: str, path: str | None, cure: str) -> EnvironmentLine:
    if path is None:
        chosen = os.environ.get("CUDA_HOME" if name == "nvcc" else "CXX")
        found = f"not found at {chosen}" if chosen else "not found"
        return EnvironmentLine(name=name, status="failure", found=found, cure=cure)
    return EnvironmentLine(name=name, status="ok", found=version_line(path))


def _cpu_line() -> EnvironmentLine:
    cache = cache_bytes() / 2**20
    found = f"{cpu_title()}, {core_count()} cores, {cache:.0f} MiB cache, {simd_lanes()} fp32 lanes"
    return EnvironmentLine(name="CPU", status="ok", found=found)


def _gpu_line(gpu: dict[str, Any] | None, probe: dict[str, Any] | None) -> EnvironmentLine:
    if gpu:
        found = f"{gpu['name']}, compute capability {gpu['cc']}, {gpu['sm_count']} SMs"
        return EnvironmentLine(name="GPU", status="ok", found=found)
    cure = "check the driver with nvidia-smi and that torch is a CUDA build; or use --target cpu"
    built = f"torch {probe['torch']} sees none" if probe else "torch is missing"
    return EnvironmentLine(name="GPU", status="failure", found=built, cure=cure)


def _ncu_line(ncu: str | None) -> EnvironmentLine:
    if ncu is None:
        cure = "install Nsight Compute for causes; without it only times are measured"
        return EnvironmentLine(name="ncu", status="warning", found="not found", cure=cure)
    return EnvironmentLine(name="ncu", status="ok", found=_ncu_version(ncu))


def _ncu_version(ncu: str) -> str:
    done = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("Version")]
    return (lines or ["no version given"])[0]


def _machine(target: Target, probe: dict[str, Any], compiler: str) -> Machine:
    gpu = probe["gpu"] if target == "cuda" else None
    return Machine(
        target=target,
        title=gpu["name"] if gpu else cpu_title(),
        core_count=core_count(),
        cache_bytes=gpu["l2_bytes"] if gpu else cache_bytes(),
        simd_lanes_count=simd_lanes(),
        cc=gpu["cc"] if gpu else None,
        compiler=compiler,
        compiler_version=version_line(compiler),
        python=worker_python(),
        torch=probe["torch"],
    )
