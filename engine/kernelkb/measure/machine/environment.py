"""Checks that this machine can build, run and time kernels, with cures; locks its device."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kernelkb.errors import format_install_command, format_pip_command
from kernelkb.measure.machine.cached_facts import read_practical_peaks
from kernelkb.measure.machine.host import (
    cache_bytes,
    core_count,
    cpu_title,
    find_cuda_tool,
    find_cxx,
    find_ninja,
    find_nvcc,
    query_version,
    simd_lanes,
)
from kernelkb.measure.machine.nvidia_driver import (
    ABNORMAL_THROTTLE_BITS,
    THROTTLE_REASONS,
    NvidiaDriver,
    NvidiaGpu,
    may_read_counters,
    query_driver,
)
from kernelkb.measure.machine.torch_info import TorchInfo, query_torch_info
from kernelkb.measure.process.candidate_sandbox import LAYERS, detect_layers, find_landlock_abi
from kernelkb.measure.process.device_queue import exclusive_device
from kernelkb.measure.process.worker_jobs import worker_python
from kernelkb.model.base import Target
from kernelkb.model.records.measurement import Environment, EnvironmentLine, Machine, Status

_GAPS = {
    "limits": "a candidate may write files of any size",
    "network namespace": "seccomp alone keeps a candidate off the network",
    "capabilities": "a candidate that root runs keeps privileges of root",
    "landlock": "a candidate may read and write what you may, also records and the judge's files",
    "signal scope": "seccomp alone keeps a candidate from signalling others",
    "seccomp": "a candidate may stop, slow and kill other processes, and leave state behind",
}
"""What is open without a layer."""
_HARMLESS = {"signal scope": "seccomp"}
"""A layer that may be absent → the layer that does the same work."""
_SINCE = {
    "network namespace": "unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_"
    "userns=0 on Ubuntu; not within Docker's default profile)",
    "landlock": "Landlock (Linux 5.13, for Python candidates 5.19, with landlock in lsm=)",
    "seccomp": "seccomp, with libseccomp 2.5 or newer installed",
}
"""What brings a layer."""

TargetChoice = Literal["auto", "cpu", "cuda"]
_MIN_DISK_BYTES = 2**30
"""Chosen: far above what a build of one kernel writes."""
_MAX_TEMPERATURE_C = 85.0
"""Chosen: close to the slowdown temperature that ``nvidia-smi -q -d TEMPERATURE`` prints."""
_PREEMPTION_VARIABLES = (
    "PREEMPTIBLE",
    "SPOT_INSTANCE",
    "SLURM_JOB_END_TIME",
    "AWS_SPOT_INSTANCE",
    "GOOGLE_CLOUD_PREEMPTIBLE",
)
"""Set by schedulers and images on machines that can be taken away at any time."""

_CXX_CURE = "install a C++ compiler (Debian, Ubuntu: apt-get install g++) or set CXX to one"
_NVCC_CURE = "install the CUDA toolkit, put nvcc on PATH or set CUDA_HOME"


def inspect_machine(
    target_choice: TargetChoice, workdir: Path, *, fresh: bool = False
) -> Environment:
    """Check this machine for a target, tool by tool.

    Args:
        target_choice: ``auto`` is CUDA where torch finds a GPU and nvcc is installed, else the CPU.
        workdir: Where builds will be written.
        fresh: Query torch again, and add lines that only people need: other users of the GPU,
            clocks, counters, sandbox. Otherwise torch's cached answer is used.

    Returns:
        All lines; its ``machine`` is None when one of them is a failure.
    """
    started = time.monotonic()
    torch_info = query_torch_info(fresh=fresh)
    facts, nvcc = torch_info.facts, find_nvcc()
    gpu = facts.get("gpu") if facts else None
    target: Target = (
        "cuda" if target_choice == "cuda" or (target_choice == "auto" and gpu and nvcc) else "cpu"
    )
    lines = [_check_torch(torch_info, target), _check_ninja(), _check_disk(workdir)]
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
    """Check this machine for compiling only; neither a GPU nor torch is needed.

    Args:
        cc: Compute capability to compile for, such as ``9.0``; the GPU need not be in this machine.
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
        cure = format_install_command("torch", worker_python())
        cure = f"{cure}, or set KB_PYTHON to the interpreter that has torch"
        return _make_line("torch", "failure", torch_info.error or "unknown", cure)
    abi = "new" if facts["cxx11_abi"] else "old"
    built = f"for CUDA {facts['cuda']}" if facts["cuda"] else "for CPUs only"
    text = f"torch {facts['torch']} {built}, {abi} C++ ABI, in Python {facts['python']}"
    if target == "cuda" and not facts["cuda"]:
        cure = "install a CUDA build of torch (pytorch.org/get-started/locally)"
        return _make_line("torch", "failure", text, cure)
    return _make_line("torch", "ok", text)


