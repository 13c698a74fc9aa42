"""Reference of run_length_decode_runs."""

import torch


def decode_runs(lengths: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return 1024 values for each row: run i has lengths[i] + 1, the last one all that is left."""
    ends = (lengths + 1).cumsum(1, dtype=torch.int32)
    places = torch.arange(1024, dtype=torch.int32, device=lengths.device)
    places = places.expand(lengths.shape[0], -1).contiguous()
    runs = torch.searchsorted(ends, places, right=True).clamp_(max=63)
    return values.gather(1, runs)
