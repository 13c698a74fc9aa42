import torch


def conv2d(x, weight):
    channels, height, width = x.shape
    padded = torch.zeros(channels, height + 2, width + 2, dtype=x.dtype)
    padded[:, 1:-1, 1:-1] = x
    y = torch.zeros(weight.shape[0], height, width, dtype=x.dtype)
    for row in range(3):
        for col in range(3):
            part = padded[:, row : row + height, col : col + width]
            y += torch.einsum("fc,chw->fhw", weight[:, :, row, col], part)
    return y
