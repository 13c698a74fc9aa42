import torch


def softmax(x):
    top = x.amax(dim=1, keepdim=True)
    power = torch.exp(x - top)
    total = power.sum(dim=1, keepdim=True)
    return power / total
