"""Calls a C entry point on a GPU through the CUDA driver, without torch: for profilers.

A profiler starts the process for each stage: torch takes seconds to import and launches kernels of
its own, the driver API takes 0.3 s.
"""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from kernelkb.measure.worker.shared.messages.jobs import (
    KnownTrafficJob,
    KnownTrafficResult,
    RepeatJob,
    RepeatResult,
)
from kernelkb.measure.worker.shared.messages.specs import (
    CEntryCode,
    InputSpec,
    OutputSpec,
    Scalar,
)

_TILE_VALUES = 1 << 16
"""Random floating-point values drawn; arrays repeat them."""
_CHUNK_BYTES = 1 << 24
"""Random integers drawn at a time."""
_COPY_BLOCK_THREADS = 256
_INTEGER_BYTES = {"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1}
_DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, **_INTEGER_BYTES}
_COPY_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry kernelkb_copy(.param .u64 from, .param .u64 to)
{
  .reg .u64 %a<6>;
  .reg .u32 %i<5>;
  ld.param.u64 %a0, [from];
  ld.param.u64 %a1, [to];
  mov.u32 %i0, %ctaid.x;
  mov.u32 %i1, %ntid.x;
  mov.u32 %i2, %tid.x;
  mad.lo.u32 %i3, %i0, %i1, %i2;
  mul.wide.u32 %a2, %i3, 4;
  add.u64 %a3, %a0, %a2;
  add.u64 %a4, %a1, %a2;
  ld.global.u32 %i4, [%a3];
  st.global.u32 [%a4], %i4;
  ret;
}
"""


class CudaDriverApi:
    """CUDA driver calls: allocate and fill arrays, launch the copy kernel, synchronize."""

    def __init__(self) -> None:
        """Use the first device's primary context, which the CUDA runtime uses too."""
        self._lib = ctypes.CDLL("libcuda.so.1")
        self.raise_on_error(self._lib.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.raise_on_error(self._lib.cuDeviceGet(ctypes.byref(device), 0))
        self.raise_on_error(self._lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.raise_on_error(self._lib.cuCtxSetCurrent(context))

    def raise_on_error(self, code: int) -> None:
        """Raise RuntimeError for a CUDA error code other than 0."""
        if code:
            raise RuntimeError(f"CUDA error {code}")

    def allocate_filled(self, size: int, parts: Iterable[bytes]) -> int:
        """Allocate ``size`` bytes, fill them with parts, repeated as needed; return the address."""
        pointer = ctypes.c_uint64()
        self.raise_on_error(
            self._lib.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
        )
        address, filled = pointer.value, 0
        for part in parts:
            count = ctypes.c_size_t(min(size - filled, len(part)))
            goal = ctypes.c_uint64(address + filled)
            self.raise_on_error(self._lib.cuMemcpyHtoD_v2(goal, part, count))
            filled += count.value
        while filled < size:
            count = ctypes.c_size_t(min(filled, size - filled))
            goal = ctypes.c_uint64(address + filled)
            source = ctypes.c_uint64(address)
            self.raise_on_error(self._lib.cuMemcpyDtoD_v2(goal, source, count))
            filled += count.value
        return address

    def free(self, pointer: int) -> None:
        """Free an array."""
        self.raise_on_error(self._lib.cuMemFree_v2(ctypes.c_uint64(pointer)))

    def synchronize(self) -> None:
        """Wait for the device."""
        self.raise_on_error(self._lib.cuCtxSynchronize())

    def copy_with_kernel(self, source: int, destination: int, size: int) -> None:
        """Copy ``size`` bytes by a kernel that reads and writes each byte once."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.raise_on_error(self._lib.cuModuleLoadData(ctypes.byref(module), _COPY_PTX))
        code = self._lib.cuModuleGetFunction(ctypes.byref(function), module, b"kernelkb_copy")
        self.raise_on_error(code)
        values = [ctypes.c_uint64(source), ctypes.c_uint64(destination)]
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        grid = (size // 4 // _COPY_BLOCK_THREADS, 1, 1)
        block = (_COPY_BLOCK_THREADS, 1, 1)
        code = self._lib.cuLaunchKernel(function, *grid, *block, 0, None, arguments, None)
        self.raise_on_error(code)
        self.synchronize()


def repeat_without_torch(job: RepeatJob, _folder: Path) -> RepeatResult:
    """Call a C entry point on every case.

    Raises:
        RuntimeError: The entry point or the driver returned an error code.
    """
    code = job["code"]
    if code["kind"] != "c":
        raise ValueError(f"only C entry points run without torch, not {code['kind']}")
    driver, function = CudaDriverApi(), _load_function(code)
    for case in job["cases"]:
        array_inputs = {spec["name"]: spec for spec in case["inputs"] if "value" not in spec}
        arrays: list[int] = []
        arguments: list[Any] = []
        for spec in case["inputs"]:
            if "value" in spec:
                arguments.append(_to_c_number(spec["value"]))
            else:
                arrays.append(_allocate_array(driver, spec))
                arguments.append(ctypes.c_void_p(arrays[-1]))
        for output in case["outputs"]:
            start = array_inputs.get(output["starts_as"] or "") or _make_zero_spec(output)
            arrays.append(_allocate_array(driver, start))
            arguments.append(ctypes.c_void_p(arrays[-1]))
        arguments += [ctypes.c_int64(size) for size in case["axes"]]
        for _ in range(job["call_count"]):
            driver.raise_on_error(function(*arguments, None))
            driver.synchronize()
        for address in arrays:
            driver.free(address)
    return {"call_count": job["call_count"] * len(job["cases"])}


def _load_function(code: CEntryCode) -> Any:
    function = getattr(ctypes.CDLL(code["library"]), code["entry"])
    function.restype = ctypes.c_int
    return function


def _make_zero_spec(output: OutputSpec) -> InputSpec:
    return {
        "name": output["name"],
        "shape": output["shape"],
        "dtype": output["dtype"],
        "fill": "zeros",
        "scale": 1.0,
    }


def _to_c_number(value: Scalar) -> Any:
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


def _allocate_array(driver: CudaDriverApi, spec: InputSpec) -> int:
    size = math.prod(spec["shape"]) * _DTYPE_BYTES.get(spec["dtype"], 1)
    return driver.allocate_filled(size, generate_values(spec, size))


def run_known_traffic(job: KnownTrafficJob, _folder: Path) -> KnownTrafficResult:
    """Launch the copy kernel twice: a profiler skips the first launch."""
    driver = CudaDriverApi()
    pattern = bytes(range(256)) * 256
    source, destination = (driver.allocate_filled(job["bytes"], [pattern]) for _ in range(2))
    for _ in range(2):
        driver.copy_with_kernel(source, destination, job["bytes"])
    return {"bytes": job["bytes"]}


def generate_values(spec: InputSpec, size: int) -> Iterator[bytes]:
    """Yield values with the distribution that ``measure.worker.judge.inputs.inputs`` draws.

    Floating-point values are one tile, which the array repeats. Indices fill all ``size`` bytes:
    out of a short tile they would all lie in the cache.
    """
    if spec["fill"] == "integers":
        yield from _generate_indices(int(spec["scale"]), _DTYPE_BYTES[spec["dtype"]], size)
    else:
        yield _make_tile(spec["dtype"], spec["fill"], spec["scale"])


def _generate_indices(bound: int, width: int, size: int) -> Iterator[bytes]:
    """Yield ``size`` bytes of integers of ``width`` bytes below a power of two, in chunks."""
    rng = random.Random(1)
    for offset in range(0, size, _CHUNK_BYTES):
        count = min(_CHUNK_BYTES, size - offset)
        mask = int.from_bytes((bound - 1).to_bytes(width, "little") * (count // width), "little")
        yield (rng.getrandbits(8 * count) & mask).to_bytes(count, "little")


def _make_tile(dtype: str, fill: str, scale: float) -> bytes:
    """Return 65,536 values of a floating-point type; of other types as many zero bytes."""
    rng = random.Random(1)
    draws: dict[str, Callable[[], float]] = {
        "normal": lambda: rng.gauss(0.0, scale),
        "uniform": lambda: rng.random() * scale,
        "ones": lambda: 1.0,
    }
    draw = draws.get(fill, float)
    values = [draw() for _ in range(_TILE_VALUES)]
    if dtype == "bfloat16":  # the upper half of an fp32
        words = struct.pack(f"<{_TILE_VALUES}f", *values)
        return b"".join(words[offset + 2 : offset + 4] for offset in range(0, len(words), 4))
    letter = {"float64": "d", "float32": "f", "float16": "e"}.get(dtype)
    return struct.pack(f"<{_TILE_VALUES}{letter}", *values) if letter else bytes(_TILE_VALUES)
