"""The turn of a machine's device: which queue it stands in, and what people call it."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from functools import cache

from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.machine.torch_info import query_torch_info
from kernelkb.measure.process.device_queue import exclusive_device
from kernelkb.model.measurement import Machine


def lock_device(machine: Machine) -> AbstractContextManager[str | None]:
    """Wait for the machine's device, and keep it inside this block. See ``turns.turn``.

    A GPU is known by its UUID, whatever its number is in this process; where torch does not tell
    it, all GPUs of that name share a queue. A CPU is one device, however many cores we may use.
    """
    if machine.target == "cpu":
        return exclusive_device("cpu", lambda: "the CPU")
    uuid = _find_gpu_uuid()
    key = uuid or re.sub(r"[^a-z0-9]+", "-", machine.title.lower())
    return exclusive_device(key, lambda: machine.title + _format_gpu_index(uuid))


@cache
def _find_gpu_uuid() -> str:
    facts = query_torch_info().facts
    gpu = facts["gpu"] if facts else None
    return str(gpu["uuid"]) if gpu else ""


def _format_gpu_index(uuid: str) -> str:
    found = query_driver()
    at = (
        [gpu.device_index for gpu in found.gpus if gpu.uuid.endswith(uuid)]
        if found and uuid
        else []
    )
    return f" (GPU {at[0]})" if at else ""
