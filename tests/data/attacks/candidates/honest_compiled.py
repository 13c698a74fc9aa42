import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.function = torch.compile(lambda x: torch.softmax(x, dim=-1))

    def forward(self, x):
        return self.function(x)
