"""A matrix product in Triton, of two or three dimensions.

The program that runs it puts these in front: ``PRECISION`` (``tf32``, ``tf32x3``, ``ieee``,
``fp16`` or ``bf16``), ``TRANSPOSE_A`` and ``TRANSPOSE_B``.
"""

import torch
import triton
import triton.language as tl

SHORT_TYPES = {"fp16": tl.float16, "bf16": tl.bfloat16}


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4, num_stages=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=4, num_stages=3),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def multiply(
    a, b, c, m, n, k,
    a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row,
    SHORT: tl.constexpr, INPUT_PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Compute one tile of c (m x n) = a (m x k) times b (k x n), of one batch."""
    batch = tl.program_id(1).to(tl.int64)
    tiles = tl.cdiv(n, BLOCK_N)
    rows = ((tl.program_id(0) // tiles) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = ((tl.program_id(0) % tiles) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        depth = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        left = tl.load(
            a + batch * a_batch + rows[:, None] * a_row + depth[None, :] * a_col,
            mask=(rows[:, None] < m) & (depth[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + batch * b_batch + depth[:, None] * b_row + cols[None, :] * b_col,
            mask=(depth[:, None] < k) & (cols[None, :] < n),
            other=0.0,
        )
        if SHORT is not None:
            total = tl.dot(left.to(SHORT), right.to(SHORT), total)
        else:
            total = tl.dot(left, right, total, input_precision=INPUT_PRECISION)
    tl.store(
        c + batch * c_batch + rows[:, None] * c_row + cols[None, :],
        total,
        mask=(rows[:, None] < m) & (cols[None, :] < n),
    )


class ModelNew(torch.nn.Module):
    """Replaces the task's model."""

    def forward(self, a, b):
        """Return a times b; a matrix b is multiplied with every batch of a."""
        a = a.mT if TRANSPOSE_A else a  # noqa: F821
        b = b.mT if TRANSPOSE_B else b  # noqa: F821
        if b.dim() == 2 and a.dim() > 2:
            flat = a.reshape(-1, a.shape[-1])
            return self.multiply(flat[None], b[None]).view(*a.shape[:-1], b.shape[-1])
        if a.dim() == 2:
            return self.multiply(a[None], b[None])[0]
        return self.multiply(a, b)

    def multiply(self, a, b):
        """Return the products of a batch of matrices: (batch, m, k) and (batch, k, n)."""
        (batch, m, k), n = a.shape, b.shape[-1]
        c = torch.empty(batch, m, n, device=a.device, dtype=torch.float32)
        short = SHORT_TYPES.get(PRECISION)  # noqa: F821
        multiply[
            lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]), batch)
        ](
            a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()[:2],
            SHORT=short, INPUT_PRECISION="ieee" if short else PRECISION,  # noqa: F821
        )  # fmt: skip
        return c
