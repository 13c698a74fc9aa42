"""Reference of charge_potential_block_1024."""

import torch


def potential_at(points: torch.Tensor, charges: torch.Tensor) -> torch.Tensor:
    """Return point[3] * sum of q / sqrt(r^2 + 0.01) for each point (n)."""
    parts = []
    for chunk in points.split(8192):
        squared = sum((chunk[:, None, d] - charges[None, :, d]).square() for d in range(3))
        parts.append(chunk[:, 3] * ((squared + 0.01).rsqrt() * charges[:, 3]).sum(1))
    return torch.cat(parts)
