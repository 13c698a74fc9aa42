"""Reference of tone_map_pow."""

import torch


def tone_map(radiance: torch.Tensor) -> torch.Tensor:
    """Return the rational filmic curve of each value, to the power of 1 / 2.2: (n)."""
    shoulder = radiance * (2.51 * radiance + 0.03)
    toe = radiance * (2.43 * radiance + 0.59) + 0.14
    return torch.pow(shoulder / toe, 1.0 / 2.2)
