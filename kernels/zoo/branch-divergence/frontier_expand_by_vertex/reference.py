"""Reference of frontier_expand_by_vertex."""

import torch

DEPTH = 3


def make_graph(vertices: int, half: int, bounds: int, edges: int) -> list[torch.Tensor]:
    """Return a graph with a few vertices of very many neighbours, a frontier, and levels."""
    weights = torch.rand(vertices, dtype=torch.float64).clamp_(1e-3).pow_(-0.75)
    ends = (weights.cumsum(0) / weights.sum() * edges).round().int()
    offsets = torch.zeros(bounds, dtype=torch.int32)
    offsets[1:] = ends
    offsets[-1] = edges
    neighbours = torch.randint(0, vertices, (edges,), dtype=torch.int32)
    frontier = torch.randperm(vertices)[:half].int()
    levels = torch.where(torch.rand(vertices) < 0.25, 1, -1).int()
    levels[frontier.long()] = DEPTH - 1
    return [offsets, neighbours, frontier, levels]


def expand(
    offsets: torch.Tensor, neighbours: torch.Tensor, frontier: torch.Tensor, start: torch.Tensor
) -> torch.Tensor:
    """Return levels, where neighbours of the frontier that had none have level 3 (vertices)."""
    is_front = torch.zeros(start.shape, dtype=torch.bool, device=start.device)
    is_front[frontier.long()] = True
    from_front = is_front.repeat_interleave((offsets[1:] - offsets[:-1]).long())
    reached = torch.zeros_like(is_front)
    reached[neighbours[from_front].long()] = True
    return torch.where(reached & (start < 0), DEPTH, start)
