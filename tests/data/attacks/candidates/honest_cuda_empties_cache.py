import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Gives the memory that torch only keeps back in every call, as some do when it is short."""

    def forward(self, x):
        y = torch.softmax(x, dim=-1)
        torch.cuda.empty_cache()
        return y
