"""Can this machine build, run and time a kernel? Each line says what was found and the cure."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kernelkb.measure.machine.cpu_info import cache_bytes, core_count, cpu_title, simd_lanes
from kernelkb.measure.machine.gpu_telemetry import ABNORMAL_THROTTLE_BITS, THROTTLE_REASONS
from kernelkb.measure.machine.nvidia_driver import (
    NvidiaDriver,
    NvidiaGpu,
    may_read_counters,
    query_driver,
)
from kernelkb.measure.machine.tools import (
    find_cuda_tool,
    find_cxx,
    find_ninja,
    find_nvcc,
    query_version,
)
from kernelkb.measure.machine.torch_info import TorchInfo, query_torch_info
from kernelkb.measure.process.candidate_sandbox import detect_layers
from kernelkb.measure.process.worker_jobs import worker_python
from kernelkb.model.base import Target
from kernelkb.model.measurement import Environment, EnvironmentLine, Machine, Status

TargetChoice = Literal["auto", "cpu", "cuda"]
_MIN_DISK_BYTES = 2**30
_MAX_TEMPERATURE_C = 85.0
_PREEMPTION_VARIABLES = (
    "PREEMPTIBLE",
    "SPOT_INSTANCE",
    "SLURM_JOB_END_TIME",
    "AWS_SPOT_INSTANCE",
    "GOOGLE_CLOUD_PREEMPTIBLE",
)

_CXX_CURE = "install one (Debian, Ubuntu: apt-get install g++) or set CXX to it"
_NVCC_CURE = "install the CUDA toolkit, put nvcc on PATH or set CUDA_HOME"
_TORCH_CURE = "pip install 'kernelkb[torch]', or set KB_PYTHON to the interpreter that has torch"


def inspect_machine(
    target_choice: TargetChoice, workdir: Path, *, fresh: bool = False
) -> Environment:
    """Validate the machine for a target.

    Args:
        target_choice: ``auto`` takes CUDA where there is a GPU that torch sees and nvcc, else the
            CPU.
        workdir: Where builds will be written.
        fresh: Look at everything now, and at what matters only to a person too: other users of
            the GPU, clocks, counters. Otherwise what torch said before is believed.

    Returns:
        All lines; ``machine`` is None when one of them is a failure.
    """
    started = time.monotonic()
    asked = query_torch_info(fresh=fresh)
    facts, nvcc = asked.facts, find_nvcc()
    gpu = facts.get("gpu") if facts else None
    target: Target = (
        "cuda" if target_choice == "cuda" or (target_choice == "auto" and gpu and nvcc) else "cpu"
    )
    lines = [_check_torch(asked, target), _check_ninja(), _check_disk(workdir)]
    compiler = nvcc if target == "cuda" else find_cxx()
    if target == "cuda":
        lines += [_check_gpu(gpu, facts), _check_compiler("nvcc", nvcc, _NVCC_CURE)]
        lines += [_check_compiler("C++ compiler", find_cxx(), _CXX_CURE)] if fresh else []
        lines += _check_gpu_details(gpu) if fresh else []
    else:
        lines += [_check_cpu(), _check_compiler("C++ compiler", compiler, _CXX_CURE)]
    lines += [_check_sandbox(), *_check_preemption()] if fresh else []
    failed = any(line.status == "failure" for line in lines)
    machine = None if failed or not (facts and compiler) else _make_machine(target, facts, compiler)
    seconds = time.monotonic() - started
    return Environment(target=target, lines=tuple(lines), machine=machine, seconds=seconds)


def inspect_compiler(cc: str, workdir: Path) -> Environment:
    """Validate the machine for compiling only: neither a GPU nor torch is asked for.

    Args:
        cc: Compute capability of the GPU that is not here.
        workdir: Where builds will be written.
    """
    started = time.monotonic()
    nvcc = find_nvcc()
    lines = (_check_ninja(), _check_disk(workdir), _check_compiler("nvcc", nvcc, _NVCC_CURE))
    failed = any(line.status == "failure" for line in lines)
    gpu = {"name": f"a GPU of compute capability {cc}", "cc": cc, "l2_bytes": 0}
    facts = {"gpu": gpu, "torch": "none"}
    machine = None if failed or nvcc is None else _make_machine("cuda", facts, nvcc)
    seconds = time.monotonic() - started
    return Environment(target="cuda", lines=lines, machine=machine, seconds=seconds)


def _make_line(name: str, status: Status, found: str, cure: str | None = None) -> EnvironmentLine:
    return EnvironmentLine(name=name, status=status, found=found, cure=cure)


def _check_torch(torch_info: TorchInfo, target: Target) -> EnvironmentLine:
    facts = torch_info.facts
    if facts is None:
        return _make_line("torch", "failure", torch_info.error or "unknown", _TORCH_CURE)
    abi = "new" if facts["cxx11_abi"] else "old"
    built = f"for CUDA {facts['cuda']}" if facts["cuda"] else "for CPUs only"
    text = f"torch {facts['torch']} {built}, {abi} C++ ABI, in Python {facts['python']}"
    if target == "cuda" and not facts["cuda"]:
        cure = "install a CUDA build of torch (pytorch.org/get-started)"
        return _make_line("torch", "failure", text, cure)
    return _make_line("torch", "ok", text)


def _check_ninja() -> EnvironmentLine:
    ninja = find_ninja()
    if ninja is None:
        return _make_line("ninja", "failure", "not found", "pip install ninja")
    return _make_line("ninja", "ok", f"ninja {query_version(ninja)}")


def _check_disk(workdir: Path) -> EnvironmentLine:
    existing = next(p for p in (workdir, *workdir.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 2**30:.0f} GiB free for builds"
    if not os.access(existing, os.W_OK):
        return _make_line(
            "disk", "failure", f"{existing} is not writable", "run in a project that you may write"
        )
    if free < _MIN_DISK_BYTES:
        return _make_line("disk", "warning", found, f"free some space, or delete {workdir}")
    return _make_line("disk", "ok", found)


def _check_compiler(name: str, path: str | None, cure: str) -> EnvironmentLine:
    if path is None:
        chosen = os.environ.get("CUDA_HOME" if name == "nvcc" else "CXX")
        return _make_line(
            name, "failure", f"not found at {chosen}" if chosen else "not found", cure
        )
    return _make_line(name, "ok", query_version(path))


def _check_cpu() -> EnvironmentLine:
    cache = cache_bytes() / 2**20
    found = f"{cpu_title()}, {core_count()} cores, {cache:.0f} MiB cache, {simd_lanes()} fp32 lanes"
    return _make_line("CPU", "ok", found)


def _check_gpu(gpu: Mapping[str, Any] | None, facts: Mapping[str, Any] | None) -> EnvironmentLine:
    if gpu:
        found = f"{gpu['name']}, compute capability {gpu['cc']}, {gpu['sm_count']} SMs"
        return _make_line("GPU", "ok", found)
    cure = "check the driver with nvidia-smi and that torch is a CUDA build"
    return _make_line(
        "GPU", "failure", f"torch {facts['torch']} sees none" if facts else "torch is missing", cure
    )


def _check_gpu_details(gpu: Mapping[str, Any] | None) -> list[EnvironmentLine]:
    found = query_driver()
    if found is None:
        cure = "install the NVIDIA driver; inside a container, start it with --gpus all"
        return [_make_line("driver", "failure", "no driver answers", cure)]
    version = f"driver {found.version}, runs CUDA up to {found.cuda_version}"
    lines = [_make_line("driver", "ok", version), _check_counters()]
    first = _find_driver_gpu(found, gpu)
    return lines if first is None else [*lines, *_check_gpu_state(first)]


def _find_driver_gpu(
    nvidia_driver: NvidiaDriver, gpu: Mapping[str, Any] | None
) -> NvidiaGpu | None:
    """Return the driver's view of the GPU that torch uses; CUDA may count them otherwise."""
    same = [one for one in nvidia_driver.gpus if gpu and one.name == gpu["name"]]
    return next(iter(same or nvidia_driver.gpus), None)


