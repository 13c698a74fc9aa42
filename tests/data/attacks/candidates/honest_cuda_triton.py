import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, cols, block: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, block)
    value = tl.load(x + row * cols + offsets, mask=offsets < cols, other=-float("inf"))
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * cols + offsets, power / tl.sum(power, axis=0), mask=offsets < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], block=block)
        return y
