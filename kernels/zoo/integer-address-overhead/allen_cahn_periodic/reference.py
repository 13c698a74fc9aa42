"""Reference of allen_cahn_periodic."""

import torch


def step(u: torch.Tensor, time_step: float, stiffness: float) -> torch.Tensor:
    """Return the phase after a step of Euler's method, (depth, height, width)."""
    sums = sum(u.roll(1, axis) + u.roll(-1, axis) for axis in range(3))
    return u + time_step * (stiffness * (sums - 6 * u) + u - u * u * u)
