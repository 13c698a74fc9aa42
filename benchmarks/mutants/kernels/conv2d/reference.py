import torch


def conv2d(x, weight):
    return torch.nn.functional.conv2d(x[None], weight, padding=1)[0]
