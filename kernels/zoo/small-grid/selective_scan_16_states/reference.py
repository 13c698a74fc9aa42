"""Reference of selective_scan_16_states."""

import torch


def selective_scan(
    u: torch.Tensor,
    delta: torch.Tensor,
    rate: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    skip: torch.Tensor,
) -> torch.Tensor:
    """Return y[t] = sum(c[t] * h[t]) + skip * u[t] with h[t] = exp(-delta * rate) h + delta u b."""
    wide = rate.dtype
    x, step, into, out_of = (each.to(wide) for each in (u, delta, b, c))
    state = x.new_zeros(x.shape[0], x.shape[2], 16)
    steps = []
    for t in range(x.shape[1]):
        dt = step[:, t, :, None]
        state = torch.exp(-dt * rate) * state + dt * x[:, t, :, None] * into[:, t, None, :]
        steps.append((state * out_of[:, t, None, :]).sum(-1) + skip * x[:, t])
    return torch.stack(steps, dim=1).to(u.dtype)
