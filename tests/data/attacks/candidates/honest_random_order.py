import random

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Takes its rows in an order that it draws."""

    def forward(self, x):
        y, parts = torch.empty_like(x), list(range(0, x.shape[0], 64))
        random.shuffle(parts)
        for start in parts:
            torch.softmax(x[start : start + 64], dim=-1, out=y[start : start + 64])
        return y
