# kernel: spmm_one_neighbour_at_a_time/after/cuda
# change: the rows of 16 entries are in flight at a time instead of 1
"""Product of a CSR matrix and a dense one with few columns."""

import triton
import triton.language as tl


@triton.jit
def multiply_row(offsets, indices, values, dense, product, WIDTH: tl.constexpr, STEP: tl.constexpr):
    """Compute one row of the product."""
    row = tl.program_id(0)
    first = tl.load(offsets + row)
    last = tl.load(offsets + row + 1)
    columns = tl.arange(0, WIDTH)
    total = tl.zeros([STEP, WIDTH], tl.float32)
    for start in range(first, last, STEP):
        entries = start + tl.arange(0, STEP)
        inside = entries < last
        index = tl.load(indices + entries, mask=inside, other=0)
        value = tl.load(values + entries, mask=inside, other=0.0)
        rows = dense + index[:, None] * WIDTH + columns[None, :]
        total += value[:, None] * tl.load(rows, mask=inside[:, None], other=0.0)
    tl.store(product + row * WIDTH + columns, tl.sum(total, axis=0))


def multiply(offsets, indices, values, dense, product):
    """Write the product of the matrix (offsets, indices, values) and dense to product."""
    rows, width = product.shape
    multiply_row[(rows,)](
        offsets, indices, values, dense, product, WIDTH=width, STEP=16, num_warps=1
    )
