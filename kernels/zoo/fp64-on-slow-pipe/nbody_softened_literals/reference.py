"""Reference of nbody_softened_literals."""

import torch

_CHUNK = 16384


def compute_field(targets: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
    """Return acceleration (3) and potential (1) at each target; sources are x, y, z, mass."""
    parts = []
    for chunk in targets.split(_CHUNK):
        offset = sources[None, :, :3] - chunk[:, None, :3]
        inverse = 1.0 / torch.sqrt(offset.square().sum(2) + 0.01)
        potential = sources[:, 3] * inverse
        pull = potential * inverse * inverse
        acceleration = (pull[:, :, None] * offset).sum(1)
        parts.append(torch.cat((acceleration, chunk[:, 3:] * potential.sum(1, keepdim=True)), 1))
    return torch.cat(parts)
