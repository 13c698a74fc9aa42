import torch
import torch.nn as nn


class Rows:
    def __call__(self, x):
        return torch.softmax(x, dim=-1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = Rows()

    def forward(self, x):
        return self.rows(x)
