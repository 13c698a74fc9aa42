"""Reference of wkv6_recurrence."""

import torch


def run_recurrence(
    receptances: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    decays: torch.Tensor,
    bonus: torch.Tensor,
) -> torch.Tensor:
    """Return of each step its receptance times the state and times bonus, key and value."""
    wide = decays.dtype
    batch, length, heads, size = keys.shape
    state = torch.zeros(batch, heads, size, size, dtype=wide, device=keys.device)
    out = torch.empty_like(values)
    for step in range(length):
        product = keys[:, step].to(wide)[..., None] * values[:, step].to(wide)[..., None, :]
        seen = state + bonus[None, :, :, None] * product
        out[:, step] = (receptances[:, step].to(wide)[..., None] * seen).sum(2).to(out.dtype)
        state = state * decays[:, step][..., None] + product
    return out
