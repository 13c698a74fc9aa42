import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Returns its output with the columns one after the other."""

    def forward(self, x):
        y = torch.empty(x.shape[1], x.shape[0], device=x.device).t()
        return torch.softmax(x, dim=-1, out=y)
