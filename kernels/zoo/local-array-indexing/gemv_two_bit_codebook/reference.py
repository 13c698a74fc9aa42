"""Reference of gemv_two_bit_codebook."""

import torch


def multiply(codes: torch.Tensor, codebook: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the product with x of the weights that the codes choose from the codebook, (rows)."""
    products = []
    for part, book in zip(codes.split(1024), codebook.split(1024), strict=True):
        total = torch.zeros_like(book[:, 0])
        for k in range(16):
            code = (part >> (2 * k)) & 3
            total = total + torch.gather(book, 1, code.long()) @ x[:, k]
        products.append(total)
    return torch.cat(products)
