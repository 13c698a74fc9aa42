"""The fastest that a GPU could do some work, and which roof it would reach first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kernelkb.actions.hardware import Gpu, gpu_named
from kernelkb.device_math.parse_size import byte_count, positive
from kernelkb.device_math.roofline import binding, comes_from_memory, ridge_flop_per_byte, roofs
from kernelkb.errors import BadValueError, UnknownNameError

PIPES = {
    "fp64": "fp64_tflops",
    "fp32": "fp32_tflops",
    "tf32": "tf32_tensor_tflops",
    "fp16": "fp16_tensor_tflops",
    "bf16": "fp16_tensor_tflops",
    "fp8": "fp8_tensor_tflops",
}
"""The peak that counts for each type; tensor cores accumulate in fp32."""

_FIRST_BF16 = 8
"""Major compute capability of the first tensor cores that take bf16."""


class Work(NamedTuple):
    """What a kernel has to do, as somebody typed it."""

    gpu: str
    """Any name of a GPU."""
    bytes: str | int | None = None
    """Through device memory, by any correct kernel: ``1GiB``."""
    flop: str | float | None = None
    """By any correct kernel: ``2.5e9``."""
    dtype: str | None = None
    """A key of ``PIPES``. None: whatever unit of this GPU is fastest."""
    us: str | float | None = None
    """What the kernel takes now."""
    cold: bool = False
    """The data is in no cache, however small it is."""
    copy_gbps: str | float | None = None
    """Copy bandwidth as measured on this machine, instead of the data sheet's share."""
    launch_us: str | float | None = None
    """Time of an empty kernel as measured on this machine."""


class _Numbers(NamedTuple):
    """The same, parsed."""

    bytes: int | None
    flop: float | None
    us: float | None
    bandwidth_gbps: float
    launch_us: float


def roofline_of(work: Work) -> dict[str, Any]:
    """Return the floor of each roof, which one binds, and what is left to gain, as plain data.

    Raises:
        UnknownNameError: No such GPU or type.
        BadValueError: A size or time that cannot be, no work at all, or a type without a unit.
    """
    gpu = gpu_named(work.gpu)
    pipe, peak = _pipe(gpu, work.dtype)
    given = _numbers(gpu, work)
    counted = given.bytes if work.cold or _from_memory(gpu, given.bytes) else None
    binds = binding(
        roofs(
            algorithmic_bytes=counted,
            bandwidth_gbps=given.bandwidth_gbps,
            flops=given.flop,
            peak_tflops=peak,
            launch_floor_us=given.launch_us,
        )
    )
    floor = binds.floor_us if binds else None
    return {
        "gpu": gpu.id,
        "title": gpu.title,
        "dtype": work.dtype,
        "pipe": pipe,
        "bytes": given.bytes,
        "flop": given.flop,
        "roofs": _rows(gpu, given, work, peak, pipe),
        "binds": binds.name if binds else None,
        "floor_us": floor,
        "intensity_flop_per_byte": given.flop / given.bytes if given.flop and given.bytes else None,
        "ridge_flop_per_byte": ridge_flop_per_byte(peak, given.bandwidth_gbps),
        "ridge_data_sheet_flop_per_byte": ridge_flop_per_byte(peak, gpu.facts["dram_gbps"]),
        "data_sheet_gbps": gpu.facts["dram_gbps"],
        "l2_bytes": _l2_bytes(gpu),
        "measured_us": given.us,
        "attainable_speedup": given.us / floor if given.us and floor else None,
    }


def _numbers(gpu: Gpu, work: Work) -> _Numbers:
    size = byte_count("bytes", work.bytes) if work.bytes is not None else None
    flop = positive("flop", work.flop) if work.flop is not None else None
    if not size and not flop:
        raise BadValueError("there is no work to price; give --bytes, --flop or both")
    streamed = gpu.facts["dram_gbps"] * gpu.facts["achievable_dram_share"]
    return _Numbers(
        bytes=size,
        flop=flop,
        us=positive("us", work.us) if work.us is not None else None,
        bandwidth_gbps=positive(
            "copy-gbps", streamed if work.copy_gbps is None else work.copy_gbps
        ),
        launch_us=positive(
            "launch-us", gpu.launch_floor_us if work.launch_us is None else work.launch_us
        ),
    )


def _pipe(gpu: Gpu, dtype: str | None) -> tuple[str, float]:
    """Return the field of the peak that counts, and the peak in TFLOPS."""
    facts: Mapping[str, Any] = gpu.facts
    if dtype is None:
        fastest = max(set(PIPES.values()), key=lambda field: (facts[field] or 0.0, field))
        return fastest, facts[fastest]
    if dtype not in PIPES:
        raise UnknownNameError("type", dtype, PIPES, "kb roofline --help")
    peak = facts[PIPES[dtype]]
    too_old = dtype == "bf16" and int(gpu.cc.partition(".")[0]) < _FIRST_BF16
    if not peak or too_old:
        raise BadValueError(f"{gpu.id} has no unit for {dtype}; kb show {gpu.id} lists its peaks")
    return PIPES[dtype], peak


def _from_memory(gpu: Gpu, size: int | None) -> bool:
    return comes_from_memory(size / _l2_bytes(gpu) if size else None)


def _l2_bytes(gpu: Gpu) -> float:
    return float(gpu.facts["l2_mb"]) * 2**20


def _rows(gpu: Gpu, given: _Numbers, work: Work, peak: float, pipe: str) -> list[dict[str, Any]]:
    """Return every roof, also one that does not count, with what it was computed from.

    ``sustained_us`` is what libraries reach on the same unit, where that is known.
    """
    known = roofs(
        algorithmic_bytes=given.bytes,
        bandwidth_gbps=given.bandwidth_gbps,
        flops=given.flop,
        peak_tflops=peak,
        launch_floor_us=given.launch_us,
    )
    rates = {
        "memory": (given.bandwidth_gbps, "GB/s", work.copy_gbps, "data sheet"),
        "compute": (peak, "TFLOPS", None, "data sheet"),
        "launch": (None, None, work.launch_us, "judgement"),
    }
    rows: list[dict[str, Any]] = []
    for name, floor in known:
        rate, unit, measured, otherwise = rates[name]
        tensor = name == "compute" and "tensor" in pipe
        row = {
            "name": name,
            "floor_us": floor,
            "counts": name != "memory" or work.cold or _from_memory(gpu, given.bytes),
            "rate": rate,
            "unit": unit,
            "origin": otherwise if measured is None else "measured",
            "sustained_us": floor / gpu.facts["achievable_tensor_share"] if tensor else None,
        }
        rows.append(row)
    return rows
