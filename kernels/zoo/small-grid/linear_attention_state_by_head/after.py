"""State of linear attention: sums over positions of rectified keys times values, in parts."""

import torch
import triton
import triton.language as tl


@triton.jit
def accumulate_part(
    keys,
    values,
    states,
    sums,
    length,
    part_size,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    STEP: tl.constexpr,
):
    """Sum up the state (DIM, DIM) and the norm (DIM) of part_size positions of one head."""
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    part = tl.program_id(2)
    first = part * part_size
    last = tl.minimum(first + part_size, length)
    origin = ((sequence.to(tl.int64) * length + first) * HEADS + head) * DIM
    steps = tl.arange(0, STEP)
    axis = tl.arange(0, DIM)
    keys_at = keys + origin + steps[:, None] * (HEADS * DIM) + axis[None, :]
    values_at = values + origin + steps[:, None] * (HEADS * DIM) + axis[None, :]
    total = tl.zeros([DIM, DIM], tl.float32)
    norm = tl.zeros([DIM], tl.float32)
    for start in range(first, last, STEP):
        inside = start + steps < last
        mask = inside[:, None]
        key = tl.load(keys_at, mask=mask, other=0.0)
        value = tl.load(values_at, mask=mask, other=0.0)
        feature = tl.where(key > 0, key, 0.0).to(keys.dtype.element_ty)
        total = tl.dot(tl.trans(feature), value, total)
        norm += tl.sum(feature.to(tl.float32), axis=0)
        keys_at += STEP * HEADS * DIM
        values_at += STEP * HEADS * DIM
    slot = (sequence * HEADS + head) * tl.num_programs(2) + part
    at = slot * DIM * DIM + axis[:, None] * DIM + axis[None, :]
    tl.store(states + at, total)
    tl.store(sums + slot * DIM + axis, norm)


@triton.jit
def add_parts(parts, out, count, size, BLOCK: tl.constexpr):
    """Add count parts of BLOCK values each, size apart, of one head."""
    slot = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for part in range(count):
        total += tl.load(parts + (slot * count + part) * size + place, mask=place < size, other=0.0)
    tl.store(out + slot * size + place, total.to(out.dtype.element_ty), mask=place < size)


def build_state(keys, values, state, norms):
    """Write state and norms of keys and values (batch, length, heads, 64), bf16."""
    batch, length, heads, dim = keys.shape
    part_size = max(256, triton.cdiv(triton.cdiv(length, 16), 64) * 64)
    parts = triton.cdiv(length, part_size)
    slots = batch * heads
    states = torch.empty((slots, parts, dim, dim), dtype=torch.float32, device=keys.device)
    sums = torch.empty((slots, parts, dim), dtype=torch.float32, device=keys.device)
    accumulate_part[(heads, batch, parts)](
        keys, values, states, sums, length, part_size, HEADS=heads, DIM=dim, STEP=64, num_warps=4
    )
    add_parts[(slots, 4)](states, state, parts, dim * dim, BLOCK=1024)
    add_parts[(slots, 1)](sums, norms, parts, dim, BLOCK=64, num_warps=2)
