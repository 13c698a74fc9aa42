import torch


def batch_norm(x, mean, variance, weight, bias):
    return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, 1e-3)
