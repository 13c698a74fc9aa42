"""Reference of integral_image_rows."""

import torch


def integral_image_rows(image: torch.Tensor) -> torch.Tensor:
    """Return the inclusive prefix sums of each row, int32 (rows, width)."""
    return torch.cumsum(image, dim=1, dtype=torch.int32)
