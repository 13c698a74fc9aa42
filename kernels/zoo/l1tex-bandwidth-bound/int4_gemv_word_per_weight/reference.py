"""Reference of int4_gemv_word_per_weight."""

import torch


def gemv_int4(packed: torch.Tensor, scales: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the product of the weights, less 8 and times their group's scale, and x (rows)."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows, groups = scales.shape
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=packed.device)
    levels = ((packed[..., None] >> shifts) & 15) - 8
    scaled = levels.reshape(rows, groups, 128).to(wide) * scales.to(wide)[:, :, None]
    return (scaled.reshape(rows, -1) @ x.to(wide).flatten()).to(x.dtype)
