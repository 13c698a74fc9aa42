"""Reference of vertical_blur_column_strips."""

import torch

RADIUS = 15


def blur_columns(image: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted sums over 31 rows, zero outside of the image (images, h, w)."""
    h = image.shape[1]
    padded = torch.nn.functional.pad(image, (0, 0, RADIUS, RADIUS))
    return sum(weights[k] * padded[:, k : k + h] for k in range(2 * RADIUS + 1))
