import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Two streams that wait for the one it is called on, and that one for them."""

    def __init__(self):
        super().__init__()
        self.streams = None

    def forward(self, x):
        self.streams = self.streams or [torch.cuda.Stream() for _ in range(2)]
        home = torch.cuda.current_stream()
        y = torch.empty_like(x)
        for stream, a, b in zip(self.streams, x.chunk(2), y.chunk(2), strict=True):
            stream.wait_stream(home)
            with torch.cuda.stream(stream):
                torch.softmax(a, dim=-1, out=b)
        for stream in self.streams:
            home.wait_stream(stream)
        return y
