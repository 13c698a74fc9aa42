"""Appends keys and values of ragged sequences to a paged cache, by tokens, in Triton."""

import triton
import triton.language as tl


@triton.jit
def append_tokens(
    keys, values, slots, key_cache, value_cache, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Append one new token; a slot below zero is padding."""
    token = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < WIDTH
    slot = tl.load(slots + token)
    if slot >= 0:
        key = tl.load(keys + token * WIDTH + lanes, mask=inside)
        value = tl.load(values + token * WIDTH + lanes, mask=inside)
        at = slot.to(tl.int64) * WIDTH + lanes
        tl.store(key_cache + at, key, mask=inside)
        tl.store(value_cache + at, value, mask=inside)


def append(keys, values, slots, _starts, _old_keys, _old_values, key_cache, value_cache):
    """Write rows of keys and values (tokens, 8, 128) to their slots of the caches."""
    width = keys.shape[1] * keys.shape[2]
    grid = (keys.shape[0],)
    append_tokens[grid](keys, values, slots, key_cache, value_cache, WIDTH=width, BLOCK=1024)
