# kernel: dictionary_decode_words/after/cuda
# change: one tile of 256 by 16 words, whose neighbouring lanes hold neighbouring words
"""Entries of a dictionary of 64-byte strings, by code."""

import triton
import triton.language as tl


@triton.jit
def decode_rows(codes, dictionary, decoded, n, entries, WORDS: tl.constexpr, ROWS: tl.constexpr):
    """Copy the entries of ROWS codes."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    code = tl.load(codes + rows, mask=inside, other=0) % entries
    words = tl.arange(0, WORDS)
    value = tl.load(dictionary + code[:, None] * WORDS + words[None, :], mask=inside[:, None])
    target = decoded + rows.to(tl.int64)[:, None] * WORDS + words[None, :]
    tl.store(target, value, mask=inside[:, None])


def decode(codes, dictionary, decoded):
    """Write the entry of each code to decoded."""
    n, (entries, words) = codes.numel(), dictionary.shape
    grid = (triton.cdiv(n, 256),)
    decode_rows[grid](codes, dictionary, decoded, n, entries, WORDS=words, ROWS=256)
