"""A softmax over rows of any length, in Triton: two passes, the first with a running maximum."""

import torch
import triton
import triton.language as tl


@triton.jit
def normalize(x, y, cols, BLOCK: tl.constexpr):
    """Compute the softmax of one row."""
    row = tl.program_id(0).to(tl.int64) * cols
    high = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, mask=at < cols, other=float("-inf"))
        higher = tl.maximum(high, value)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(high - shift) + tl.exp(value - shift)
        high = higher
    top = tl.max(high, axis=0)
    whole = tl.sum(total * tl.exp(high - top), axis=0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + at, mask=at < cols, other=float("-inf"))
        tl.store(y + row + at, tl.exp(value - top) / whole, mask=at < cols)


class ModelNew(torch.nn.Module):
    """Replaces the task's model."""

    def forward(self, x):
        """Return the softmax over the last dimension of a matrix."""
        y = torch.empty_like(x)
        normalize[(x.shape[0],)](x, y, x.shape[1], BLOCK=4096, num_warps=8)
        return y
