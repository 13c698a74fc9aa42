import torch


def l2_norm(x):
    squares = (x.double() * x.double()).sum(dim=1, keepdim=True)
    length = torch.sqrt(squares).clamp(min=1e-12)
    return (x / length).float()
