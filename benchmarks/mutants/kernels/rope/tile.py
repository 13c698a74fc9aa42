import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(x, cosine, sine, y, heads, half, block: tl.constexpr):
    position = tl.program_id(0)
    head = tl.program_id(1)
    offsets = tl.arange(0, block)
    inside = offsets < half
    first = (position * heads + head) * 2 * half
    a = tl.load(x + first + offsets, mask=inside, other=0.0)
    b = tl.load(x + first + half + offsets, mask=inside, other=0.0)
    c = tl.load(cosine + position * half + offsets, mask=inside, other=0.0)
    s = tl.load(sine + position * half + offsets, mask=inside, other=0.0)
    tl.store(y + first + offsets, a * c - b * s, mask=inside)
    tl.store(y + first + half + offsets, b * c + a * s, mask=inside)


def rope(x, cosine, sine):
    y = torch.empty_like(x)
    positions, heads, _, half = x.shape
    block = triton.next_power_of_2(half)
    rope_kernel[(positions, heads)](x, cosine, sine, y, heads, half, block=block)
    return y
