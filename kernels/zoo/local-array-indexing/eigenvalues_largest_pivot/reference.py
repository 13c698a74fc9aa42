"""Reference of eigenvalues_largest_pivot."""

import torch


def eigenvalues(tensors: torch.Tensor) -> torch.Tensor:
    """Return the eigenvalues in ascending order: (n, 3); only lower triangles are read."""
    rows = torch.arange(3, device=tensors.device)
    high, low = torch.maximum(rows[:, None], rows), torch.minimum(rows[:, None], rows)
    a = tensors[:, high, low].clone()
    for _ in range(6):
        for p, q in ((0, 1), (0, 2), (1, 2)):
            r = 3 - p - q
            element = a[:, p, q].clone()
            ratio = (a[:, q, q] - a[:, p, p]) / torch.where(element == 0, 1, 2 * element)
            sign = torch.where(ratio < 0, -1.0, 1.0).to(a.dtype)
            tangent = sign / (ratio.abs() + (ratio.square() + 1).sqrt())
            tangent = torch.where(element == 0, 0, tangent)
            cosine = (tangent.square() + 1).rsqrt()
            sine = tangent * cosine
            a[:, p, p] -= tangent * element
            a[:, q, q] += tangent * element
            a[:, p, q] = a[:, q, p] = 0
            left, right = a[:, r, p].clone(), a[:, r, q].clone()
            a[:, r, p] = a[:, p, r] = cosine * left - sine * right
            a[:, r, q] = a[:, q, r] = sine * left + cosine * right
    return a.diagonal(dim1=1, dim2=2).sort(1).values
