"""Reference of repetition_penalty_compare_all."""

import torch


def apply_penalty(logits: torch.Tensor, history: torch.Tensor, penalty: float) -> torch.Tensor:
    """Return the logits; those of tokens in the history over, or below 0 times, the penalty."""
    tokens = history.long()
    chosen = logits.gather(1, tokens)
    lower = torch.where(chosen > 0, chosen / penalty, chosen * penalty)
    return logits.scatter(1, tokens, lower)
