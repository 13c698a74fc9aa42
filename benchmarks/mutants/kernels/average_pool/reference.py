import torch


def average_pool(x):
    return torch.nn.functional.avg_pool1d(x[None], 3, 1, 1, count_include_pad=False)[0]
