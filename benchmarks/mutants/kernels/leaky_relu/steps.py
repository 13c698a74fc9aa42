import torch


def leaky_relu(x):
    mask = x > 0.0
    return torch.where(mask, x, 0.01 * x)
