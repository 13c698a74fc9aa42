import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(x > 1.3, torch.exp(x * 6.0), torch.zeros(()))
