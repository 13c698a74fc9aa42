"""Reference of levenshtein_read_pairs."""

import torch


def edit_distances(
    pattern: torch.Tensor,
    text: torch.Tensor,
    pattern_trim: torch.Tensor,
    text_trim: torch.Tensor,
) -> torch.Tensor:
    """Return the Levenshtein distance of each pair without the trimmed ends, int32 (n)."""
    length, n = pattern.shape
    rows, cols = (length - pattern_trim).long(), (length - text_trim).long()
    costs = [torch.full((n,), j, dtype=torch.int32, device=text.device) for j in range(length + 1)]
    result = torch.zeros(n, dtype=torch.int32, device=text.device)
    for r in range(length):
        above = costs
        costs = [torch.full_like(result, r + 1)]
        for j in range(length):
            replaced = above[j] + (pattern[r] != text[j])
            costs.append(torch.minimum(torch.minimum(above[j + 1], costs[j]) + 1, replaced))
        if r + 1 >= length - 7:
            picked = torch.stack(costs).gather(0, cols[None, :])[0]
            result = torch.where(rows == r + 1, picked, result)
    return result
