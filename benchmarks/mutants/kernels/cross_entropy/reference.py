import torch


def cross_entropy(x, target):
    return torch.nn.functional.cross_entropy(x, target, reduction="none")
