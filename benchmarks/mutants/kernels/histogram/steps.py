import torch


def histogram(x):
    bins = torch.arange(16)
    equal = x[:, None] == bins[None, :]
    return equal.sum(dim=0).to(torch.int32)
