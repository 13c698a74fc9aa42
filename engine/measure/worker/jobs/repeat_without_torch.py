"""Call a C entry point on a GPU without torch: for a profiler, which starts the process anew.

torch takes seconds to load and launches kernels of its own; the driver's interface takes 0.3 s.
"""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Job = dict[str, Any]

_TILE_VALUES = 1 << 16
_CHUNK_BYTES = 1 << 24
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
    """As much of the CUDA driver as it takes to hold arrays and call."""

    def __init__(self) -> None:
        """Take the first device's primary context, which the CUDA runtime uses too."""
        self._lib = ctypes.CDLL("libcuda.so.1")
        self.raise_on_error(self._lib.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.raise_on_error(self._lib.cuDeviceGet(ctypes.byref(device), 0))
        self.raise_on_error(self._lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.raise_on_error(self._lib.cuCtxSetCurrent(context))

    def raise_on_error(self, code: int) -> None:
        """Raise a RuntimeError for anything but success."""
        if code:
            raise RuntimeError(f"CUDA error {code}")

    def allocate_filled(self, size: int, parts: Iterable[bytes]) -> int:
        """Return the address of ``size`` new bytes, filled with some parts over and over."""
        pointer = ctypes.c_uint64()
        self.raise_on_error(
            self._lib.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
        )
        done = 0
        at = pointer.value
        for part in parts:
            more = min(size - done, len(part))
            goal = ctypes.c_uint64(at + done)
            self.raise_on_error(self._lib.cuMemcpyHtoD_v2(goal, part, ctypes.c_size_t(more)))
            done += more
        while done < size:
            more = min(done, size - done)
            self.raise_on_error(
                self._lib.cuMemcpyDtoD_v2(
                    ctypes.c_uint64(at + done), ctypes.c_uint64(at), ctypes.c_size_t(more)
                )
            )
            done += more
        return at

    def free(self, pointer: int) -> None:
        """Give an array back."""
        self.raise_on_error(self._lib.cuMemFree_v2(ctypes.c_uint64(pointer)))

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        self.raise_on_error(self._lib.cuCtxSynchronize())

    def copy_with_kernel(self, source: int, destination: int, size: int) -> None:
        """Copy with a kernel of known traffic: each byte is read once and written once."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.raise_on_error(self._lib.cuModuleLoadData(ctypes.byref(module), _COPY_PTX))
        found = self._lib.cuModuleGetFunction(ctypes.byref(function), module, b"kernelkb_copy")
        self.raise_on_error(found)
        values = [ctypes.c_uint64(source), ctypes.c_uint64(destination)]
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(v) for v in values))
        shape = (size // 4 // 256, 1, 1, 256, 1, 1, 0, None)
        self.raise_on_error(self._lib.cuLaunchKernel(function, *shape, pointers, None))
        self.synchronize()


def repeat_without_torch(job: Job, _folder: Path) -> Job:
    """Call on each case ``times`` times: ``{"calls": n}``."""
    driver, what = CudaDriverApi(), job["what"]
    function = getattr(ctypes.CDLL(what["library"]), what["entry"])
    function.restype = ctypes.c_int
    for case in job["cases"]:
        arrays: list[int] = []
        arguments: list[Any] = []
        named = {spec["name"]: spec for spec in case["inputs"]}
        for given in (*case["inputs"], *case["outputs"]):
            spec = named.get(given.get("starts_as"), given)
            one = spec.get("value")
            if one is not None:
                number = ctypes.c_double(one) if isinstance(one, float) else ctypes.c_int64(one)
                arguments.append(number)
                continue
            size = math.prod(spec["shape"]) * _DTYPE_BYTES.get(spec["dtype"], 1)
            arrays.append(driver.allocate_filled(size, generate_values(spec, size)))
            arguments.append(ctypes.c_void_p(arrays[-1]))
        arguments += [ctypes.c_int64(size) for size in case["axes"]]
        for _ in range(job["times"]):
            driver.raise_on_error(function(*arguments, None))
            driver.synchronize()
        for pointer in arrays:
            driver.free(pointer)
    return {"calls": job["times"] * len(job["cases"])}


def run_known_traffic(job: Job, _folder: Path) -> Job:
    """Launch the kernel of known traffic, twice: ``{"bytes": n}`` are read, and as many written."""
    driver = CudaDriverApi()
    source, goal = (
        driver.allocate_filled(job["bytes"], [bytes(range(256)) * 256]) for _ in range(2)
    )
    for _ in range(2):
        driver.copy_with_kernel(source, goal, job["bytes"])
    return {"bytes": job["bytes"]}


def generate_values(spec: Job, size: int) -> Iterator[bytes]:
    """Yield values as ``kernelkb.measure.worker.judge.inputs`` would draw them.

    Of floats these are fewer than there are: they can be repeated. Indices cannot. Out of a short
    tile they would all lie in the cache.
    """
    if spec.get("fill") == "integers":
        yield from _generate_indices(int(spec["scale"]), _DTYPE_BYTES[spec["dtype"]], size)
    else:
        yield _make_tile(spec)


def _generate_indices(below: int, width: int, size: int) -> Iterator[bytes]:
    """Yield integers below a power of two, a part at a time."""
    draw = random.Random(1)
    for done in range(0, size, _CHUNK_BYTES):
        more = min(_CHUNK_BYTES, size - done)
        mask = int.from_bytes((below - 1).to_bytes(width, "little") * (more // width), "little")
        yield (draw.getrandbits(8 * more) & mask).to_bytes(more, "little")


def _make_tile(spec: Job) -> bytes:
    draw = random.Random(1)
    fill, scale, dtype = spec.get("fill", "zeros"), spec.get("scale", 1.0), spec["dtype"]
    drawn: dict[str, Callable[[], float]] = {
        "normal": lambda: draw.gauss(0.0, scale),
        "uniform": lambda: draw.random() * scale,
        "ones": lambda: 1.0,
    }
    made = drawn.get(fill, float)
    values = [made() for _ in range(_TILE_VALUES)]
    if dtype == "bfloat16":
        words = struct.pack(f"<{_TILE_VALUES}f", *values)
        return b"".join(words[at + 2 : at + 4] for at in range(0, len(words), 4))
    letter = {"float64": "d", "float32": "f", "float16": "e"}.get(dtype)
    return struct.pack(f"<{_TILE_VALUES}{letter}", *values) if letter else bytes(_TILE_VALUES)
