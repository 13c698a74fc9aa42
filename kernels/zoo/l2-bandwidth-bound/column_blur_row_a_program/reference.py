"""Reference of column_blur_row_a_program."""

import torch


def blur(image: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the image filtered along its columns; rows outside are those at the border."""
    height = len(image)
    rows = torch.arange(height, device=image.device)
    total = torch.zeros_like(image)
    for tap in range(17):
        total += weights[tap] * image[(rows + tap - 8).clamp(0, height - 1)]
    return total
