import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.output = None

    def forward(self, x):
        if self.output is None or self.output.shape != x.shape:
            self.output = torch.empty_like(x)
        return torch.softmax(x, dim=-1, out=self.output)
