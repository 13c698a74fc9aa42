"""Sets how torch computes fp32 products: as IEEE 754 says, in TF32, or in bf16 on some CPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from kernelkb.measure.worker.shared.messages.specs import Precision

_MATMUL_PRECISION = {"fp32": "highest", "tf32": "high", "bf16-products": "medium"}
HALF_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Precisions that convert weights and inputs, and the type they convert them to."""

Restore = Callable[[], None]


def set_fp32_precision(precision: Precision) -> None:
    """Set it for matrix products and convolutions of this process.

    ``bf16`` and ``fp16`` convert tensors and leave products of fp32 tensors as TF32.
    """
    allow_tf32 = precision != "fp32"
    torch.set_float32_matmul_precision(_MATMUL_PRECISION.get(precision, "high"))
    torch.backends.cudnn.allow_tf32 = allow_tf32
    for operation in _cudnn_operations():  # else a setting for all backends would decide
        operation.fp32_precision = "tf32" if allow_tf32 else "ieee"


def convolutions_allow_tf32() -> bool:
    """Return whether cuDNN may compute convolutions of fp32 in TF32, as it may by default."""
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:  # the newer interface was used
        return any(one.fp32_precision == "tf32" for one in _cudnn_operations())


@contextmanager
def fp32_precision(precision: Precision | None) -> Iterator[None]:
    """Set it within a block, and restore what the task's own code had set; None: change nothing."""
    if precision is None:
        yield
        return
    restore = _save_settings()
    set_fp32_precision(precision)
    try:
        yield
    finally:
        restore()


def _save_settings() -> Restore:
    """Return what restores the present settings.

    torch refuses to read a setting of its older interface where the newer one set another value.
    """
    matmul: str | None = None
    cudnn: bool | None = None
    with suppress(RuntimeError):
        matmul = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = torch.backends.cudnn.allow_tf32
    operations = [*_cudnn_operations(), *_matmul_operations()]
    values = [operation.fp32_precision for operation in operations]

    def restore() -> None:
        if matmul is not None:
            torch.set_float32_matmul_precision(matmul)
        if cudnn is not None:
            torch.backends.cudnn.allow_tf32 = cudnn
        for operation, value in zip(operations, values, strict=True):
            operation.fp32_precision = value

    return restore


def _cudnn_operations() -> list[Any]:
    """Return torch's settings of convolutions and recurrent networks; none before torch 2.9."""
    backend = torch.backends.cudnn
    return [getattr(backend, name) for name in ("conv", "rnn") if hasattr(backend, name)]


def _matmul_operations() -> list[Any]:
    """Return torch's settings of matrix products on GPU and CPU; none before torch 2.9."""
    cuda, mkldnn = torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)
    return [one for one in (cuda, mkldnn) if one is not None and _has_precision(one)]


def _has_precision(operation: Any) -> bool:
    try:
        return hasattr(operation, "fp32_precision")
    except RuntimeError:
        return False
