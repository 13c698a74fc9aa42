"""Reference of ntt_1024_residues."""

import torch

PRIMES = (998244353, 1004535809, 469762049, 754974721)


def transform(values: torch.Tensor, twiddles: torch.Tensor) -> torch.Tensor:
    """Return each row after 10 stages; row i is modulo PRIMES[i % 4], int32 (n, 1024).

    A stage of half-length h combines x[j] and x[j + h] in groups of 2 h with twiddles[h + j].
    """
    rows = torch.arange(values.shape[0], device=values.device) % 4
    prime = torch.tensor(PRIMES, device=values.device)[rows].view(-1, 1, 1)
    x = values.long()
    half = 512
    while half > 0:
        x = x.view(values.shape[0], -1, 2, half)
        left, right = x[:, :, 0], x[:, :, 1]
        factor = twiddles[half : 2 * half].long()
        total = (left + right) % prime
        difference = (left - right + prime) % prime * factor % prime
        x = torch.stack((total, difference), dim=2).reshape(values.shape[0], -1)
        half //= 2
    return x.int()