def _check_ninja() -> EnvironmentLine:
    ninja = find_ninja()
    if ninja is None:
        return _make_line("ninja", "failure", "not found", format_pip_command("ninja"))
    return _make_line("ninja", "ok", f"ninja {query_version(ninja)}")


def _check_disk(workdir: Path) -> EnvironmentLine:
    existing = next(p for p in (workdir, *workdir.parents) if p.exists())
    free_bytes = shutil.disk_usage(existing).free
    text = f"{free_bytes / 2**30:.0f} GiB free for builds"
    if not os.access(existing, os.W_OK):
        return _make_line(
            "disk",
            "failure",
            f"{existing} is not writable",
            "run in a project that you may write to",
        )
    if free_bytes < _MIN_DISK_BYTES:
        cure = f"free some disk space, for instance by deleting {workdir}"
        return _make_line("disk", "warning", text, cure)
    return _make_line("disk", "ok", text)


def _check_compiler(name: str, path: str | None, cure: str) -> EnvironmentLine:
    if path is None:
        configured = os.environ.get("CUDA_HOME" if name == "nvcc" else "CXX")
        text = f"not found at {configured}" if configured else "not found"
        return _make_line(name, "failure", text, cure)
    return _make_line(name, "ok", query_version(path))


def _check_cpu() -> EnvironmentLine:
    cache = f"{cache_bytes() / 2**20:.0f} MiB cache"
    text = f"{cpu_title()}, {core_count()} cores, {cache}, {simd_lanes()} fp32 SIMD lanes"
    return _make_line("CPU", "ok", text)


def _check_gpu(gpu: Mapping[str, Any] | None, facts: Mapping[str, Any] | None) -> EnvironmentLine:
    if gpu:
        text = f"{gpu['name']}, compute capability {gpu['cc']}, {gpu['sm_count']} SMs"
        return _make_line("GPU", "ok", text)
    text = f"torch {facts['torch']} finds none" if facts else "unknown, since torch is missing"
    cure = "run nvidia-smi to check the driver, and install a CUDA build of torch"
    return _make_line("GPU", "failure", text, cure)


def _check_gpu_details(gpu: Mapping[str, Any] | None) -> list[EnvironmentLine]:
    driver = query_driver()
    if driver is None:
        cure = "install the NVIDIA driver; start a container with --gpus all"
        return [_make_line("driver", "failure", "the NVIDIA driver does not respond", cure)]
    version = f"driver {driver.version}, supports CUDA up to {driver.cuda_version}"
    lines = [_make_line("driver", "ok", version), _check_counters()]
    lines += [_check_practical_peaks(gpu)] if gpu else []
    driver_gpu = _find_driver_gpu(driver, gpu)
    return lines if driver_gpu is None else [*lines, *_check_gpu_state(driver_gpu)]


def _find_driver_gpu(
    nvidia_driver: NvidiaDriver, gpu: Mapping[str, Any] | None
) -> NvidiaGpu | None:
    """Return the driver's record of torch's GPU, by name: CUDA may number GPUs differently."""
    same_name = [other for other in nvidia_driver.gpus if gpu and other.name == gpu["name"]]
    return next(iter(same_name or nvidia_driver.gpus), None)


def _check_counters() -> EnvironmentLine:
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        cure = "install Nsight Compute; without it kb profile has no counters, and times still work"
        return _make_line("ncu", "warning", "not found", cure)
    version = f"ncu {query_version(ncu).removeprefix('Version ')}"
    allowed = may_read_counters()
    if allowed is False:
        cure = "run as administrator, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        return _make_line(
            "ncu", "warning", f"{version}; only an administrator may read its counters", cure
        )
    note = "" if allowed else "; whether this user may read counters is unknown until kb profile"
    return _make_line("ncu", "ok", version + note)


def _check_practical_peaks(gpu: Mapping[str, Any]) -> EnvironmentLine:
    peaks = read_practical_peaks(gpu["name"])
    if peaks is None:
        text = "not measured; answers use those of the catalogue (kb env --measure)"
        return _make_line("practical peaks", "ok", text)
    measured_at = str(peaks.get("measured_at", "an unknown day"))[:10]
    return _make_line("practical peaks", "ok", f"measured on {measured_at}")


