import torch


def rope(x, cosine, sine):
    y = torch.empty_like(x)
    c, s = cosine[:, None, :], sine[:, None, :]
    y[:, :, 0] = x[:, :, 0] * c - x[:, :, 1] * s
    y[:, :, 1] = x[:, :, 1] * c + x[:, :, 0] * s
    return y
