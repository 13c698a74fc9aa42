"""Memory shared by judge and runners: the arrays of all slots, with guard regions between them.

On a CPU an anonymous file (memfd) that all map, on a GPU one allocation opened by CUDA IPC. The
judge reads outputs there without the runner's help. The distances between arrays are random; the
guard regions hold canary bytes that no kernel may overwrite.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import math
import mmap
import os
import random
import time
from collections.abc import Sequence

import torch

from kernelkb.measure.worker.shared.failures import UnsupportedHost
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, Target

_ALIGN_BYTES = 512
"""Alignment of arrays: at least that of cudaMalloc, 256 bytes."""
_MAX_GUARD_STEPS = 8
"""A guard region has 1 to 8 times ``_ALIGN_BYTES``, drawn at random."""
_LARGE_PAGE_BYTES = 2**21
"""Page size of large allocations on NVIDIA GPUs."""
_TORCH_CACHE_LIMIT_BYTES = 2**32
"""Unused memory that torch may keep in its allocator while other processes run: 4 GiB."""
_CLEARED_BYTES_PER_S = 2.5e11
"""How fast a GPU clears memory that was freed, at least: an H100 at 4.2e11."""
_CANARIES = range(1, 256)
"""Bytes of guard regions: a kernel that copies one region over another leaves the wrong byte."""
_IPC_LAZY_ENABLE_PEER_ACCESS = 1
"""CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, cuda.h."""
_HANDLE_CHARS = 128
MAX_ADDRESS = 2**60
_BUFFER_ID = 7
"""CU_POINTER_ATTRIBUTE_BUFFER_ID, cuda.h."""


class CudaMemory:
    """CUDA driver calls that torch does not offer: allocate memory and share it by IPC handle."""

    class IpcHandle(ctypes.Structure):
        """``CUipcMemHandle``."""

        _fields_ = (("reserved", ctypes.c_char * 64),)

    def __init__(self) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the device's context the current one
        self._driver = ctypes.CDLL("libcuda.so.1")

    def allocate(self, size: int) -> int:
        """Allocate ``size`` bytes of device memory and return their address.

        Raises:
            UnsupportedHost: The device has less free memory.
        """
        pointer = ctypes.c_uint64()
        if self._driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)):
            gib = size / 2**30
            raise UnsupportedHost(
                f"the GPU has no {gib:.1f} GiB left for the arrays",
                "name a smaller --workload, or end other processes on the GPU",
            )
        return pointer.value

    def release(self, pointer: int) -> None:
        """Free an allocation of ``allocate``."""
        self._driver.cuMemFree_v2(ctypes.c_uint64(pointer))

    def export(self, pointer: int) -> str:
        """Return the IPC handle of an allocation, hexadecimal.

        Raises:
            UnsupportedHost: This machine's driver has no IPC handles.
        """
        handle = self.IpcHandle()
        code = self._driver.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(pointer))
        if code:
            raise UnsupportedHost(
                f"processes cannot share GPU memory here (cuIpcGetMemHandle: CUDA error {code})",
                "measure on Linux itself, not in WSL or behind a vGPU",
            )
        return bytes(handle).hex()

    def open(self, handle: str) -> int:
        """Open another process's allocation; return its address in this process.

        Raises:
            OSError: The driver refuses.
        """
        pointer = ctypes.c_uint64()
        ipc_handle = self.IpcHandle.from_buffer_copy(bytes.fromhex(handle))
        flags = ctypes.c_uint(_IPC_LAZY_ENABLE_PEER_ACCESS)
        code = self._driver.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), ipc_handle, flags)
        if code:
            raise OSError(f"another process's GPU memory cannot be opened (CUDA error {code})")
        return pointer.value

    def read_allocation_id(self, address: int) -> int:
        """Return the number of the allocation that holds an address, which no later one gets.

        It is 0 where there is none.
        """
        number, pointer = ctypes.c_uint64(), ctypes.c_uint64(address)
        code = self._driver.cuPointerGetAttribute(ctypes.byref(number), _BUFFER_ID, pointer)
        return 0 if code else number.value

    def find_allocation(self, address: int) -> range:
        """Return the addresses of the allocation that holds one; empty where there is none."""
        start, size = ctypes.c_uint64(), ctypes.c_size_t()
        code = self._driver.cuMemGetAddressRange_v2(
            ctypes.byref(start), ctypes.byref(size), ctypes.c_uint64(address)
        )
        return range(0) if code else range(start.value, start.value + size.value)

    def close(self, pointer: int) -> None:
        """Close an allocation of ``open``."""
        self._driver.cuIpcCloseMemHandle(ctypes.c_uint64(pointer))

    def reset_persisting_l2(self) -> None:
        """Reset persisting L2 lines, which a kernel may set and a flush does not evict."""
        self._driver.cuCtxResetPersistingL2Cache()


class MalformedError(ValueError):
    """A runner says what cannot be."""


class OpenedMemory:
    """Allocations of a runner's GPU memory that the judge has opened.

    Attributes:
        ranges: By the runner's id: the first address there, and all addresses here.
    """

    def __init__(self) -> None:
        self._cuda = CudaMemory()
        self.ranges: dict[int, tuple[int, range]] = {}

    def open(self, allocations: object) -> None:
        """Open allocations, as an ``ExportAnswer`` lists them.

        Raises:
            MalformedError: They are no such list.
            OSError: One cannot be opened.
        """
        for allocation in allocations if isinstance(allocations, list) else [None]:
            match allocation:
                case [int(number), int(start), str(handle)] if 0 <= start < MAX_ADDRESS:
                    self._open(number, start, handle)
                case _:
                    raise MalformedError("it reported no memory of its outputs")

    def _open(self, number: int, start: int, handle: str) -> None:
        if number in self.ranges or not 0 < number < MAX_ADDRESS:
            return
        try:
            data = bytes.fromhex(handle)
        except ValueError as error:
            raise MalformedError("it reported no handle of its outputs' memory") from error
        if len(handle) != _HANDLE_CHARS:
            raise OSError("memory of its outputs cannot be opened by another process")
        own = self._cuda.find_allocation(self._cuda.open(data.hex()))
        self.ranges[number] = (start, own)

    def close(self) -> None:
        """Close all of them, before the runner frees them."""
        for _, own in self.ranges.values():
            self._cuda.close(own.start)
        self.ranges.clear()


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether a permutation of an array's dimensions would be contiguous."""
    expected = 1
    for stride, length in sorted(zip(strides, shape, strict=True)):
        if length > 1:
            if stride != expected:
                return False
            expected *= length
    return True


