"""Memory that judge and runner share, so that the judge sees outputs without the runner's help.

On a CPU it is an anonymous file that both map, on a GPU one allocation that both open. The arrays
of all slots lie in it at odd distances; the gaps between them hold a pattern that nobody may
touch.
"""

from __future__ import annotations

import ctypes
import fcntl
import math
import mmap
import os
import random
from typing import Any

import torch

from kernelkb.measure.worker.shared.failures import UnsupportedHost

ArraySpec = dict[str, Any]
"""An array: ``{"name", "shape": [int, …], "dtype"}``."""

_ALIGN_BYTES = 512
_MAX_GUARD_STEPS = 8
_LARGE_PAGE_BYTES = 2**21
_TORCH_CACHE_LIMIT_BYTES = 2**32
_CANARY = 0xA5
_LESS_MEMORY_HINT = "name a smaller --workload, or end who else is on the GPU"


class CudaMemory:
    """The driver calls that torch does not offer: an allocation of one's own, and sharing it."""

    class IpcHandle(ctypes.Structure):
        """``CUipcMemHandle``."""

        _fields_ = (("reserved", ctypes.c_char * 64),)

    def __init__(self) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the device's context the current one
        self._driver = ctypes.CDLL("libcuda.so.1")

    def allocate(self, size: int) -> int:
        """Return the address of ``size`` new bytes.

        Raises:
            Unfit: The device has not that much.
        """
        pointer = ctypes.c_uint64()
        if self._driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)):
            gib = size / 2**30
            raise UnsupportedHost(
                f"the GPU has no {gib:.1f} GiB left for the arrays; {_LESS_MEMORY_HINT}"
            )
        return pointer.value

    def release(self, pointer: int) -> None:
        """Free what ``allocate`` gave."""
        self._driver.cuMemFree_v2(ctypes.c_uint64(pointer))

    def export(self, pointer: int) -> str:
        """Return the handle by which another process opens an allocation.

        Raises:
            Unfit: CUDA has no such handles here.
        """
        handle = self.IpcHandle()
        code = self._driver.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(pointer))
        if code:
            gap = f"processes cannot share GPU memory here (cuIpcGetMemHandle: CUDA error {code})"
            raise UnsupportedHost(f"{gap}; measure on Linux itself, not in WSL or behind a vGPU")
        return bytes(handle).hex()

    def open(self, handle: str) -> int:
        """Return the address of an allocation of another process."""
        pointer = ctypes.c_uint64()
        what = self.IpcHandle.from_buffer_copy(bytes.fromhex(handle))
        code = self._driver.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), what, ctypes.c_uint(1))
        if code:
            raise OSError(f"the judge's GPU memory cannot be opened (CUDA error {code})")
        return pointer.value

    def close(self, pointer: int) -> None:
        """Give back what ``open`` gave."""
        self._driver.cuIpcCloseMemHandle(ctypes.c_uint64(pointer))

    def reset_persisting_l2(self) -> None:
        """Let no cache line outlive the others in L2 because somebody asked for it."""
        self._driver.cuCtxResetPersistingL2Cache()


