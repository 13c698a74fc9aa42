"""Reference of sensor_polynomial_block_1024."""

import torch


def calibrate(samples: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """Return the polynomial whose first coefficient is that of the highest power (n)."""
    values = torch.zeros_like(samples)
    for coefficient in coefficients:
        values = values * samples + coefficient
    return values
