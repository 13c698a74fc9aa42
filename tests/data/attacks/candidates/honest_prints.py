import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        print("softmax of", tuple(x.shape), "x" * 2000)
        return torch.softmax(x, dim=-1)
