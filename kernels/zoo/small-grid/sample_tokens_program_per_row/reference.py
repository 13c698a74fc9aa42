"""Reference of sample_tokens_program_per_row."""

import torch


def sample_tokens(
    logits: torch.Tensor, noise: torch.Tensor, temperatures: torch.Tensor
) -> torch.Tensor:
    """Return the index of the largest logit / max(temperature, 0.05) + noise of each row."""
    scores = logits / temperatures.clamp_min(0.05)[:, None] + noise
    return scores.argmax(1).to(torch.int32)
