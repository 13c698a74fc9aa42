"""Compiles ``devices.yaml``: facts for conditions, tables for the calculators, names of GPUs."""

from __future__ import annotations

from kernelkb.decide.device_facts import compute_device_facts
from kernelkb.decide.rules import HardwareTables
from kernelkb.model.entries.device import Device, DeviceCatalogue
from kernelkb.model.entries.knowledge import Knowledge


def build_device_facts(device: Device, knowledge: Knowledge) -> dict[str, float]:
    """Return the value of each ``device.<fact>`` for one GPU; see ``references.DEVICE_FACTS``."""
    arch = next(a for a in knowledge.devices.architectures if a.cc == device.cc)
    return compute_device_facts(device.model_dump(), arch.model_dump())


def build_hardware_tables(catalogue: DeviceCatalogue) -> HardwareTables:
    """Return every limit and peak of ``devices.yaml``, by compute capability and by device id."""
    unused = {"sources", "aliases"}
    common = catalogue.common  # None only in a project's own file, which is merged already
    return {
        "common": common.model_dump(mode="json", exclude=unused) if common else {},
        "architectures": {
            a.cc: a.model_dump(mode="json", exclude=unused) for a in catalogue.architectures
        },
        "devices": {d.id: d.model_dump(mode="json", exclude=unused) for d in catalogue.devices},
    }


def index_device_names(knowledge: Knowledge) -> dict[str, str]:
    """Return the device id for each id, title and alias of a GPU, in lower case."""
    names: dict[str, str] = {}
    for device in knowledge.devices.devices:
        for name in (device.id, device.title, *device.aliases):
            names[" ".join(name.lower().split())] = device.id
    return names
