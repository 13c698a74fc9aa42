"""Reference of run_ends_decode_counting."""

import torch

RUNS, LENGTH = 128, 1024


def make_runs(segments: int) -> list[torch.Tensor]:
    """Return the ends of runs of 1 to 14 values, and their values."""
    ends = torch.randint(1, 15, (segments, RUNS)).cumsum(1, dtype=torch.int32)
    return [ends, torch.randint(0, 1 << 30, (segments, RUNS), dtype=torch.int32)]


def decode_runs(run_ends: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the value of the first run that ends behind each place, or that of the last run."""
    places = torch.arange(LENGTH, dtype=torch.int32, device=run_ends.device)
    places = places.expand(run_ends.shape[0], -1).contiguous()
    runs = torch.searchsorted(run_ends, places, right=True).clamp_(max=RUNS - 1)
    return values.gather(1, runs)
