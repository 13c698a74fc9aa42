"""Reference of fir_circular_delay_line."""

import torch

TAPS = 32


def filter_signals(signal: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """Return the sum of taps[k] times the sample k steps earlier, zero before the first one."""
    time = signal.shape[0]
    padded = torch.nn.functional.pad(signal, (0, 0, TAPS - 1, 0))
    return sum(taps[k] * padded[TAPS - 1 - k : TAPS - 1 - k + time] for k in range(TAPS))
