"""What a user would call instead: each backend of torch's scaled_dot_product_attention.

Only those that take fp32 on some device are here. ``sdpa_efficient`` exists on CUDA alone,
``sdpa_flash`` takes fp32 on a CPU alone; elsewhere they raise, and are no baseline there. cuDNN's
takes half types only, everywhere.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def sdpa_math(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of (bh, seq, dim) arrays, by separate matrix products and softmax."""
    return _sdpa(SDPBackend.MATH, q, k, v)


def sdpa_efficient(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of (bh, seq, dim) arrays, by the memory-efficient kernels."""
    return _sdpa(SDPBackend.EFFICIENT_ATTENTION, q, k, v)


def sdpa_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of (bh, seq, dim) arrays, by FlashAttention."""
    return _sdpa(SDPBackend.FLASH_ATTENTION, q, k, v)


def _sdpa(backend: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    # The backends want (batch, heads, seq, dim).
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(q[None], k[None], v[None])[0]
