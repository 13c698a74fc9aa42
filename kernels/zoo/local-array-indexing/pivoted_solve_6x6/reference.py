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
    found = torch.linalg.solve_ex(matrices.permute(2, 0, 1), right.T[:, :, None]).result
    return found[:, :, 0].T.contiguous()
