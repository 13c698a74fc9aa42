"""Reference of leaky_integrator_readout."""

import torch


def integrate(x: torch.Tensor, readout: torch.Tensor) -> torch.Tensor:
    """Return sum over k of readout_k t^(95 - k), with t the squashed last state (series)."""
    state = torch.zeros_like(x[0])
    for sample in x:
        state = 0.9 * state + sample / (1 + sample.abs())
    t = state / (1 + state.abs())
    y = torch.zeros_like(state)
    for weight in readout:
        y = y * t + weight
    return y
