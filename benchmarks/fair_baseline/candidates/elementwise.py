"""An activation in Triton. The program that runs it puts ``OPERATION`` in front."""

import torch
import triton
import triton.language as tl

BLOCK = 2048


@triton.jit
def apply(x, y, count, OPERATION: tl.constexpr, BLOCK: tl.constexpr):
    """Compute y = OPERATION(x) for one block of elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count)
    if OPERATION == "relu":
        value = tl.maximum(value, 0.0)
    elif OPERATION == "swish":
        value = value * tl.sigmoid(value)
    else:
        value = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    tl.store(y + at, value, mask=at < count)


class ModelNew(torch.nn.Module):
    """Replaces the task's model."""

    def forward(self, x):
        """Return the activation of every element."""
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), BLOCK),)
        apply[grid](x, y, x.numel(), OPERATION=OPERATION, BLOCK=BLOCK, num_warps=8)  # noqa: F821
        return y
