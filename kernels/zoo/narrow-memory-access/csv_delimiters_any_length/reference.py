"""Reference of csv_delimiters_any_length."""

import torch

COMMA, LINE_END = 44, 10


def count_delimiters(text: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return start plus the number of commas and of line ends, int32 (2)."""
    counts = [(text == letter).sum(dtype=torch.int32) for letter in (COMMA, LINE_END)]
    return start + torch.stack(counts)
