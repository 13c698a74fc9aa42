"""Reference of gated_recurrence_late_loads."""

import torch


def recur(x: torch.Tensor) -> torch.Tensor:
    """Return the state after the last step, starting from zero (channels)."""
    state = torch.zeros_like(x[0])
    for sample in x:
        state = torch.tanh(0.5 * state + sample)
    return state
