"""The fastest that a machine could do a given amount of work."""

from __future__ import annotations


def floor_us(
    *,
    algorithmic_bytes: float | None = None,
    bandwidth_gbps: float | None = None,
    flops: float | None = None,
    peak_tflops: float | None = None,
    launch_floor_us: float | None = None,
) -> float | None:
    """Return the roofline floor in microseconds, or None when no roof is known.

    Args:
        algorithmic_bytes: Bytes that any correct kernel must move through memory.
        bandwidth_gbps: Achievable memory bandwidth, 1e9 bytes per second.
        flops: Operations that any correct kernel must do.
        peak_tflops: Fastest rate of any unit that could do them, 1e12 per second.
        launch_floor_us: Time of an empty kernel or call.
    """
    roofs: list[float] = []
    if algorithmic_bytes and bandwidth_gbps:
        roofs.append(algorithmic_bytes / bandwidth_gbps / 1e3)
    if flops and peak_tflops:
        roofs.append(flops / peak_tflops / 1e6)
    if not roofs:
        return None
    return max(*roofs, launch_floor_us or 0.0)
