import torch


def log_softmax(x):
    top = x.amax(dim=1, keepdim=True)
    shifted = x - top
    total = torch.exp(shifted).sum(dim=1, keepdim=True)
    return shifted - torch.log(total)
