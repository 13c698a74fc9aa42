"""Reference of paged_append_value_per_thread."""

import torch


def make_inputs(tokens: int, pages: int, heads: int) -> list[torch.Tensor]:
    """Return keys, values, slots in order but for an eighth that are -1, and the caches."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    slots = torch.randperm(pages * 16)[:tokens].sort().values.to(torch.int32)
    slots[torch.rand(tokens) < 0.125] = -1
    rows, cache = (tokens, heads, 128), (pages, heads, 16, 16, 8)
    arrays = [
        torch.randn(shape, dtype=torch.float16, device=device)
        for shape in (rows, rows, cache, cache)
    ]
    return [*arrays[:2], slots.to(device), *arrays[2:]]


def append(
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    old_keys: torch.Tensor,
    old_values: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the caches with the rows of all tokens whose slot is not negative."""
    kept = slots >= 0
    page, place = slots[kept].long() // 16, slots[kept].long() % 16
    caches = (old_keys.clone(), old_values.clone())
    for cache, rows in zip(caches, (keys, values), strict=True):
        cache[page, :, :, place] = rows[kept].unflatten(2, (16, 8))
    return caches
