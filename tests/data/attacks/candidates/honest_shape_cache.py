from functools import lru_cache

import torch
import torch.nn as nn


@lru_cache
def ones(count):
    return torch.ones(count, 1)


class ModelNew(nn.Module):
    def forward(self, x):
        power = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return power / (power @ ones(x.shape[-1]))
