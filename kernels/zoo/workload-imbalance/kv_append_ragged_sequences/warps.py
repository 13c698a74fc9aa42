"""Appends keys and values of ragged sequences to a paged cache, by 8 warps each."""

import triton
import triton.language as tl


@triton.jit
def append_sequences(
    keys, values, slots, starts, key_cache, value_cache, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Append the new tokens of one sequence; a slot below zero is padding."""
    sequence = tl.program_id(0)
    first = tl.load(starts + sequence)
    last = tl.load(starts + sequence + 1)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < WIDTH
    for token in range(first, last):
        slot = tl.load(slots + token)
        if slot >= 0:
            key = tl.load(keys + token * WIDTH + lanes, mask=inside)
            value = tl.load(values + token * WIDTH + lanes, mask=inside)
            at = slot.to(tl.int64) * WIDTH + lanes
            tl.store(key_cache + at, key, mask=inside)
            tl.store(value_cache + at, value, mask=inside)


def append(keys, values, slots, starts, _old_keys, _old_values, key_cache, value_cache):
    """Write rows of keys and values (tokens, 8, 128) to their slots of the caches."""
    width = keys.shape[1] * keys.shape[2]
    grid = (starts.shape[0] - 1,)
    append_sequences[grid](
        keys, values, slots, starts, key_cache, value_cache, WIDTH=width, BLOCK=1024, num_warps=8
    )
