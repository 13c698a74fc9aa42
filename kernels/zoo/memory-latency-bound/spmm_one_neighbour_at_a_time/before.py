# kernel: spmm_one_neighbour_at_a_time/before/cuda
# computes: the product of a CSR matrix and a dense one
"""Product of a CSR matrix and a dense one with few columns."""

import triton
import triton.language as tl


@triton.jit
def multiply_row(offsets, indices, values, dense, product, WIDTH: tl.constexpr):
    """Compute one row of the product."""
    row = tl.program_id(0)
    first = tl.load(offsets + row)
    last = tl.load(offsets + row + 1)
    columns = tl.arange(0, WIDTH)
    total = tl.zeros([WIDTH], tl.float32)
    for entry in range(first, last):
        index = tl.load(indices + entry)
        value = tl.load(values + entry)
        total += value * tl.load(dense + index * WIDTH + columns)
    tl.store(product + row * WIDTH + columns, total)


def multiply(offsets, indices, values, dense, product):
    """Write the product of the matrix (offsets, indices, values) and dense to product."""
    rows, width = product.shape
    multiply_row[(rows,)](offsets, indices, values, dense, product, WIDTH=width, num_warps=1)
