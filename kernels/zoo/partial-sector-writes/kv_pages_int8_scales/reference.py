"""Reference of kv_pages_int8_scales."""

import torch


def quantize_keys(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return round(127 * key / largest) as (pages, heads, 128, 16), and largest / 127."""
    wide = keys.double()
    largest = wide.abs().amax(dim=-1, keepdim=True)
    levels = (wide * 127 / largest.clamp_min(1e-30)).round().to(torch.int8)
    scales = largest.squeeze(-1) / 127
    if keys.dtype == torch.float16:
        scales = scales.float()
    return levels.permute(0, 2, 3, 1).contiguous(), scales.contiguous()