class _CudaArrayInterface:
    """Device memory in the form that torch takes without a copy."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 2,
        }


class Arena:
    """Shared bytes. The judge makes one; each runner opens it."""

    def __init__(self, size: int, target: str, *, owner_handle: int | str | None = None) -> None:
        """Allocate, or open what another process allocated.

        Args:
            size: Bytes.
            target: ``cpu`` or ``cuda``.
            owner_handle: The file descriptor or the handle that the owner sent.
        """
        self.size = size
        self._is_owner = owner_handle is None
        self.cuda = CudaMemory() if target == "cuda" else None
        self.descriptor: int | None = None
        self.handle: str | None = None
        if self.cuda is not None:
            self._pointer = self._map_device(self.cuda, owner_handle)
            self.bytes = torch.as_tensor(_CudaArrayInterface(self._pointer, size), device="cuda")
        else:
            self.descriptor = (
                _create_sealed_file(size) if owner_handle is None else int(owner_handle)
            )
            # Populated, or the first call on each slot would be timed with its page faults.
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            self._map = mmap.mmap(self.descriptor, size, flags=flags)
            self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)

    def _map_device(self, cuda: CudaMemory, owner_handle: int | str | None) -> int:
        if owner_handle is not None:
            return cuda.open(str(owner_handle))
        pointer = cuda.allocate(self.size)
        self.handle = cuda.export(pointer)
        return pointer

    def view(self, offset: int, spec: ArraySpec) -> torch.Tensor:
        """Return the array at an offset."""
        dtype: torch.dtype = getattr(torch, spec["dtype"])
        size = math.prod(spec["shape"]) * dtype.itemsize
        return self.bytes[offset : offset + size].view(dtype).view(tuple(spec["shape"]))

    def pointer_table(self, offset: int) -> memoryview:
        """Return the table at an offset as 64-bit numbers; a GPU's memory has none."""
        if self.descriptor is None:
            return memoryview(b"")
        return memoryview(self._map)[offset:].cast("Q")

    def close(self) -> None:
        """Give the memory back; no view may be used afterwards."""
        self.bytes = torch.empty(0, dtype=torch.uint8)
        if self.cuda is not None:
            torch.cuda.synchronize()
            (self.cuda.release if self._is_owner else self.cuda.close)(self._pointer)
        elif self.descriptor is not None:
            os.close(self.descriptor)


def _create_sealed_file(size: int) -> int:
    """Return a file in memory whose size nobody can change any more."""
    file = os.memfd_create("kernelkb", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(
        file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    )
    return file


def release_torch_cache() -> None:
    """Let the other processes have what torch keeps for later, where that is much."""
    if torch.cuda.is_initialized() and torch.cuda.memory_reserved() > _TORCH_CACHE_LIMIT_BYTES:
        torch.cuda.empty_cache()


def array_bytes(spec: ArraySpec) -> int:
    """Return the bytes of an array."""
    dtype: torch.dtype = getattr(torch, spec["dtype"])
    return math.prod(spec["shape"]) * int(dtype.itemsize)


class Layout:
    """Where each array of each slot lies."""

    def __init__(self, specs: list[ArraySpec], slot_count: int, rng: random.Random) -> None:
        """Place ``slot_count`` copies of all arrays, each at a distance drawn by chance."""
        self.specs = specs
        self.offsets: list[list[int]] = []
        at = _ALIGN_BYTES
        for _ in range(slot_count):
            row = []
            for spec in specs:
                row.append(at)
                end = at + array_bytes(spec)
                at = -(-end // _ALIGN_BYTES + -rng.randint(1, _MAX_GUARD_STEPS)) * _ALIGN_BYTES
            self.offsets.append(row)
        self.pointer_table_offset = at
        """Where a table begins of the addresses of what is returned, a row for each slot."""
        at += 8 * slot_count * len(specs)
        # A size that is no multiple of a large page is mapped in small ones by the process that
        # opens it: the same softmax over 1 GB took 571 us there and 377 us here (H100, CUDA 13.0).
        self.size = -(-at // _LARGE_PAGE_BYTES) * _LARGE_PAGE_BYTES

    def arrays(self, arena: Arena, slot: int) -> list[torch.Tensor]:
        """Return the arrays of a slot."""
        return [
            arena.view(offset, spec)
            for offset, spec in zip(self.offsets[slot], self.specs, strict=True)
        ]

    def guard_regions(self, arena: Arena, slot: int) -> list[torch.Tensor]:
        """Return the bytes before and behind each array of a slot."""
        starts = [offset for row in self.offsets for offset in row] + [self.pointer_table_offset]
        index = {offset: at for at, offset in enumerate(starts)}
        found = []
        for offset, spec in zip(self.offsets[slot], self.specs, strict=True):
            end = offset + array_bytes(spec)
            found.append(arena.bytes[offset - _ALIGN_BYTES : offset])
            found.append(arena.bytes[end : starts[index[offset] + 1]])
        return found

    def write_canaries(self, arena: Arena) -> None:
        """Write the pattern into every gap. Arrays must be filled afterwards."""
        arena.bytes.fill_(_CANARY)

    def is_guard_damaged(self, arena: Arena, slot: int) -> bool:
        """Return whether anything beside the arrays of a slot was written."""
        return any(bool((gap != _CANARY).any()) for gap in self.guard_regions(arena, slot))
