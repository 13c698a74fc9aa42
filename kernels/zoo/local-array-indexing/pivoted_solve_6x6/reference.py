"""Reference of pivoted_solve_6x6."""

import torch

ORDER = 6


def make_systems(n: int) -> list[torch.Tensor]:
    """Return matrices whose rows, in some order, have their largest number on the diagonal."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    matrices = torch.randn(n, ORDER, ORDER, device=device) * 0.4
    matrices += 3 * torch.eye(ORDER, device=device)
    order = torch.rand(n, ORDER, device=device).argsort(1)
    mixed = matrices.gather(1, order[:, :, None].expand(-1, -1, ORDER))
    return [mixed.permute(1, 2, 0).contiguous(), torch.randn(ORDER, n, device=device)]


def solve(matrices: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the solutions of n systems of six equations, (6, n)."""
    rows = torch.cat((matrices, right[:, None]), 1)
    for k in range(ORDER):
        pivot = (rows[k:, k].abs().argmax(0) + k)[None, None].expand(1, ORDER + 1, -1)
        chosen, upper = rows.gather(0, pivot)[0], rows[k]
        rows = rows.scatter(0, pivot, upper[None])
        rows[k] = chosen
        factors = rows[:, k] / chosen[k]
        factors[k] = 0
        rows = rows - factors[:, None] * chosen
    return torch.stack([rows[k, ORDER] / rows[k, k] for k in range(ORDER)])
