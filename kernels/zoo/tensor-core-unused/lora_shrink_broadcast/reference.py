"""Reference of lora_shrink_broadcast."""

import torch


def make_inputs(blocks: int, adapters: int) -> list[torch.Tensor]:
    """Return tokens, down projections, and the adapter of each block."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(blocks, 32, 4096, dtype=torch.bfloat16, device=device)
    down = torch.randn(adapters, 64, 4096, dtype=torch.bfloat16, device=device) / 64
    chosen = torch.randint(adapters, (blocks,), dtype=torch.int32, device=device)
    return [x, down, chosen]


def shrink(x: torch.Tensor, down: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return the tokens of each block times the down projection of its adapter."""
    return x @ down[chosen.long()].transpose(1, 2)
