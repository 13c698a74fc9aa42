import torch


def conv1d(x, weight, bias):
    length = x.shape[1]
    padded = torch.zeros(x.shape[0], length + 2, dtype=x.dtype)
    padded[:, 1:-1] = x
    y = bias[:, None].repeat(1, length)
    for tap in range(3):
        y = y + weight[:, :, tap] @ padded[:, tap : tap + length]
    return y
