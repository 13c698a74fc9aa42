"""Reference of int4_gemv_column_per_thread."""

import torch


def gemv_int4(packed: torch.Tensor, scales: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return x times the weights, less 8 and times their group's scale (columns)."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    groups, _, columns = packed.shape
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=packed.device)[:, None]
    levels = ((packed[:, :, None, :] >> shifts) & 15) - 8
    scaled = levels.reshape(groups, 128, columns).to(wide) * scales.to(wide)[:, None, :]
    return (x.to(wide).flatten() @ scaled.reshape(-1, columns)).to(x.dtype)
