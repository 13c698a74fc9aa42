import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, bias=False, padding=1)

    def forward(self, x):
        weight = self.conv.weight.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
        return nn.functional.conv2d(x, weight, padding=1)
