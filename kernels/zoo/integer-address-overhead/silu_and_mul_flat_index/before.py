"""silu(gate) * up of rows that hold the gate and then the other half, in Triton."""

import triton
import triton.language as tl


@triton.jit
def gate_flat(gate_up, y, size, dim, BLOCK: tl.constexpr):
    """Compute BLOCK elements of the flattened output."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    row = at // dim
    column = at % dim
    source = gate_up + row * 2 * dim + column
    gate = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + dim, mask=inside, other=0.0).to(tl.float32)
    value = gate * tl.sigmoid(gate) * up
    tl.store(y + at, value.to(tl.float16), mask=inside)


def silu_and_mul(gate_up, y):
    """Write (rows, dim) from gate_up of (rows, 2 dim), float16."""
    rows, dim = y.shape
    size = rows * dim
    gate_flat[(triton.cdiv(size, 1024),)](gate_up, y, size, dim, BLOCK=1024)
