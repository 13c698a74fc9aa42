import torch


def average_pool(x):
    total = x.clone()
    count = torch.ones_like(x)
    total[:, 1:] += x[:, :-1]
    total[:, :-1] += x[:, 1:]
    count[:, 1:] += 1.0
    count[:, :-1] += 1.0
    return total / count
