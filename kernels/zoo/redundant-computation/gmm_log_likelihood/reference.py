"""Reference of gmm_log_likelihood."""

import math

import torch


def gmm_log_likelihood(
    samples: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, log_weight: torch.Tensor
) -> torch.Tensor:
    """Return the log of the weighted sum of k diagonal Gaussian densities for each sample (n)."""
    spread = variance + 0.25
    densities = []
    for component in range(mean.shape[0]):
        difference = samples - mean[component][:, None]
        exponent = (difference * difference / spread[component][:, None]).sum(0)
        normaliser = torch.log(2.0 * math.pi * spread[component]).sum()
        densities.append(log_weight[component] - 0.5 * (exponent + normaliser))
    return torch.logsumexp(torch.stack(densities), dim=0)
