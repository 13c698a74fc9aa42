"""Reference of int4_gemv_grouped_scales."""

import torch


def gemv_int4(weights: torch.Tensor, scales: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the product of weights of four bits, scaled by groups, and x (rows)."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows, groups = scales.shape
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=weights.device)
    levels = ((weights[:, :, None] >> shifts) & 15) - 8
    scaled = levels.reshape(rows, groups, -1).to(wide) * scales.to(wide)[:, :, None]
    return (scaled.reshape(rows, -1) @ x.to(wide)).to(x.dtype)
