"""Converts ``devices.yaml`` to plain tables in the compiled rules, for ``device_math/``."""

from __future__ import annotations

from kernelkb.decide.rules import HardwareTables
from kernelkb.model.device import DeviceCatalogue


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
