"""A root-mean-square norm over dimension 1, in Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def normalize(x, y, features, inner, eps, BLOCK: tl.constexpr):
    """Normalize BLOCK neighbouring positions over all features."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    base = tl.program_id(1).to(tl.int64) * features * inner + at
    total = tl.zeros((BLOCK,), tl.float32)
    for feature in range(features):
        value = tl.load(x + base + feature.to(tl.int64) * inner, mask=at < inner, other=0.0)
        total += value * value
    scale = 1.0 / tl.sqrt(total / features + eps)
    for feature in range(features):
        where = base + feature.to(tl.int64) * inner
        value = tl.load(x + where, mask=at < inner, other=0.0)
        tl.store(y + where, value * scale, mask=at < inner)


class ModelNew(torch.nn.Module):
    """Replaces the task's model."""

    def __init__(self, num_features, eps=1e-5):  # noqa: ARG002  # as the task calls it
        super().__init__()
        self.eps = eps

    def forward(self, x):
        """Return x divided by its root mean square over dimension 1."""
        y = torch.empty_like(x)
        inner = x.numel() // (x.shape[0] * x.shape[1])
        grid = (triton.cdiv(inner, 256), x.shape[0])
        normalize[grid](x, y, x.shape[1], inner, self.eps, BLOCK=256, num_warps=4)
        return y
