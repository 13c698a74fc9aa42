"""Outputs that faulty kernels have been seen to produce: the comparison must reject all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

_MIN_ROWS = 2
_CLEAR_FACTOR = 2.0
"""Small elements are tested where they are this many times more than may be wrong."""


def make_wrong_outputs(
    oracle: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    swapped: Iterable[torch.Tensor],
    off_share: float,
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and outputs, none of them equal to the correct one.

    Args:
        oracle: The correct output, any shape.
        inputs: Those of the reference's inputs that have the output's shape; one may have been
            copied.
        swapped: What the reference returns for inputs that are exchanged.
        off_share: Share of elements that may be wrong relative to their own value.
    """
    for name, output in _iter_outputs(oracle, inputs, swapped, off_share):
        if not torch.equal(output, oracle):
            yield name, output


def _iter_outputs(
    oracle: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    swapped: Iterable[torch.Tensor],
    off_share: float,
) -> Iterator[tuple[str, torch.Tensor]]:
    flat = oracle.reshape(-1)
    yield "all zeros", torch.zeros_like(oracle)
    yield "all ones", torch.ones_like(oracle)
    yield "the correct values shifted by one", flat.roll(1).reshape(oracle.shape)
    yield "the correct values reversed", flat.flip(0).reshape(oracle.shape)
    if oracle.is_floating_point():
        yield "the mean everywhere", oracle.mean().expand_as(oracle)
        yield "NaN everywhere", torch.full_like(oracle, float("nan"))
        if oracle.numel() and bool(oracle.isfinite().all()):
            yield from _iter_partly_wrong(oracle, off_share)
    for tensor in inputs:
        yield "a copy of an input", tensor.to(oracle.dtype)
    for output in swapped:
        yield "two inputs exchanged", output


def _iter_partly_wrong(
    oracle: torch.Tensor, off_share: float
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield outputs that are right in most elements, or in the large ones."""
    largest_at = int(oracle.abs().argmax())
    one = oracle.reshape(-1).clone()
    one[largest_at] *= -1
    yield "one element of the wrong sign", one.reshape(oracle.shape)
    if oracle.dim() and oracle.shape[0] >= _MIN_ROWS:
        row = oracle.clone()
        row[largest_at // (oracle.numel() // oracle.shape[0])] = 0.0
        yield "one row of zeros", row
    is_small = (oracle.abs() < oracle.square().mean().sqrt()) & (oracle != 0)
    if float(is_small.float().mean()) > _CLEAR_FACTOR * off_share:
        yield "zero below the root mean square", oracle.masked_fill(is_small, 0.0)
