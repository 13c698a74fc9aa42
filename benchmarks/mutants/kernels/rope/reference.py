import torch


def rope(x, cosine, sine):
    cosine, sine = cosine[:, None], sine[:, None]
    first, second = x[:, :, 0], x[:, :, 1]
    return torch.stack((first * cosine - second * sine, second * cosine + first * sine), dim=2)
