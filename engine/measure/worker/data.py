"""Tensors of a job: inputs from a seed, poisoned outputs, raw files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

Spec = dict[str, Any]
"""``{"name", "shape": [int, …], "dtype", "fill", "scale"}``."""


def device_of(target: str) -> torch.device:
    """Return the torch device of a target."""
    return torch.device("cuda" if target == "cuda" else "cpu")


def inputs(specs: list[Spec], seed: int, target: str) -> list[torch.Tensor]:
    """Return fresh inputs; the same seed gives the same values in any process on this machine."""
    device = device_of(target)
    generator = torch.Generator(device=device).manual_seed(seed)
    made: list[torch.Tensor] = []
    for spec in specs:
        shape = tuple(spec["shape"])
        draw = torch.randn if spec["fill"] == "normal" else torch.rand
        values = draw(shape, generator=generator, device=device, dtype=torch.float32)
        made.append((values * spec["scale"]).to(dtype_of(spec)))
    return made


def poisoned(specs: list[Spec], target: str) -> list[torch.Tensor]:
    """Return outputs full of NaN, so that an element that is never written shows."""
    device = device_of(target)
    return [
        torch.full(tuple(s["shape"]), math.nan, dtype=dtype_of(s), device=device) for s in specs
    ]


def dtype_of(spec: Spec) -> torch.dtype:
    """Return the torch dtype of an array."""
    dtype: torch.dtype = getattr(torch, spec["dtype"])
    return dtype


def save(tensor: torch.Tensor, path: Path) -> None:
    """Write raw values, row-major, without a header."""
    flat = tensor.detach().reshape(-1)
    torch.from_file(str(path), shared=True, size=flat.numel(), dtype=flat.dtype).copy_(flat)


def read(path: Path, spec: Spec) -> torch.Tensor:
    """Read what ``save`` wrote, onto the CPU."""
    shape = tuple(spec["shape"])
    flat = torch.from_file(str(path), shared=False, size=math.prod(shape), dtype=dtype_of(spec))
    return flat.reshape(shape)
