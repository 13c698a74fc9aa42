"""Reference of attention_logits_key_a_thread."""

import torch


def attention_logits(keys: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Return 30 tanh(s / 30) of the scaled products s of each key with the query."""
    return 30 * torch.tanh(keys @ query / (30 * keys.shape[1] ** 0.5))
