# kernel: kmeans_broadcast_differences/after/cuda
# change: the square is expanded, and a product of matrices gives its mixed term
"""Squared distance of each point to the nearest of k centers, in 64 dimensions, in Triton."""

import triton
import triton.language as tl


@triton.jit
def find_nearest(
    points, centers, distances, n, k, DIM: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    axis = tl.arange(0, DIM)
    inside = rows < n
    point = tl.load(points + rows[:, None] * DIM + axis[None, :], mask=inside[:, None], other=0.0)
    length = tl.sum(point * point, axis=1)
    nearest = tl.full([M], float("inf"), tl.float32)
    for start in range(0, k, N):
        places = start + tl.arange(0, N)
        known = places < k
        at = places[:, None] * DIM + axis[None, :]
        center = tl.load(centers + at, mask=known[:, None], other=0.0)
        mixed = tl.dot(point, center.T, input_precision="tf32x3")
        squared = tl.sum(center * center, axis=1)[None, :] - 2.0 * mixed
        squared = tl.where(known[None, :], squared, float("inf"))
        nearest = tl.minimum(nearest, tl.min(squared, axis=1))
    tl.store(distances + rows, tl.maximum(nearest + length, 0.0), mask=inside)


def assign(points, centers, distances):
    """Write the squared distance of each point to the nearest center; both have 64 columns."""
    (n, dim), k = points.shape, centers.shape[0]
    find_nearest[(triton.cdiv(n, 64),)](
        points, centers, distances, n, k, DIM=dim, M=64, N=64, num_warps=4
    )
