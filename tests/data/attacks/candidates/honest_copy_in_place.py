import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Copies its input, and computes in the copy."""

    def forward(self, x):
        y = x.clone()
        y.sub_(y.amax(dim=-1, keepdim=True)).exp_()
        return y.div_(y.sum(dim=-1, keepdim=True))
