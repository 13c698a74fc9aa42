"""Reference of int8_row_quantize."""

import torch


def quantize(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rounded int8 values (rows, cols) and the float32 scales (rows)."""
    wide = values.double()
    largest = wide.abs().amax(dim=1).clamp(min=1.0e-8)
    output = torch.round(127.0 * wide / largest[:, None]).to(torch.int8)
    dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
    return output, (largest / 127.0).to(dtype)
