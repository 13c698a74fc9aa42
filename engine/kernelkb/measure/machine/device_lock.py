"""Locks the device that a machine measures on: its key in the device queue and its title.

Apart from ``process/device_queue.py`` because it asks the driver and torch, which the queue does
not need.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from functools import cache

from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.machine.torch_info import query_torch_info
from kernelkb.measure.process.device_queue import exclusive_device
from kernelkb.model.records.measurement import Machine


def lock_device(machine: Machine) -> AbstractContextManager[str | None]:
    """Wait for the machine's device and hold it inside this block; see ``exclusive_device``.

    The key of a GPU is its UUID, since its index differs from process to process
    (``CUDA_VISIBLE_DEVICES``); where torch reports no UUID, all GPUs of one name share a queue. The
    CPU is one device, however many of its cores we may use.
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
