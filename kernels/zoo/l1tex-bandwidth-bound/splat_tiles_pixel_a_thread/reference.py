"""Reference of splat_tiles_pixel_a_thread."""

import torch

EDGE = 16


def blend(splats: torch.Tensor, lists: torch.Tensor) -> torch.Tensor:
    """Return the pixels of each tile: (tiles, 256, 3).

    A splat is x, y, three numbers of its shape, opacity, red, green and blue; a tile has edges of
    length one.
    """
    pixels = torch.arange(EDGE * EDGE, device=splats.device)
    x = ((pixels % EDGE).to(splats.dtype) + 0.5) / EDGE
    y = ((pixels // EDGE).to(splats.dtype) + 0.5) / EDGE
    image = splats.new_zeros(len(lists), EDGE * EDGE, 3)
    passed = splats.new_ones(len(lists), EDGE * EDGE)
    for place in lists.T.long():
        own = splats[place][:, :, None]
        dx, dy = x - own[:, 0], y - own[:, 1]
        power = own[:, 2] * dx * dx + own[:, 3] * dx * dy + own[:, 4] * dy * dy
        alpha = (0.2 * own[:, 5]).clamp(min=0) * torch.exp(-8 * power.clamp(min=0))
        weight = alpha.clamp(max=0.99) * passed
        image += weight[..., None] * own[:, None, 6:9, 0]
        passed = passed - weight
    return image
