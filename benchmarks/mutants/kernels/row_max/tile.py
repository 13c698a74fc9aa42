import torch
import triton
import triton.language as tl


@triton.jit
def larger(left, right):
    return tl.where((left > right) | (left != left), left, right)


@triton.jit
def row_max_kernel(x, y, cols, block: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, block)
    value = tl.load(x + row * cols + offsets, mask=offsets < cols, other=-float("inf"))
    tl.store(y + row, tl.reduce(value, 0, larger))


def row_max(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    row_max_kernel[(x.shape[0],)](x, y, x.shape[1], block=triton.next_power_of_2(x.shape[1]))
    return y
