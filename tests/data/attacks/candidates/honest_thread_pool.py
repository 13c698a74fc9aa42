from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(max_workers=8)

    def forward(self, x):
        y = torch.empty_like(x)
        pairs = zip(x.chunk(2), y.chunk(2), strict=True)
        parts = [self.pool.submit(torch.softmax, a, -1, out=b) for a, b in pairs]
        for part in parts:
            part.result()
        return y
