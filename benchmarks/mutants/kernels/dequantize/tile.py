import torch
import triton
import triton.language as tl


@triton.jit
def dequantize_kernel(q, scale, zero, y, n, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < n
    group = offsets // 16
    value = tl.load(q + offsets, mask=inside, other=0).to(tl.float32)
    shift = tl.load(zero + group, mask=inside, other=0).to(tl.float32)
    factor = tl.load(scale + group, mask=inside, other=0.0)
    tl.store(y + offsets, (value - shift) * factor, mask=inside)


def dequantize(q, scale, zero):
    y = torch.empty(q.shape, dtype=scale.dtype, device=q.device)
    n = q.numel()
    dequantize_kernel[(triton.cdiv(n, 128),)](q, scale, zero, y, n, block=128)
    return y
