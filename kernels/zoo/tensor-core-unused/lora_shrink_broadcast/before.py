"""Down projection of LoRA adapters, one adapter for each block of 32 tokens, in Triton."""

import triton
import triton.language as tl


@triton.jit
def project_down(
    x,
    down,
    chosen,
    out,
    CHANNELS: tl.constexpr,
    RANK: tl.constexpr,
    M: tl.constexpr,
    R: tl.constexpr,
    K: tl.constexpr,
):
    """Project M of the 32 tokens of a block onto R ranks of its adapter."""
    block = tl.program_id(0)
    adapter = tl.load(chosen + block)
    token = block * 32 + tl.program_id(1) * M + tl.arange(0, M)
    rank = tl.program_id(2) * R + tl.arange(0, R)
    channel = tl.arange(0, K)
    x_at = x + token[:, None] * CHANNELS + channel[None, :]
    down_at = down + (adapter * RANK + rank)[:, None] * CHANNELS + channel[None, :]
    total = tl.zeros([M, R], tl.float32)
    for start in range(0, CHANNELS, K):
        value = tl.load(x_at + start).to(tl.float32)
        weight = tl.load(down_at + start).to(tl.float32)
        total += tl.sum(value[:, None, :] * weight[None, :, :], axis=2)
    at = token[:, None] * RANK + rank[None, :]
    tl.store(out + at, total.to(out.dtype.element_ty))


def shrink(x, down, chosen, out):
    """Write x (blocks, 32, channels) times down (adapters, rank, channels) of each block."""
    blocks, tokens, channels = x.shape
    rank = down.shape[1]
    grid = (blocks, tokens // 16, rank // 16)
    project_down[grid](
        x, down, chosen, out, CHANNELS=channels, RANK=rank, M=16, R=16, K=32, num_warps=4
    )
