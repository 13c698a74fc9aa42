import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Sums in float32 and rounds once."""

    def forward(self, x):
        return x.float().mean(dim=-1).to(x.dtype)
