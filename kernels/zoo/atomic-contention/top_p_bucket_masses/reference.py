"""Reference of top_p_bucket_masses."""

import torch


def find_buckets(logits: torch.Tensor, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bucket where the weights reach top_p of all, and the mass from it upwards."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    weights = torch.exp(wide - wide.amax(1, keepdim=True))
    fixed = (weights * 16384).floor().to(torch.int64)
    bits = logits.to(torch.bfloat16).view(torch.int16).to(torch.int64) & 0xFFFF
    ordered = torch.where(bits >= 0x8000, 0xFFFF - bits, bits | 0x8000)
    sums = torch.zeros(len(logits), 256, dtype=torch.int64, device=logits.device)
    sums.scatter_add_(1, ordered >> 8, fixed)
    masses = sums.flip(1).cumsum(1)
    is_short = masses.double() < top_p * masses[:, -1:].double()
    count = is_short.sum(1, keepdim=True)
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    mass = masses.gather(1, count)[:, 0].to(dtype) / 16384
    return (255 - count[:, 0]).to(torch.int32), mass
