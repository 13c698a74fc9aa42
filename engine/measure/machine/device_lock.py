"""The turn of a machine's device: which queue it stands in, and what people call it."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from functools import cache

from kernelkb.measure.machine.nvidia_driver import driver
from kernelkb.measure.machine.torch_info import probe
from kernelkb.measure.process.device_queue import turn
from kernelkb.model.measurement import Machine


def turn_on(machine: Machine) -> AbstractContextManager[str | None]:
    """Wait for the machine's device, and keep it inside this block. See ``turns.turn``.

    A GPU is known by its UUID, whatever its number is in this process; where torch does not tell
    it, all GPUs of that name share a queue. A CPU is one device, however many cores we may use.
    """
    if machine.target == "cpu":
        return turn("cpu", lambda: "the CPU")
    uuid = _uuid()
    key = uuid or re.sub(r"[^a-z0-9]+", "-", machine.title.lower())
    return turn(key, lambda: machine.title + _number(uuid))


@cache
def _uuid() -> str:
    facts = probe().facts
    gpu = facts["gpu"] if facts else None
    return str(gpu["uuid"]) if gpu else ""


def _number(uuid: str) -> str:
    found = driver()
    at = [gpu.at for gpu in found.gpus if gpu.uuid.endswith(uuid)] if found and uuid else []
    return f" (GPU {at[0]})" if at else ""
