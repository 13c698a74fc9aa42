"""Reference of rotary_angles_per_head."""

import torch


def rotate(queries: torch.Tensor) -> torch.Tensor:
    """Rotate each pair by token * 10000^(-pair / 64) and scale it by its decay: same shape."""
    wide = torch.promote_types(queries.dtype, torch.float32)
    token = torch.arange(queries.shape[0], device=queries.device, dtype=wide)[:, None]
    share = torch.arange(64, device=queries.device, dtype=wide) / 64
    angle = token * torch.pow(10000.0, -share)
    scale = torch.pow((share + 0.4) / 1.4, (token - 4096) / 8192)
    cosine, sine = (scale * angle.cos())[:, None], (scale * angle.sin())[:, None]
    x, y = queries.to(wide).unbind(3)
    return torch.stack((x * cosine - y * sine, x * sine + y * cosine), 3).to(queries.dtype)
