"""Reference of box_voting_overlaps."""

import torch


def vote_scores(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Return each box's mean of all scores of its image, weighted by overlap (images, n)."""
    voted = torch.empty_like(scores)
    for image, (box, score) in enumerate(zip(boxes, scores, strict=True)):
        x, y, w, h = box.unbind(-1)
        width = torch.minimum((x + w)[:, None], x + w) - torch.maximum(x[:, None], x)
        height = torch.minimum((y + h)[:, None], y + h) - torch.maximum(y[:, None], y)
        inter = width.clamp(min=0) * height.clamp(min=0)
        joint = (w * h)[:, None] + w * h - inter + 1e-6
        weight = torch.exp(-((1 - inter / joint) ** 2) / 0.1)
        voted[image] = (weight * score).sum(1) / weight.sum(1)
    return voted
