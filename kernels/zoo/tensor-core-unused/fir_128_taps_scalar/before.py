# kernel: fir_128_taps_scalar/before/cuda
# computes: an FIR filter along the time of each channel
"""FIR filter of many channels."""

import triton
import triton.language as tl


@triton.jit
def filter_block(signal, taps, filtered, time, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Filter BLOCK samples of one channel."""
    base = tl.program_id(1).to(tl.int64) * time
    times = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(TAPS):
        tap = tl.load(taps + k).to(tl.float32)
        source = times - k
        sample = tl.load(signal + base + source, mask=(source >= 0) & (source < time), other=0.0)
        total += tap * sample.to(tl.float32)
    tl.store(filtered + base + times, total.to(tl.float16), mask=times < time)


def filter_signals(signal, taps, filtered):
    """Write the filtered signals to filtered."""
    channels, time = signal.shape
    grid = (triton.cdiv(time, 1024), channels)
    filter_block[grid](signal, taps, filtered, time, TAPS=taps.numel(), BLOCK=1024)
