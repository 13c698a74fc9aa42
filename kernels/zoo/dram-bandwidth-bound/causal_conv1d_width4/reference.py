"""Reference of causal_conv1d_width4."""

import torch


def causal_conv1d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return bias + sum over k of weight[k] * x[t - 3 + k], with zeros before the first step."""
    padded = torch.nn.functional.pad(x, (0, 0, 3, 0))
    result = bias.expand_as(x).clone()
    for k in range(4):
        result += weight[k] * padded[:, k : k + x.shape[1]]
    return result
