"""What a user would call instead: each backend of torch's scaled_dot_product_attention.

One that does not exist on a device raises, and is no baseline there.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int) -> torch.Tensor:
    """Attention of (bh, seq, dim) arrays by the backend that torch chooses."""
    return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=bool(causal))[0]


def sdpa_cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int) -> torch.Tensor:
    """Attention of (bh, seq, dim) arrays by cuDNN."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa(q, k, v, causal)


def sdpa_flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int) -> torch.Tensor:
    """Attention of (bh, seq, dim) arrays by FlashAttention."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return sdpa(q, k, v, causal)


def sdpa_efficient(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int) -> torch.Tensor:
    """Attention of (bh, seq, dim) arrays by the memory-efficient kernels."""
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        return sdpa(q, k, v, causal)
