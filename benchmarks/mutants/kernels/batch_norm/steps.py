import torch


def batch_norm(x, mean, variance, weight, bias):
    scale = weight * torch.rsqrt(variance + 1e-3)
    shift = bias - mean * scale
    return x * scale[None, :, None] + shift[None, :, None]
