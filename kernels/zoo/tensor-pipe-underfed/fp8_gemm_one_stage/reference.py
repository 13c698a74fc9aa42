"""Reference of fp8_gemm_one_stage."""

import torch


def make_codes(m: int, n: int, k: int) -> list[torch.Tensor]:
    """Return codes of e4m3 numbers of both signs, below 2 in magnitude."""
    shapes = (m, k), (n, k)
    codes = [torch.randint(0, 64, shape) + 128 * torch.randint(0, 2, shape) for shape in shapes]
    return [code.to(torch.uint8) for code in codes]


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b.T with sums in float32; a byte is the code of a number in float8_e4m3fn."""
    left, right = (x.view(torch.float8_e4m3fn).to(torch.float32) for x in (a, b))
    return (left @ right.T).to(torch.bfloat16)
