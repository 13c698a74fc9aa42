import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.lgamma(x + 1.0)


def get_inputs():
    return [torch.rand(256, 1024).bfloat16()]


def get_init_inputs():
    return []
