"""Reference of layernorm_gamma_beta_gradient."""

import torch


def gamma_beta_gradient(
    gradient: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    gamma_start: torch.Tensor,
    beta_start: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the starts plus the sums over rows of gradient * normalised x and of gradient."""
    wide = gradient.to(mean.dtype)
    normalised = (x.to(mean.dtype) - mean[:, None]) * rstd[:, None]
    return gamma_start + (wide * normalised).sum(0), beta_start + wide.sum(0)
