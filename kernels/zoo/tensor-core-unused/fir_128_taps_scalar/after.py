# kernel: fir_128_taps_scalar/after/cuda
# change: a product of windows and a band matrix by tl.dot instead of a loop over the taps
"""FIR filter of many channels."""

import triton
import triton.language as tl


@triton.jit
def filter_block(
    signal, taps, filtered, channels, time,
    TAPS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Filter BLOCK samples of ROWS channels: their windows times a band matrix of the taps."""
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(0) * BLOCK
    columns = tl.arange(0, BLOCK)
    base = rows.to(tl.int64)[:, None] * time
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, TAPS - 1 + BLOCK, STEP):
        places = start + tl.arange(0, STEP)
        source = first - (TAPS - 1) + places
        inside = (rows[:, None] < channels) & (source >= 0)[None, :] & (source < time)[None, :]
        window = tl.load(signal + base + source[None, :], mask=inside, other=0.0)
        k = TAPS - 1 + columns[None, :] - places[:, None]
        band = tl.load(taps + k, mask=(k >= 0) & (k < TAPS), other=0.0)
        total = tl.dot(window, band, total)
    times = first + columns
    inside = (rows[:, None] < channels) & (times[None, :] < time)
    tl.store(filtered + base + times[None, :], total.to(tl.float16), mask=inside)


def filter_signals(signal, taps, filtered):
    """Write the filtered signals to filtered."""
    channels, time = signal.shape
    grid = (triton.cdiv(time, 64), triton.cdiv(channels, 64))
    filter_block[grid](
        signal, taps, filtered, channels, time, TAPS=taps.numel(), ROWS=64, BLOCK=64, STEP=64
    )
