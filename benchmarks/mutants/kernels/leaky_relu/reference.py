import torch


def leaky_relu(x):
    return torch.nn.functional.leaky_relu(x, 0.01)
