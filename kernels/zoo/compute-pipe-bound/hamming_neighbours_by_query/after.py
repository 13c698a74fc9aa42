# kernel: hamming_neighbours_by_query/after/cuda
# change: libdevice.popc instead of shifts, masks and sums
"""Codes within a Hamming radius of each query."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

RADIUS = 112


@triton.jit
def compare_chunk(
    codes, queries, near, q, chunks,
    RADIUS: tl.constexpr, CHUNK: tl.constexpr, QUERIES: tl.constexpr,
):  # fmt: skip
    """Compare one chunk of codes with QUERIES queries."""
    chunk = tl.program_id(0)
    first = tl.program_id(1) * QUERIES
    at = codes + chunk * CHUNK + tl.arange(0, CHUNK)
    word_0 = tl.load(at)
    word_1 = tl.load(at + chunks * CHUNK)
    word_2 = tl.load(at + 2 * chunks * CHUNK)
    word_3 = tl.load(at + 3 * chunks * CHUNK)
    for query in range(first, min(first + QUERIES, q)):
        own = queries + query * 4
        distance = libdevice.popc(word_0 ^ tl.load(own))
        distance += libdevice.popc(word_1 ^ tl.load(own + 1))
        distance += libdevice.popc(word_2 ^ tl.load(own + 2))
        distance += libdevice.popc(word_3 ^ tl.load(own + 3))
        count = tl.sum((distance <= RADIUS).to(tl.int32), axis=0)
        tl.store(near + query * chunks + chunk, count)


def count_near(codes, queries, near):
    """Write the number of near codes of each query and chunk to near."""
    q, chunks = near.shape
    grid = (chunks, triton.cdiv(q, 16))
    compare_chunk[grid](
        codes, queries, near, q, chunks, RADIUS=RADIUS, CHUNK=codes.shape[2], QUERIES=16
    )