def _check_gpu_state(gpu: NvidiaGpu) -> list[EnvironmentLine]:
    clock = f"{gpu.sm_mhz:.0f} of {gpu.sm_max_mhz:.0f} MHz, {gpu.temperature_c:.0f} C"
    reasons = [
        name
        for bit, name in THROTTLE_REASONS.items()
        if gpu.throttle_bits & bit & ABNORMAL_THROTTLE_BITS
    ]
    lines = [_make_line("clocks", "ok", clock)]
    if reasons or gpu.temperature_c >= _MAX_TEMPERATURE_C:
        cure = "let the GPU cool down, check its fans and power supply; do not trust times before"
        lines = [_make_line("clocks", "warning", f"{clock}; {', '.join(reasons) or 'hot'}", cure)]
    free = f"{(gpu.memory_bytes - gpu.used_bytes) / 2**30:.0f} GiB of GPU memory free"
    if gpu.other_pids:
        pids = ", ".join(map(str, gpu.other_pids[:4]))
        text = f"processes {pids} use this GPU; {free}"
        cure = "wait until they end, or choose another GPU with CUDA_VISIBLE_DEVICES"
        lines.append(_make_line("other users", "warning", text, cure))
    else:
        lines.append(_make_line("other users", "ok", f"none; {free}"))
    if gpu.exclusive_process:
        cure = "run nvidia-smi -c DEFAULT; judge and candidate are two processes on one GPU"
        lines.append(_make_line("compute mode", "failure", "only one process at a time", cure))
    if gpu.mig:
        cure = "compare times only with those of a slice of the same size"
        lines.append(_make_line("MIG", "warning", "only a slice of a GPU (MIG)", cure))
    return lines


def _check_sandbox() -> EnvironmentLine:
    active, absent = detect_layers()
    text = describe_active(active, find_landlock_abi()) or "none"
    text = "; ".join(filter(None, (text, describe_gaps(absent))))
    serious = list_serious(active, absent)
    if serious:
        return _make_line("isolation", "warning", text, describe_cure(serious))
    return _make_line("isolation", "ok", text)


def _check_preemption() -> list[EnvironmentLine]:
    names = [name for name in _PREEMPTION_VARIABLES if os.environ.get(name)]
    if not names:
        return []
    text = f"{names[0]} is set: this machine may be taken away at any time"
    cure = "log each step when it is done (kb session log)"
    return [_make_line("preemption", "warning", text, cure)]


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


def describe_active(active: Sequence[str], landlock_abi: int | None) -> str:
    """Name the layers that hold, with the version of Landlock."""
    version = f" (ABI {landlock_abi})" if landlock_abi else ""
    return ", ".join(f"landlock{version}" if layer == "landlock" else layer for layer in active)


def describe_gaps(absent: Collection[str]) -> str:
    """Say what is open without the absent layers; empty if none is absent."""
    return "; ".join(f"no {layer}: {_GAPS[layer]}" for layer in LAYERS if layer in absent)


def list_serious(active: Collection[str], absent: Collection[str]) -> list[str]:
    """Return the absent layers whose work no active one does."""
    return [layer for layer in absent if _HARMLESS.get(layer) not in active]


def describe_cure(absent: Collection[str]) -> str:
    """Say what would bring the absent layers."""
    sources = [_SINCE[layer] for layer in LAYERS if layer in absent and layer in _SINCE]
    enable = f", or enable {' and '.join(sources)}" if sources else ""
    return f"run only code that you trust{enable}"


def lock_device(machine: Machine) -> AbstractContextManager[str | None]:
    """Wait for the machine's device and hold it inside this block; see ``exclusive_device``.

    The key of a GPU is its UUID, since its index differs from process to process
    (``CUDA_VISIBLE_DEVICES``); where torch reports no UUID, all GPUs of one name share a queue. The
    CPU is one device, however many of its cores we may use. The queue itself asks neither the
    driver nor torch.
    """
    if machine.target == "cpu":
        return exclusive_device("cpu", lambda: "the CPU")
    uuid = _find_gpu_uuid()
    key = uuid or re.sub(r"[^a-z0-9]+", "-", machine.title.lower())
    return exclusive_device(key, lambda: machine.title + _format_gpu_index(uuid))


@cache
def _find_gpu_uuid() -> str:
    """Return the UUID that torch reports, without the prefix ``GPU-``; empty where unknown."""
    facts = query_torch_info().facts
    gpu = facts["gpu"] if facts else None
    return str(gpu["uuid"]) if gpu else ""


def _format_gpu_index(uuid: str) -> str:
    driver = query_driver()
    if driver is None or not uuid:
        return ""
    indices = [gpu.device_index for gpu in driver.gpus if gpu.uuid.endswith(uuid)]
    return f" (GPU {indices[0]})" if indices else ""
