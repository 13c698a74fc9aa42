# kernel: nbody_sums_in_loop/after/cuda
# change: sums stay two-dimensional in the loop and are added along rows once
"""Forces of n bodies on each other, softened; tiles of 64 x 64 pairs in Triton."""

import triton
import triton.language as tl


@triton.jit
def sum_forces(bodies, forces, n, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    known = rows < n
    x = tl.load(bodies + rows, mask=known, other=0.0)
    y = tl.load(bodies + n + rows, mask=known, other=0.0)
    z = tl.load(bodies + 2 * n + rows, mask=known, other=0.0)
    force_x = tl.zeros([M, N], tl.float32)
    force_y = tl.zeros([M, N], tl.float32)
    force_z = tl.zeros([M, N], tl.float32)
    for start in range(0, n, N):
        columns = start + tl.arange(0, N)
        inside = columns < n
        dx = tl.load(bodies + columns, mask=inside, other=0.0)[None, :] - x[:, None]
        dy = tl.load(bodies + n + columns, mask=inside, other=0.0)[None, :] - y[:, None]
        dz = tl.load(bodies + 2 * n + columns, mask=inside, other=0.0)[None, :] - z[:, None]
        mass = tl.load(bodies + 3 * n + columns, mask=inside, other=0.0)
        inverse = tl.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
        weight = mass[None, :] * inverse * inverse * inverse
        force_x += weight * dx
        force_y += weight * dy
        force_z += weight * dz
    tl.store(forces + rows, tl.sum(force_x, axis=1), mask=known)
    tl.store(forces + n + rows, tl.sum(force_y, axis=1), mask=known)
    tl.store(forces + 2 * n + rows, tl.sum(force_z, axis=1), mask=known)


def pull(bodies, forces):
    """Write the force on each body; bodies is (4, n), forces is (3, n)."""
    n = bodies.shape[1]
    sum_forces[(triton.cdiv(n, 64),)](bodies, forces, n, M=64, N=64, num_warps=4)
