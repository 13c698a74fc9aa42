"""Reference of relaxation_forty_launches."""

import torch


def relax(start: torch.Tensor, drive: torch.Tensor) -> torch.Tensor:
    """Return the state after 40 steps of state += 0.05 * (drive - state * |state|) (n)."""
    state = start
    for _ in range(40):
        state = state + 0.05 * (drive - state * state.abs())
    return state
