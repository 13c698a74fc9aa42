import time

import torch
import torch.nn as nn


def in_one(x):
    return torch.softmax(x, dim=-1)


def in_steps(x):
    powers = (x - x.amax(dim=-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(dim=-1, keepdim=True))


class ModelNew(nn.Module):
    """Times two ways in its first call, and takes the faster one from then on."""

    def __init__(self):
        super().__init__()
        self.fastest = None

    def forward(self, x):
        if self.fastest is None:
            times = {}
            for way in (in_one, in_steps):
                start = time.perf_counter()
                for _ in range(10):
                    way(x)
                times[way] = time.perf_counter() - start
            self.fastest = min(times, key=times.get)
        return self.fastest(x)
