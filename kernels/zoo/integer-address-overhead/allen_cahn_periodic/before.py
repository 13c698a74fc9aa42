"""A step of the Allen-Cahn equation on a periodic grid, in Triton."""

import triton
import triton.language as tl


@triton.jit
def step_phase(u, out, depth, height, width, time_step, stiffness, BLOCK: tl.constexpr):
    """Advance BLOCK cells of the grid, which lie one after the other in memory."""
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = cell < depth * height * width
    x = cell % width
    y = cell // width % height
    z = cell // (width * height)
    left = (z * height + y) * width + (x + width - 1) % width
    right = (z * height + y) * width + (x + 1) % width
    front = (z * height + (y + height - 1) % height) * width + x
    back = (z * height + (y + 1) % height) * width + x
    below = ((z + depth - 1) % depth * height + y) * width + x
    above = ((z + 1) % depth * height + y) * width + x
    own = tl.load(u + cell, mask=inside, other=0.0)
    sum_x = tl.load(u + left, mask=inside, other=0.0) + tl.load(u + right, mask=inside, other=0.0)
    sum_y = tl.load(u + front, mask=inside, other=0.0) + tl.load(u + back, mask=inside, other=0.0)
    sum_z = tl.load(u + below, mask=inside, other=0.0) + tl.load(u + above, mask=inside, other=0.0)
    change = stiffness * (sum_x + sum_y + sum_z - 6.0 * own) + own - own * own * own
    tl.store(out + cell, own + time_step * change, mask=inside)


def step(u, time_step, stiffness, out):
    """Write the next phase of each cell of u (depth, height, width)."""
    depth, height, width = u.shape
    grid = (triton.cdiv(u.numel(), 1024),)
    step_phase[grid](u, out, depth, height, width, time_step, stiffness, BLOCK=1024)
