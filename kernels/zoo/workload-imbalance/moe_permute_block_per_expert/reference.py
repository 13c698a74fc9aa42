"""Reference of moe_permute_block_per_expert."""

import torch


def make_inputs(
    experts: int, bounds: int, tokens: int, slots: int, width: int
) -> list[torch.Tensor]:
    """Return x, the token of each slot, and the first slot of each expert and of none."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shares = torch.rand(experts, dtype=torch.float64) ** 3 + 1e-6
    starts = torch.zeros(bounds, dtype=torch.int32)
    starts[1:] = (shares.cumsum(0) / shares.sum() * slots).round().to(torch.int32)
    sources = torch.randint(tokens, (slots,), dtype=torch.int32)
    x = torch.randn(tokens, width, 4, device=device)
    return [x, sources.to(device), starts.to(device)]


def permute(x: torch.Tensor, sources: torch.Tensor, _starts: torch.Tensor) -> torch.Tensor:
    """Return the row of x of each slot."""
    return x[sources.long()]
