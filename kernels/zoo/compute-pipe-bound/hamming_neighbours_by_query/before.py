# kernel: hamming_neighbours_by_query/before/cuda
# computes: the codes within a Hamming radius of each query
"""Codes within a Hamming radius of each query."""

import triton
import triton.language as tl

RADIUS = 112


@triton.jit
def count_bits(x):
    """Count the set bits of each 64-bit word."""
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    x = x + (x >> 8)
    x = x + (x >> 16)
    x = x + (x >> 32)
    return (x & 0x7F).to(tl.int32)


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
        distance = count_bits(word_0 ^ tl.load(own))
        distance += count_bits(word_1 ^ tl.load(own + 1))
        distance += count_bits(word_2 ^ tl.load(own + 2))
        distance += count_bits(word_3 ^ tl.load(own + 3))
        count = tl.sum((distance <= RADIUS).to(tl.int32), axis=0)
        tl.store(near + query * chunks + chunk, count)


def count_near(codes, queries, near):
    """Write the number of near codes of each query and chunk to near."""
    q, chunks = near.shape
    grid = (chunks, triton.cdiv(q, 16))
    compare_chunk[grid](
        codes, queries, near, q, chunks, RADIUS=RADIUS, CHUNK=codes.shape[2], QUERIES=16
    )
