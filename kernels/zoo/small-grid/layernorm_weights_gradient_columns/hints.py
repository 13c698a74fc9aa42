"""Gradients of gamma and beta of a layer normalisation by blocks of columns, with hints."""

import triton
import triton.language as tl


@triton.jit
def sum_columns(
    dy, x, means, scales, dgamma, dbeta, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Sum all rows of some columns."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    in_columns = column < columns
    gamma_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    beta_sum = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & in_columns[None, :]
        at = row.to(tl.int64)[:, None] * columns + column[None, :]
        gradient = tl.load(dy + at, mask=inside, other=0.0, eviction_policy="evict_first")
        value = tl.load(x + at, mask=inside, other=0.0, eviction_policy="evict_first")
        mean = tl.load(means + row, mask=row < rows, other=0.0)
        scale = tl.load(scales + row, mask=row < rows, other=0.0)
        gradient, value = gradient.to(tl.float32), value.to(tl.float32)
        gamma_sum += gradient * (value - mean[:, None]) * scale[:, None]
        beta_sum += gradient
    old_gamma = tl.load(dgamma + column, mask=in_columns, other=0.0)
    old_beta = tl.load(dbeta + column, mask=in_columns, other=0.0)
    tl.store(dgamma + column, old_gamma + tl.sum(gamma_sum, axis=0), mask=in_columns)
    tl.store(dbeta + column, old_beta + tl.sum(beta_sum, axis=0), mask=in_columns)


def layernorm_backward(dy, x, means, scales, _old_dgamma, _old_dbeta, dgamma, dbeta):
    """Add the gradients of a batch to dgamma and dbeta, which hold those of earlier ones."""
    rows, columns = x.shape
    grid = (triton.cdiv(columns, 64),)
    sum_columns[grid](
        dy, x, means, scales, dgamma, dbeta, rows, columns, ROWS=32, COLUMNS=64, num_warps=4
    )
