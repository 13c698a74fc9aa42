"""Reference of neutron_layer_walks."""

import torch

LAYERS = 256
MASK = 0xFFFFFFFF


def start_states(n: int, seed: torch.Tensor) -> torch.Tensor:
    """Return the first random state of each neutron, as int64."""
    state = ((torch.arange(n, device=seed.device) + seed.long()) * 0x9E3779B1) & MASK
    state = state ^ (state >> 16)
    state = (state * 0x85EBCA77) & MASK
    return (state ^ (state >> 13)) | 1


def follow(absorption: torch.Tensor, seed: torch.Tensor, n: int) -> torch.Tensor:
    """Return the last layer and the number of collisions of each of n neutrons, int32 (n, 2)."""
    fates = torch.zeros(n, 2, dtype=torch.int32, device=seed.device)
    odds = absorption.long()
    state = start_states(n, seed)
    flying = torch.arange(n, device=seed.device)
    layer = torch.full_like(state, LAYERS // 2)
    collisions = torch.zeros_like(state)
    while flying.numel() > 0:
        state = state ^ ((state << 13) & MASK)
        state = state ^ (state >> 17)
        state = state ^ ((state << 5) & MASK)
        layer = layer + ((state >> 8) & 7) - ((state >> 11) & 7)
        inside = (layer >= 0) & (layer < LAYERS)
        collisions = collisions + inside
        goes_on = inside & (state >> 24 >= odds[layer.clamp(0, LAYERS - 1)])
        ended = ~goes_on
        fates[flying[ended]] = torch.stack((layer[ended], collisions[ended]), 1).int()
        flying, state = flying[goes_on], state[goes_on]
        layer, collisions = layer[goes_on], collisions[goes_on]
    return fates
