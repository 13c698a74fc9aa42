"""Reference of duffing_rk4_ensemble."""

import torch

_STEPS = 256
_TIME = 0.015625
_DAMPING = 0.25


def duffing(
    position: torch.Tensor, velocity: torch.Tensor, linear: torch.Tensor, cubic: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions and velocities after 256 steps of the classical Runge-Kutta method."""

    def acceleration(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return -_DAMPING * v - x * (linear + cubic * (x * x))

    x, v = position, velocity
    for _ in range(_STEPS):
        a1 = acceleration(x, v)
        v2 = v + 0.5 * _TIME * a1
        a2 = acceleration(x + 0.5 * _TIME * v, v2)
        v3 = v + 0.5 * _TIME * a2
        a3 = acceleration(x + 0.5 * _TIME * v2, v3)
        v4 = v + _TIME * a3
        a4 = acceleration(x + _TIME * v3, v4)
        x = x + _TIME / 6.0 * (v + 2.0 * (v2 + v3) + v4)
        v = v + _TIME / 6.0 * (a1 + 2.0 * (a2 + a3) + a4)
    return x, v
