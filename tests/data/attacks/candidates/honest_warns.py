import warnings

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        warnings.warn("softmax of rows", stacklevel=1)
        return torch.softmax(x, dim=-1)
