"""Reference of adam_step_4_bytes."""

import torch


def adam_step(
    grads: torch.Tensor, params: torch.Tensor, means: torch.Tensor, squares: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the parameters and both moments after one step."""
    means = 0.875 * means + 0.125 * grads
    squares = 0.984375 * squares + 0.015625 * grads * grads
    return params - 0.0078125 * means / (squares.sqrt() + 1e-4), means, squares
