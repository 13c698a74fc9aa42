"""Reference of hash_join_probe_buckets."""

import torch

SLOTS = 16
MULTIPLIER = 0x9E3779B1
INVERSE = pow(MULTIPLIER, -1, 1 << 32)


def find_bucket(keys: torch.Tensor, buckets: int) -> torch.Tensor:
    """Return the bucket of each key: the upper bits of a multiplicative hash, mixed."""
    mixed = (keys.long() * MULTIPLIER) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 15)) & (buckets - 1)


def make_table(n: int, buckets: int) -> list[torch.Tensor]:
    """Return probe keys and a table of unique keys, 11 to a bucket on average, -1 where empty.

    A slot's key is the one whose hash has the bucket as its lower bits and random upper bits.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    own = torch.arange(SLOTS, device=device) * 2048
    own = own + torch.randint(0, 2048, (buckets, SLOTS), device=device)
    mixed = torch.arange(buckets, device=device)[:, None] + buckets * own
    keys = ((mixed ^ (mixed >> 15) ^ (mixed >> 30)) * INVERSE & 0xFFFFFFFF).int()
    used = (torch.rand(buckets, SLOTS, device=device) < 11 / SLOTS).sum(1, keepdim=True)
    keys[torch.arange(SLOTS, device=device) >= used] = -1
    slot_rows = torch.randint(0, 1 << 30, (buckets, SLOTS), dtype=torch.int32, device=device)
    probe = keys.flatten()[torch.randint(0, buckets * SLOTS, (n,), device=device)]
    return [probe.where(probe != -1, 0), keys, slot_rows]


def probe_table(
    probe: torch.Tensor, slot_keys: torch.Tensor, slot_rows: torch.Tensor
) -> torch.Tensor:
    """Return the row of the slot with the same key, or -1, int32 (n)."""
    bucket = find_bucket(probe, slot_keys.shape[0])
    same = slot_keys[bucket] == probe[:, None]
    rows = slot_rows[bucket].gather(1, same.int().argmax(1, keepdim=True)).squeeze(1)
    return torch.where(same.any(1), rows, -1)
