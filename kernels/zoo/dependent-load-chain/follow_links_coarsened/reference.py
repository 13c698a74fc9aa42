"""Reference of follow_links_coarsened."""

import torch


def follow_links(links: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return (at + hop) modulo the table's size, mapped 256 times by links, from each start."""
    at = starts.to(torch.int64)
    for hop in range(256):
        at = links[(at + hop) & 4194303].to(torch.int64)
    return at.to(torch.int32)
