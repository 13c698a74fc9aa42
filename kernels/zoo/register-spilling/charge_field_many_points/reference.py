"""Reference of charge_field_many_points."""

import torch


def charge_field(points: torch.Tensor, charges: torch.Tensor) -> torch.Tensor:
    """Return the field at each point, (3, n); a row of charges is x, y, z and the charge."""
    field = torch.zeros_like(points)
    for x, y, z, charge in charges.unbind():
        offset = points - torch.stack((x, y, z))[:, None]
        inverse = torch.rsqrt((offset * offset).sum(dim=0) + 0.5)
        field += offset * (charge * inverse * inverse * inverse)
    return field
