"""Reference of spmm_edge_atomics."""

import torch


def make_edges(targets: int, bounds: int, edges: int, sources: int) -> list[torch.Tensor]:
    """Return edges sorted by target, with the first edge of each target, weights and features."""
    steps = torch.rand(edges).cumsum(0, dtype=torch.float64)
    edge_targets = (steps / steps[-1] * (targets - 1)).long()
    offsets = torch.searchsorted(edge_targets, torch.arange(bounds)).int()
    edge_sources = torch.randint(0, sources, (edges,), dtype=torch.int32)
    weights, features = torch.rand(edges), torch.randn(sources, 64)
    return [offsets, edge_targets.int(), edge_sources, weights, features, torch.randn(targets, 64)]


def aggregate(
    offsets: torch.Tensor,
    edge_targets: torch.Tensor,
    edge_sources: torch.Tensor,
    weights: torch.Tensor,
    features: torch.Tensor,
    start: torch.Tensor,
) -> torch.Tensor:
    """Return start plus the weighted features of the sources of each target (targets, 64)."""
    del offsets
    messages = features[edge_sources.long()] * weights[:, None]
    return start.index_add(0, edge_targets.long(), messages)
