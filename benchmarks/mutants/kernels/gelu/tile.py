import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x, y, n, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < n
    value = tl.load(x + offsets, mask=inside, other=0.0)
    result = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    tl.store(y + offsets, result, mask=inside)


def gelu(x):
    y = torch.empty_like(x)
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, 128),)](x, y, n, block=128)
    return y
