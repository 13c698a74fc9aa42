"""Shift, GELU and scale of features."""

import torch


def chain(feature, shift, gain):
    """Return gain * gelu(feature + shift) for each head."""
    return torch.nn.functional.gelu(feature + shift) * gain
