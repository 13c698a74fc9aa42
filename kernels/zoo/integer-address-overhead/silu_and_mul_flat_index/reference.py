"""Reference of silu_and_mul_flat_index."""

import torch


def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up, (rows, dim), computed in at least fp32."""
    wide = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32))
    gate, up = wide[:, 0], wide[:, 1]
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)
