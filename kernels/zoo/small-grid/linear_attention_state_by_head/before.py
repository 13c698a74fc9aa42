"""State of linear attention: sums over positions of rectified keys times values, in Triton."""

import triton
import triton.language as tl


@triton.jit
def accumulate_state(
    keys, values, state, norms, length, HEADS: tl.constexpr, DIM: tl.constexpr, STEP: tl.constexpr
):
    """Sum up the state (DIM, DIM) and the norm (DIM) of one head of one sequence."""
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    origin = (sequence.to(tl.int64) * length * HEADS + head) * DIM
    steps = tl.arange(0, STEP)
    axis = tl.arange(0, DIM)
    keys_at = keys + origin + steps[:, None] * (HEADS * DIM) + axis[None, :]
    values_at = values + origin + steps[:, None] * (HEADS * DIM) + axis[None, :]
    total = tl.zeros([DIM, DIM], tl.float32)
    norm = tl.zeros([DIM], tl.float32)
    # Keys are rectified, which is the feature map here; there is no mask, since every query of an
    # encoder sees every key.
    for start in range(0, length, STEP):
        inside = start + steps < length
        mask = inside[:, None]
        key = tl.load(keys_at, mask=mask, other=0.0)
        value = tl.load(values_at, mask=mask, other=0.0)
        feature = tl.where(key > 0, key, 0.0).to(keys.dtype.element_ty)
        total = tl.dot(tl.trans(feature), value, total)
        norm += tl.sum(feature.to(tl.float32), axis=0)
        keys_at += STEP * HEADS * DIM
        values_at += STEP * HEADS * DIM
    slot = sequence * HEADS + head
    at = slot * DIM * DIM + axis[:, None] * DIM + axis[None, :]
    tl.store(state + at, total.to(state.dtype.element_ty))
    tl.store(norms + slot * DIM + axis, norm.to(norms.dtype.element_ty))


def build_state(keys, values, state, norms):
    """Write state and norms of keys and values (batch, length, heads, 64), bf16."""
    batch, length, heads, dim = keys.shape
    accumulate_state[(heads, batch)](
        keys, values, state, norms, length, HEADS=heads, DIM=dim, STEP=64, num_warps=4
    )
