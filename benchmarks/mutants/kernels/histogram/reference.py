import torch


def histogram(x):
    return torch.bincount(x.long(), minlength=16).to(torch.int32)
