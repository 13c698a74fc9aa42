import torch
import torch.nn as nn


class Done(Exception):
    pass


class ModelNew(nn.Module):
    """Leaves its loop by an exception."""

    def forward(self, x):
        y, row = torch.empty_like(x), 0
        try:
            while True:
                if row >= x.shape[0]:
                    raise Done
                torch.softmax(x[row : row + 64], dim=-1, out=y[row : row + 64])
                row += 64
        except Done:
            return y
