"""Both parities of a stripe over eight disks (RAID 6), in Triton."""

import triton
import triton.language as tl


@triton.jit
def make_parity(disks, first, second, words, BLOCK: tl.constexpr):
    """Write the exclusive or, and the sum in the field of 256 elements, of BLOCK words."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < words
    parity = tl.load(disks + 7 * words + place, mask=inside, other=0)
    weighted = parity
    for disk in tl.static_range(6, -1, -1):
        word = tl.load(disks + disk * words + place, mask=inside, other=0)
        carry = (weighted >> 7) & 0x01010101
        weighted = ((weighted & 0x7F7F7F7F) << 1) ^ (carry * 0x1D) ^ word
        parity ^= word
    tl.store(first + place, parity, mask=inside)
    tl.store(second + place, weighted, mask=inside)


def encode(disks, first, second):
    """Write both parities of disks (8, words), int32."""
    words = disks.shape[1]
    make_parity[(triton.cdiv(words, 1024),)](disks, first, second, words, BLOCK=1024)
