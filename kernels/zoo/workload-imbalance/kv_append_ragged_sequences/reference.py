"""Reference of kv_append_ragged_sequences."""

import torch


def make_inputs(sequences: int, tokens: int, bounds: int, slots: int) -> list[torch.Tensor]:
    """Return keys, values, slots (an eighth of them -1), bounds of sequences, and the caches."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shares = torch.rand(sequences, dtype=torch.float64) ** 8 + 1e-6
    starts = torch.zeros(bounds, dtype=torch.int32)
    starts[1:] = (shares.cumsum(0) / shares.sum() * tokens).round().to(torch.int32)
    chosen = torch.randperm(slots)[:tokens].to(torch.int32)
    chosen[torch.rand(tokens) < 0.125] = -1
    rows, cache = (tokens, 8, 128), (slots, 8, 128)
    arrays = [
        torch.randn(shape, dtype=torch.bfloat16, device=device)
        for shape in (rows, rows, cache, cache)
    ]
    return [*arrays[:2], chosen.to(device), starts.to(device), *arrays[2:]]


def append(
    keys: torch.Tensor,
    values: torch.Tensor,
    slots: torch.Tensor,
    _starts: torch.Tensor,
    old_keys: torch.Tensor,
    old_values: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the caches with the rows of all tokens whose slot is not negative."""
    kept = slots >= 0
    chosen = slots[kept].long()
    return (
        old_keys.index_copy(0, chosen, keys[kept]),
        old_values.index_copy(0, chosen, values[kept]),
    )
