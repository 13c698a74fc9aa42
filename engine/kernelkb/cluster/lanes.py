"""The lanes of a host: one timed lane for each GPU, and what compiles; as resources of Dask."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kernelkb.measure.machine.host import cpu_title
from kernelkb.measure.machine.nvidia_driver import NvidiaGpu, query_driver

TIMED = "GPU"
"""The resource that a timed lane has one of; also the lane of a host without a GPU."""
COMPILE = "CPU"
"""The resource that a compile worker has one of for each core."""
_MODEL, _CAPABILITY = "model=", "cc="


class Lane(NamedTuple):
    """A worker process that runs one timed task at a time, on one GPU."""

    host: str
    uuid: str
    """As NVML writes it, ``GPU-...``; ``CPU-<host>`` where the host has no GPU."""
    model: str
    """Such as ``NVIDIA H100 80GB HBM3``."""
    compute_capability: str
    """Such as ``9.0``; empty without a GPU."""
    worker: str
    """The name of its Dask worker: the host, a slash, the UUID."""

    @property
    def resources(self) -> dict[str, float]:
        """What its Dask worker offers; a task asks for the lane, or its model, by these."""
        facts = (TIMED, self.uuid, _MODEL + self.model, _CAPABILITY + self.compute_capability)
        return dict.fromkeys(facts, 1.0)

    @property
    def environment(self) -> dict[str, str]:
        """What its process sees of the host's GPUs: its own only."""
        return {"CUDA_VISIBLE_DEVICES": self.uuid} if self.compute_capability else {}


def ask_for_lane(where: str | None) -> dict[str, float]:
    """Return the resources that a timed task needs.

    Args:
        where: The UUID of a lane, the model of a GPU, or None for any lane.
    """
    if where is None:
        return {TIMED: 1}
    is_uuid = where.startswith(("GPU-", "MIG-", "CPU-", "PRETEND-"))
    return {TIMED: 1, (where if is_uuid else _MODEL + where): 1}


def read_lane(name: str, resources: Mapping[str, float]) -> Lane | None:
    """Return the lane of a Dask worker; None where it is not a timed one."""
    if TIMED not in resources:
        return None
    facts = list(resources)
    host, _, uuid = name.partition("/")
    return Lane(
        host,
        uuid,
        next((one.removeprefix(_MODEL) for one in facts if one.startswith(_MODEL)), ""),
        next((one.removeprefix(_CAPABILITY) for one in facts if one.startswith(_CAPABILITY)), ""),
        name,
    )


def list_lanes(workers: Iterable[Mapping[str, Any]]) -> tuple[Lane, ...]:
    """Return the timed lanes among the workers that a scheduler describes, sorted."""
    found = (read_lane(str(one["name"]), one["resources"]) for one in workers)
    return tuple(sorted(lane for lane in found if lane is not None))


def find_local_lanes(pretend_count: int = 0) -> tuple[Lane, ...]:
    """Return the timed lanes of this host: its GPUs, else the CPU as one.

    Args:
        pretend_count: This many lanes that are no GPUs, for tests and benchmarks.
    """
    host = socket.gethostname()
    if pretend_count:
        host += f"-{os.getpid()}"  # several pretend hosts may be one machine
        names = [f"PRETEND-{os.getpid()}-{number}" for number in range(pretend_count)]
        return tuple(Lane(host, one, "pretend", "", f"{host}/{one}") for one in names)
    driver = query_driver()
    gpus = _select_visible(driver.gpus if driver else (), os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not gpus:
        uuid = f"CPU-{host}"
        return (Lane(host, uuid, cpu_title(), "", f"{host}/{uuid}"),)
    return tuple(Lane(host, gpu.uuid, gpu.name, gpu.cc, f"{host}/{gpu.uuid}") for gpu in gpus)


def _select_visible(gpus: tuple[NvidiaGpu, ...], visible: str | None) -> tuple[NvidiaGpu, ...]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, by index or by start of the UUID."""
    if visible is None:
        return gpus
    wanted = [part.strip() for part in visible.split(",") if part.strip()]
    return tuple(
        gpu
        for gpu in gpus
        if any(
            str(gpu.device_index) == one or (one.startswith("GPU-") and gpu.uuid.startswith(one))
            for one in wanted
        )
    )
