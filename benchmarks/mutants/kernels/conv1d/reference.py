import torch


def conv1d(x, weight, bias):
    return torch.nn.functional.conv1d(x[None], weight, bias, padding=1)[0]
