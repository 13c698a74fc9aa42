import torch


def max_pool(x):
    return torch.nn.functional.max_pool2d(x[None], 2)[0]
