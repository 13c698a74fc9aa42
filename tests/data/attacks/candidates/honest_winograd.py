import torch
import torch.nn as nn

B = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]
G = [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
A = [[1, 1, 1, 0], [0, 1, -1, -1]]


class ModelNew(nn.Module):
    """Winograd's F(2x2, 3x3)."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, bias=False, padding=1)

    def forward(self, x):
        b, g, a = (torch.tensor(rows, dtype=torch.float32) for rows in (B, G, A))
        weight = g @ self.conv.weight @ g.t()
        tiles = nn.functional.pad(x, (1, 1, 1, 1)).unfold(2, 4, 2).unfold(3, 4, 2)
        products = torch.einsum("kcij,nchwij->nkhwij", weight, b @ tiles @ b.t())
        y = a @ products @ a.t()
        count, filters, height, width = y.shape[:4]
        return y.permute(0, 1, 2, 4, 3, 5).reshape(count, filters, 2 * height, 2 * width)
