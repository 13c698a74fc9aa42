"""A step of the Allen-Cahn equation on a periodic grid, in Triton; a program a piece of a row."""

import triton
import triton.language as tl


@triton.jit
def step_phase(u, out, depth, height, width, time_step, stiffness, BLOCK: tl.constexpr):
    """Advance BLOCK neighbouring cells of one row of the grid."""
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1)
    z = tl.program_id(2)
    inside = x < width
    row = (z * height + y) * width
    left = row + tl.where(x == 0, width - 1, x - 1)
    right = row + tl.where(x == width - 1, 0, x + 1)
    front = (z * height + tl.where(y == 0, height - 1, y - 1)) * width + x
    back = (z * height + tl.where(y == height - 1, 0, y + 1)) * width + x
    below = (tl.where(z == 0, depth - 1, z - 1) * height + y) * width + x
    above = (tl.where(z == depth - 1, 0, z + 1) * height + y) * width + x
    own = tl.load(u + row + x, mask=inside, other=0.0)
    sum_x = tl.load(u + left, mask=inside, other=0.0) + tl.load(u + right, mask=inside, other=0.0)
    sum_y = tl.load(u + front, mask=inside, other=0.0) + tl.load(u + back, mask=inside, other=0.0)
    sum_z = tl.load(u + below, mask=inside, other=0.0) + tl.load(u + above, mask=inside, other=0.0)
    change = stiffness * (sum_x + sum_y + sum_z - 6.0 * own) + own - own * own * own
    tl.store(out + row + x, own + time_step * change, mask=inside)


def step(u, time_step, stiffness, out):
    """Write the next phase of each cell of u (depth, height, width)."""
    depth, height, width = u.shape
    grid = (triton.cdiv(width, 256), height, depth)
    step_phase[grid](u, out, depth, height, width, time_step, stiffness, BLOCK=256)
