import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Its second output is a view of the first, whose first elements it overwrites."""

    def forward(self, x):
        y = torch.softmax(x, dim=-1)
        sums = y.view(-1)[: x.shape[0]]
        return y, torch.sum(x, dim=-1, out=sums)
