import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Keeps a plan for each shape: how many rows to take at once."""

    def __init__(self):
        super().__init__()
        self.plans = {}

    def forward(self, x):
        plan = self.plans.setdefault(tuple(x.shape), max(1, x.shape[0] // 4))
        return torch.cat([torch.softmax(part, dim=-1) for part in x.split(plan)])
