"""Reference of rope_packed_program_per_head."""

import torch


def apply_rope(qk: torch.Tensor, positions: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return the pairs (i, i + 64) of each head, turned by the token's row of the table."""
    wide = torch.promote_types(qk.dtype, torch.float32)
    rows = table.to(wide)[positions.long()][:, None, :]
    cosine, sine = rows[..., :64], rows[..., 64:]
    low, high = qk[..., :64].to(wide), qk[..., 64:].to(wide)
    turned = torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)
    return turned.to(qk.dtype)