def view_device_memory(address: int, size: int) -> torch.Tensor:
    """Return device memory of this process as a tensor: (size,) uint8. Nothing keeps it alive."""
    return torch.as_tensor(_CudaArrayInterface(address, size), device="cuda")


class _CudaArrayInterface:
    """Exposes device memory to ``torch.as_tensor`` without a copy."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 2,
        }


class Arena:
    """Shared bytes: the judge allocates them, each runner opens them.

    Attributes:
        size: Bytes.
        bytes: All of them as a tensor: (size,) uint8, on the target's device.
        cuda: The CUDA driver; None on a CPU.
        descriptor: The file's descriptor on a CPU; None on a GPU.
        handle: The owner's CUDA IPC handle, hexadecimal; None on a CPU and in other processes.
    """

    def __init__(self, size: int, target: Target, *, owner_handle: int | str | None = None) -> None:
        """Allocate, or open another process's allocation.

        Args:
            size: Bytes.
            target: ``cpu`` or ``cuda``.
            owner_handle: The owner's file descriptor (CPU) or IPC handle (GPU); None: allocate.

        Raises:
            UnsupportedHost: Not enough memory, or no IPC handles.
            OSError: The owner's memory cannot be opened.
        """
        self.size = size
        self._is_owner = owner_handle is None
        self.cuda = CudaMemory() if target == "cuda" else None
        self.descriptor: int | None = None
        self.handle: str | None = None
        if self.cuda is not None:
            self._pointer = self._map_device(self.cuda, owner_handle)
            self.bytes = view_device_memory(self._pointer, size)
        else:
            self.descriptor = (
                _create_sealed_file(size) if owner_handle is None else int(owner_handle)
            )
            # MAP_POPULATE: else the first call on each slot would be timed with its page faults.
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            self._map: mmap.mmap | None = mmap.mmap(self.descriptor, size, flags=flags)
            self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)

    def _map_device(self, cuda: CudaMemory, owner_handle: int | str | None) -> int:
        if owner_handle is not None:
            return cuda.open(str(owner_handle))
        pointer = cuda.allocate(self.size)
        self.handle = cuda.export(pointer)
        return pointer

    def holds(self, address: int) -> bool:
        """Return whether an address of this process is in the memory."""
        return 0 <= address - int(self.bytes.data_ptr()) < self.size

    def view(self, offset: int, spec: ArraySpec) -> torch.Tensor:
        """Return the array of a spec at an offset in bytes, as a view."""
        dtype: torch.dtype = getattr(torch, spec["dtype"])
        size = math.prod(spec["shape"]) * dtype.itemsize
        return self.bytes[offset : offset + size].view(dtype).view(tuple(spec["shape"]))

    def pointer_table(self, offset: int) -> memoryview:
        """Return everything behind an offset as unsigned 64-bit integers; empty on a GPU."""
        if self.descriptor is None or self._map is None:
            return memoryview(b"")
        return memoryview(self._map)[offset:].cast("Q")

    def close(self) -> None:
        """Free or unmap the memory; no view may be used afterwards."""
        self.bytes = torch.empty(0, dtype=torch.uint8)
        if self.cuda is not None:
            torch.cuda.synchronize()
            (self.cuda.release if self._is_owner else self.cuda.close)(self._pointer)
            time.sleep(clearing_s(self.size) if self._is_owner else 0.0)
        elif self.descriptor is not None:
            self._map = None  # unmapped with its last view
            os.close(self.descriptor)


def _create_sealed_file(size: int) -> int:
    """Create a memfd sealed against resizing: a runner that shrank it would crash the judge."""
    file = os.memfd_create("kernelkb", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(
        file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    )
    return file


def release_torch_cache() -> int:
    """Return torch's unused device memory to the driver if it keeps more than 4 GiB.

    Returns:
        How many bytes that was. The GPU clears them afterwards; see ``clearing_s``.
    """
    if not torch.cuda.is_initialized():
        return 0
    kept_bytes = torch.cuda.memory_reserved()
    if kept_bytes <= _TORCH_CACHE_LIMIT_BYTES:
        return 0
    torch.cuda.empty_cache()
    return int(kept_bytes - torch.cuda.memory_reserved())


def clearing_s(freed_bytes: int) -> float:
    """Return for how many seconds, at most, a GPU clears memory that a process gave back.

    It takes bandwidth from what runs meanwhile: a sum of 6.4 GB took 2.49 ms in the 30 ms after
    12 GiB had been freed, and 2.10 ms from then on (H100, CUDA 13.0).
    """
    return freed_bytes / _CLEARED_BYTES_PER_S


def array_bytes(spec: ArraySpec) -> int:
    """Return the size of an array in bytes."""
    dtype: torch.dtype = getattr(torch, spec["dtype"])
    return math.prod(spec["shape"]) * int(dtype.itemsize)


class Layout:
    """Offsets of the arrays of every slot in an arena.

    Attributes:
        specs: Arrays of one slot.
        offsets: Bytes from the arena's start: a row per slot, an entry per array.
        pointer_table_offset: Where the table of returned tensors' addresses begins: 8 bytes for
            each array, a row per slot.
        size: Bytes of the arena.
    """

    def __init__(self, specs: Sequence[ArraySpec], slot_count: int, rng: random.Random) -> None:
        """Place ``slot_count`` copies of all arrays, with guard regions of random size."""
        self.specs = specs
        self.offsets: list[list[int]] = []
        canaries = itertools.cycle(rng.sample(_CANARIES, len(_CANARIES)))
        position = _ALIGN_BYTES
        self._guards = [(range(position), next(canaries))]
        for _ in range(slot_count):
            row = []
            for spec in specs:
                row.append(position)
                end = position + array_bytes(spec)
                guard_steps = rng.randint(1, _MAX_GUARD_STEPS)
                position = (-(-end // _ALIGN_BYTES) + guard_steps) * _ALIGN_BYTES
                self._guards.append((range(end, position), next(canaries)))
            self.offsets.append(row)
        self.pointer_table_offset = position
        position += 8 * slot_count * len(specs)
        # A size that is no multiple of a large page is mapped in small ones by the process that
        # opens it: the same softmax over 1 GB took 571 us there and 377 us here (H100, CUDA 13.0).
        self.size = -(-position // _LARGE_PAGE_BYTES) * _LARGE_PAGE_BYTES

    def arrays(self, arena: Arena, slot: int) -> list[torch.Tensor]:
        """Return the arrays of a slot, as views."""
        return [
            arena.view(offset, spec)
            for offset, spec in zip(self.offsets[slot], self.specs, strict=True)
        ]

    def write_canaries(self, arena: Arena) -> None:
        """Fill all guard regions; the arrays must be filled afterwards."""
        arena.bytes.zero_()
        for slot in range(len(self.offsets)):
            for region, canary in self._list_guards(slot):
                arena.bytes[region.start : region.stop].fill_(canary)

    def is_guard_damaged(self, arena: Arena, slot: int) -> bool:
        """Return whether a byte before or behind an array of a slot was overwritten."""
        return any(
            bool((arena.bytes[region.start : region.stop] != canary).any())
            for region, canary in self._list_guards(slot)
        )

    def _list_guards(self, slot: int) -> list[tuple[range, int]]:
        """Return the guard regions around the arrays of a slot, in bytes, and their canaries."""
        first = slot * len(self.specs)
        return self._guards[first : first + len(self.specs) + 1]
