"""Compiles ``devices.yaml``: facts for conditions, tables for the calculators, names of GPUs."""

from __future__ import annotations

from kernelkb.decide.rules import HardwareTables
from kernelkb.model.device import Architecture, Device, DeviceCatalogue
from kernelkb.model.knowledge import Knowledge


def build_device_facts(device: Device, knowledge: Knowledge) -> dict[str, float]:
    """Return the value of each ``device.<fact>`` for one GPU; see ``references.DEVICE_FACTS``."""
    arch = next(a for a in knowledge.devices.architectures if a.cc == device.cc)
    streamed = device.dram_gbps * device.achievable_dram_share
    peaks = (device.fp32_tflops, device.fp16_tensor_tflops, device.fp8_tensor_tflops or 0.0)
    return {
        "cc": float(device.cc),
        "sm_count": device.sm_count,
        "sm_clock_mhz": device.sm_clock_mhz,
        "l2_bytes": device.l2_mb * 2**20,
        "dram_gbps": device.dram_gbps,
        "achievable_dram_share": device.achievable_dram_share,
        "fp32_tflops": device.fp32_tflops,
        "fp16_tensor_tflops": device.fp16_tensor_tflops,
        "fp64_tflops": device.fp64_tflops,
        "peak_tflops": max(peaks),
        "ridge_fp32": device.fp32_tflops * 1e3 / device.dram_gbps,
        "tensor_flop_us": device.fp16_tensor_tflops * 1e6 * device.achievable_tensor_share,
        "dram_bytes_us": streamed * 1e3,
        **_select_architecture_limits(arch),
    }


def _select_architecture_limits(arch: Architecture) -> dict[str, float]:
    return {"max_threads_sm": arch.max_threads_sm, "max_blocks_sm": arch.max_blocks_sm}


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
