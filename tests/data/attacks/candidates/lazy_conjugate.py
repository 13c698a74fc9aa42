import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Returns the input with a pending sign: its type is plain, its values are the input's."""

    def forward(self, x):
        return torch._neg_view(torch._neg_view(x) if x.is_neg() else x)
