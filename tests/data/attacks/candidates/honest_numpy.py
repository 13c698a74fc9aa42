import numpy as np

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """NumPy on the same memory."""

    def forward(self, x):
        values = x.numpy()
        powers = np.exp(values - values.max(axis=-1, keepdims=True))
        return torch.from_numpy(powers / powers.sum(axis=-1, keepdims=True))
