"""Reference of tridiagonal_rows_of_64."""

import torch


def solve(
    lower: torch.Tensor, excess: torch.Tensor, upper: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """Return the solutions: (systems, 64); the diagonal is 1 + |excess| + |lower| + |upper|."""
    diagonal = 1 + excess.abs() + lower.abs() + upper.abs()
    ratio = value = torch.zeros_like(lower[:, 0])
    ratios, values = [], []
    for k in range(64):
        inverse = 1 / (diagonal[:, k] - lower[:, k] * ratio)
        value = (right[:, k] - lower[:, k] * value) * inverse
        ratio = upper[:, k] * inverse
        ratios.append(ratio)
        values.append(value)
    solution = torch.zeros_like(value)
    solutions = []
    for k in range(63, -1, -1):
        solution = values[k] - ratios[k] * solution
        solutions.append(solution)
    return torch.stack(solutions[::-1], dim=1)
