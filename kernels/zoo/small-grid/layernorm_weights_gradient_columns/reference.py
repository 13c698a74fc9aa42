"""Reference of layernorm_weights_gradient_columns."""

import torch


def layernorm_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    means: torch.Tensor,
    scales: torch.Tensor,
    old_dgamma: torch.Tensor,
    old_dbeta: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both old gradients plus the sums of dy * (x - mean) * scale, and of dy."""
    wide = old_dgamma.dtype
    gradient = dy.to(wide)
    normal = (x.to(wide) - means[:, None]) * scales[:, None]
    return old_dgamma + (gradient * normal).sum(0), old_dbeta + gradient.sum(0)
