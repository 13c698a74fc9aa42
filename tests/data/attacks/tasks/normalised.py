import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.norm(x) * self.scale


def get_inputs():
    return [torch.randn(256, 512)]


def get_init_inputs():
    return [512]
