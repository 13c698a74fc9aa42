import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            y = torch.softmax(x, dim=-1)
        return y.detach()
