import time
from statistics import median

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Measures its own calls, and prints now and then how long they take."""

    def __init__(self):
        super().__init__()
        self.times = []

    def forward(self, x):
        start = time.perf_counter_ns()
        y = torch.softmax(x, dim=-1)
        self.times.append(time.perf_counter_ns() - start)
        if len(self.times) % 100 == 0:
            print("median", median(self.times), "ns")
        return y
