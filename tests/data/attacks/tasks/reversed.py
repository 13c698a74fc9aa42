import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.flip(x, [0])


def get_inputs():
    return [torch.randn(1024, 2048)]


def get_init_inputs():
    return []
