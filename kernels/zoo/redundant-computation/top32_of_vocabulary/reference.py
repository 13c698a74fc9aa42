"""Reference of top32_of_vocabulary."""

import torch


def top32(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the 32 largest values of each row, largest first, and their indices (int32)."""
    values, indices = torch.sort(logits, dim=-1, descending=True, stable=True)
    return values[:, :32].contiguous(), indices[:, :32].to(torch.int32).contiguous()
