"""Reference of triangles_merge_by_edge."""

import torch

CHUNK = 4096


def make_graph(vertices: int, bounds: int, edges: int) -> list[torch.Tensor]:
    """Return distinct edges in order of their ends, and the first edge of each vertex."""
    drawn = torch.randint(0, vertices * vertices, (edges + edges // 8 + 64,)).unique()
    pairs = drawn[torch.randperm(len(drawn))[:edges]].sort().values
    sources, neighbours = pairs // vertices, pairs % vertices
    offsets = torch.searchsorted(sources, torch.arange(bounds))
    return [offsets.int(), sources.int(), neighbours.int()]


def count_common(
    offsets: torch.Tensor, sources: torch.Tensor, neighbours: torch.Tensor
) -> torch.Tensor:
    """Return how many neighbours both ends of each edge have, int32 (edges)."""
    vertices = offsets.shape[0] - 1
    left, right = sources.long(), neighbours.long()
    matrix = torch.zeros(vertices, vertices, dtype=torch.bool, device=offsets.device)
    matrix[left, right] = True
    counts = [
        (matrix[u] & matrix[v]).sum(1, dtype=torch.int32)
        for u, v in zip(left.split(CHUNK), right.split(CHUNK), strict=True)
    ]
    return torch.cat(counts)
