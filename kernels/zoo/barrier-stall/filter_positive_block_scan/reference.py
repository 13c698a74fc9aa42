"""Reference of filter_positive_block_scan."""

import torch


def pack_positive(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the positive values of each row, packed and followed by zeros, and their number."""
    keep = values > 0
    order = (~keep).to(torch.uint8).sort(dim=1, stable=True).indices
    packed = torch.where(keep, values, 0).gather(1, order)
    return packed, keep.sum(1, dtype=torch.int32)
