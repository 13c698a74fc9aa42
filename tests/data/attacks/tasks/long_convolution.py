import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, taps):
        super().__init__()
        self.conv = nn.Conv1d(
            channels, channels, taps, groups=channels, bias=False, padding=taps - 1
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(1, 8, 1024)]


def get_init_inputs():
    return [8, 65]
