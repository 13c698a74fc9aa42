import torch
import torch.nn as nn


class RowOperation(nn.Module):
    def forward(self, x):
        return self.apply_to_rows(x)


class ModelNew(RowOperation):
    def apply_to_rows(self, x):
        return torch.softmax(x, dim=-1)
