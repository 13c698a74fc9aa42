# kernel: dictionary_decode_words/before/cuda
# computes: the dictionary entry of each code, 16 words long
"""Entries of a dictionary of 64-byte strings, by code."""

import triton
import triton.language as tl


@triton.jit
def decode_rows(codes, dictionary, decoded, n, entries, WORDS: tl.constexpr, ROWS: tl.constexpr):
    """Copy the entries of ROWS codes."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    code = tl.load(codes + rows, mask=inside, other=0) % entries
    source = dictionary + code * WORDS
    target = decoded + rows.to(tl.int64) * WORDS
    for word in range(WORDS):
        value = tl.load(source + word, mask=inside)
        tl.store(target + word, value, mask=inside)


def decode(codes, dictionary, decoded):
    """Write the entry of each code to decoded."""
    n, (entries, words) = codes.numel(), dictionary.shape
    grid = (triton.cdiv(n, 256),)
    decode_rows[grid](codes, dictionary, decoded, n, entries, WORDS=words, ROWS=256)
