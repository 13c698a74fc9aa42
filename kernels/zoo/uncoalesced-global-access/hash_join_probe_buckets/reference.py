"""Reference of hash_join_probe_buckets."""

import torch

SLOTS = 16


def find_bucket(keys: torch.Tensor, buckets: int) -> torch.Tensor:
    """Return the bucket of each key: the upper bits of a multiplicative hash, mixed."""
    mixed = (keys.long() * 0x9E3779B1) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 15)) & (buckets - 1)


def make_table(n: int, buckets: int) -> list[torch.Tensor]:
    """Return probe keys and a table of unique keys, 11 to a bucket on average, -1 where empty."""
    domain = 32 * buckets
    keys = torch.randperm(domain)[: 11 * buckets]
    bucket, order = find_bucket(keys, buckets).sort(stable=True)
    first = torch.searchsorted(bucket, torch.arange(buckets))
    slot = torch.arange(len(keys)) - first[bucket]
    kept = slot < SLOTS
    slot_keys = torch.full((buckets, SLOTS), -1, dtype=torch.int32)
    slot_keys[bucket[kept], slot[kept]] = keys[order][kept].int()
    slot_rows = torch.randint(0, 1 << 30, (buckets, SLOTS), dtype=torch.int32)
    probe = keys[torch.randint(0, len(keys), (n,))].int()
    absent = torch.rand(n) < 0.25
    probe[absent] = torch.randint(0, domain, (int(absent.sum()),), dtype=torch.int32)
    return [probe, slot_keys, slot_rows]


def probe_table(
    probe: torch.Tensor, slot_keys: torch.Tensor, slot_rows: torch.Tensor
) -> torch.Tensor:
    """Return the row of the slot with the same key, or -1, int32 (n)."""
    bucket = find_bucket(probe, slot_keys.shape[0])
    same = slot_keys[bucket] == probe[:, None]
    rows = slot_rows[bucket].gather(1, same.int().argmax(1, keepdim=True)).squeeze(1)
    return torch.where(same.any(1), rows, -1)
