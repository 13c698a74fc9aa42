import torch
import torch.nn as nn


def parts(x):
    for part in x.chunk(4):
        yield torch.softmax(part, dim=-1)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.cat(list(parts(x)))
