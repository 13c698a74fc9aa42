import torch


def bilinear(x):
    image = x[None, None]
    scaled = torch.nn.functional.interpolate(
        image, scale_factor=2, mode="bilinear", align_corners=False
    )
    return scaled[0, 0]
