import torch


def hard_tanh(x):
    return torch.nn.functional.hardtanh(x)
