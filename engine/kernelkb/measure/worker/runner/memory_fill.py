"""Fills what a candidate may read before it writes it: new memory, and a GPU's shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kernelkb.measure.worker.runner.heap import filled_heap
from kernelkb.measure.worker.shared.messages.runner_commands import CallCommand
from kernelkb.measure.worker.shared.messages.specs import Target

_ROW_ELEMENTS = 11 * 1024
"""Of float32. torch's softmax keeps rows of this length in shared memory, 44 KiB for each block of
threads; shorter ones in registers (ATen/native/cuda/SoftMax.cu)."""
_ROWS_PER_PROCESSOR = 4
"""Two blocks run on a multiprocessor at once."""
_BLOCK_BYTES = (1 << 20, 1 << 20, 16 << 20, 64 << 20)
"""The first two are of the pool that torch's allocator keeps for small arrays."""
_MIN_FREE_BYTES = 1 << 30
"""Nothing is filled where memory is short."""


@contextmanager
def filled_memory(target: Target, command: CallCommand) -> Iterator[None]:
    """Have new memory filled during a call whose command asks for it."""
    if target == "cuda" and command["fills_memory"]:
        _fill_device_memory()
    with filled_heap(is_filled=command["fills_memory"]):
        yield


def _fill_device_memory() -> None:
    """Leave NaN in the shared memory of all multiprocessors, and in new memory of torch.

    A kernel that reads either before it writes is right only as long as they happen to hold zeros.
    """
    if torch.cuda.mem_get_info()[0] < _MIN_FREE_BYTES:
        return
    processors = torch.cuda.get_device_properties().multi_processor_count
    shape = (processors * _ROWS_PER_PROCESSOR, _ROW_ELEMENTS)
    torch.softmax(torch.full(shape, torch.nan, device="cuda"), 1)
    blocks = [torch.full((size // 4,), torch.nan, device="cuda") for size in _BLOCK_BYTES]
    del blocks  # to torch's cache, all at once: each is memory of its own
