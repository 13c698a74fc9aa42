# kernel: filter_orders_by_day/before/cuda
# computes: the costs of the orders of one month, packed
"""Cost of the orders of one month, packed in tiles."""

import triton
import triton.language as tl

FIRST_DAY, LAST_DAY = 1000, 1030


@triton.jit
def select_tile(
    days, prices, discounts, taxes, weights, rates, packed, counts,
    FIRST: tl.constexpr, LAST: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Pack the costs of the chosen rows of one tile."""
    tile = tl.program_id(0)
    rows = tile.to(tl.int64) * TILE + tl.arange(0, TILE)
    day = tl.load(days + rows)
    keep = (day >= FIRST) & (day < LAST)
    price = tl.load(prices + rows)
    discount = tl.load(discounts + rows)
    tax = tl.load(taxes + rows)
    weight = tl.load(weights + rows)
    rate = tl.load(rates + rows)
    cost = price * (1 - discount) * (1 + tax) + weight * rate
    rank = tl.cumsum(keep.to(tl.int32), axis=0) - 1
    tl.store(packed + tile.to(tl.int64) * TILE + rank, cost, mask=keep)
    tl.store(counts + tile, tl.sum(keep.to(tl.int32), axis=0))


def select_orders(days, prices, discounts, taxes, weights, rates, start, packed, counts):
    """Write the costs of the orders of each tile of 1024 rows to packed, which starts as start."""
    del start
    select_tile[(days.shape[0],)](
        days, prices, discounts, taxes, weights, rates, packed, counts,
        FIRST=FIRST_DAY, LAST=LAST_DAY, TILE=1024,
    )  # fmt: skip
