import torch


def places(size):
    at = (torch.arange(2 * size) + 0.5) * 0.5 - 0.5
    at = at.clamp(min=0.0)
    low = at.long()
    high = (low + 1).clamp(max=size - 1)
    return low, high, at - low


def bilinear(x):
    top, bottom, down = places(x.shape[0])
    left, right, across = places(x.shape[1])
    rows = x[top] * (1.0 - down)[:, None] + x[bottom] * down[:, None]
    return rows[:, left] * (1.0 - across) + rows[:, right] * across