def _check_counters() -> EnvironmentLine:
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        cure = "install Nsight Compute for causes; without it only times are measured"
        return _make_line("ncu", "warning", "not found", cure)
    version = f"ncu {query_version(ncu).removeprefix('Version ')}"
    allowed = may_read_counters()
    if allowed is False:
        cure = "run as administrator, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        return _make_line(
            "ncu", "warning", f"{version}; only an administrator reads counters", cure
        )
    unsure = "" if allowed else "; whether counters may be read shows only when they are"
    return _make_line("ncu", "ok", version + unsure)


def _check_gpu_state(gpu: NvidiaGpu) -> list[EnvironmentLine]:
    clock = f"{gpu.sm_mhz:.0f} of {gpu.sm_max_mhz:.0f} MHz, {gpu.temperature_c:.0f} C"
    reasons = [
        name
        for bit, name in THROTTLE_REASONS.items()
        if gpu.throttle_bits & bit & ABNORMAL_THROTTLE_BITS
    ]
    lines = [_make_line("clocks", "ok", clock)]
    if reasons or gpu.temperature_c >= _MAX_TEMPERATURE_C:
        cure = "let it cool down, look at its fans and power supply; times mean little until then"
        lines = [_make_line("clocks", "warning", f"{clock}; {', '.join(reasons) or 'hot'}", cure)]
    free = f"{(gpu.memory_bytes - gpu.used_bytes) / 2**30:.0f} GiB of GPU memory free"
    if gpu.other_pids:
        pids = ", ".join(map(str, gpu.other_pids[:4]))
        cure = "wait for them, or choose another GPU with CUDA_VISIBLE_DEVICES"
        lines.append(_make_line("other users", "warning", f"processes {pids} use it; {free}", cure))
    else:
        lines.append(_make_line("other users", "ok", f"none; {free}"))
    if gpu.exclusive_process:
        cure = "nvidia-smi -c DEFAULT: judge and candidate are two processes"
        lines.append(_make_line("compute mode", "failure", "one process at a time", cure))
    if gpu.mig:
        cure = "compare only with times of the same slice"
        lines.append(_make_line("MIG", "warning", "this is a slice of a GPU", cure))
    return lines


