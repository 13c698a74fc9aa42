"""Reference of silu_mul_bf16."""

import torch


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up, (rows, dim), computed in at least fp32."""
    wide = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32))
    gate, up = wide[:, 0], wide[:, 1]
    return (gate / (1 + torch.exp(-gate)) * up).to(gate_up.dtype)
