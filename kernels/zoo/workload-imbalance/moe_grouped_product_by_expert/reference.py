"""Reference of moe_grouped_product_by_expert."""

from itertools import pairwise

import torch


def make_inputs(experts: int, bounds: int, tokens: int) -> list[torch.Tensor]:
    """Return rows sorted by expert, weights, and the first row of each expert and of none."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shares = torch.rand(experts, dtype=torch.float64) ** 6 + 1e-4
    starts = torch.zeros(bounds, dtype=torch.int32)
    starts[1:] = (shares.cumsum(0) / shares.sum() * tokens).round().to(torch.int32)
    x = torch.randn(tokens, 1024, dtype=torch.bfloat16, device=device)
    weights = torch.randn(experts, 1024, 2048, dtype=torch.bfloat16, device=device) / 32
    return [x, weights, starts.to(device)]


def multiply_groups(x: torch.Tensor, weights: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return each row times the weights of its expert."""
    bounds = starts.tolist()
    out = x.new_empty(x.shape[0], weights.shape[2])
    for expert, (first, last) in enumerate(pairwise(bounds)):
        out[first:last] = x[first:last] @ weights[expert]
    return out
