"""Reference of fp8_gemm_one_stage."""

import torch


def make_codes(m: int, n: int, k: int) -> list[torch.Tensor]:
    """Return codes of e4m3 numbers of both signs, below 2 in magnitude."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [
        torch.randint(0, 64, shape, dtype=torch.uint8, device=device)
        + 128 * torch.randint(0, 2, shape, dtype=torch.uint8, device=device)
        for shape in ((m, k), (n, k))
    ]


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b.T with sums in float32; a byte is the code of a number in float8_e4m3fn."""
    left, right = (x.view(torch.float8_e4m3fn).to(torch.float32) for x in (a, b))
    return (left @ right.T).to(torch.bfloat16)
