"""Reference of raid6_stripe_parity."""

import torch


def encode(disks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the exclusive or of the disks, and their sum with powers of 2 in the field."""
    data = disks.view(torch.uint8)
    parity, weighted = data[7], data[7].int()
    for disk in range(6, -1, -1):
        weighted = (weighted << 1) ^ (weighted >> 7) * 0x11D ^ data[disk].int()
        parity = parity ^ data[disk]
    return parity.view(torch.int32), weighted.to(torch.uint8).view(torch.int32)
