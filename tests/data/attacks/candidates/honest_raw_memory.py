import ctypes

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Copies by address, with the C library."""

    def forward(self, x):
        y = torch.empty_like(x)
        ctypes.memmove(y.data_ptr(), x.data_ptr(), x.nbytes)
        return torch.softmax(y, dim=-1, out=y)