def _check_sandbox() -> EnvironmentLine:
    active, absent = detect_layers()
    if absent:
        lacks = ", ".join(absent)
        cure = f"trust the author of what is compiled and run, or enable {lacks} in the kernel"
        found = f"{', '.join(active) or 'none'}; not {lacks}"
        return _make_line("isolation", "warning", found, cure)
    return _make_line("isolation", "ok", ", ".join(active))


def _check_preemption() -> list[EnvironmentLine]:
    seen = [name for name in _PREEMPTION_VARIABLES if os.environ.get(name)]
    if not seen:
        return []
    cure = "log every step as it happens (kb session log); the machine may go at any time"
    return [_make_line("preemption", "warning", f"{seen[0]} is set", cure)]


def _make_machine(target: Target, facts: Mapping[str, Any], compiler: str) -> Machine:
    gpu = facts["gpu"] if target == "cuda" else None
    return Machine(
        target=target,
        title=gpu["name"] if gpu else cpu_title(),
        core_count=core_count(),
        cache_bytes=gpu["l2_bytes"] if gpu else cache_bytes(),
        simd_lanes_count=simd_lanes(),
        cc=gpu["cc"] if gpu else None,
        compiler=compiler,
        compiler_version=query_version(compiler),
        python=worker_python(),
        torch=facts["torch"],
    )
