"""Formats what a GPU reaches in practice."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.model.records.measurement import PracticalPeaks


def format_peaks_lines(peaks: PracticalPeaks) -> Iterator[str]:
    """Yield a line for each peak, latency and rate."""
    yield f"{peaks.title}, driver {peaks.driver or 'unknown'}, {peaks.measured_at:%Y-%m-%d %H:%M}"
    rows = {
        "copy": f"{peaks.copy_gbps:.4g} GB/s{_format_share(peaks.dram_share, 'memory')}",
        "reads of L2": f"{peaks.l2_read_gbps:.4g} GB/s{_format_share(peaks.l2_share, 'L2')}",
        "empty kernel": f"{peaks.empty_us:.3g} us{_format_profiled(peaks.profiled_empty_us)}",
        "latency of L2": f"{peaks.l2_latency_ns:.4g} ns",
        "latency of memory": f"{peaks.dram_latency_ns:.4g} ns; "
        f"{peaks.dram_loaded_latency_ns:.4g} ns while the other SMs read",
        "atomics, one address": f"{peaks.atomic_rate_address:.3g} per ns",
        "atomics, one sector": f"{peaks.atomic_rate_sector:.3g} per ns",
        "atomics, spread": f"{peaks.atomic_rate_random:.3g} per ns",
        "16-bit CAS, spread": f"{peaks.cas_rate_random:.3g} per ns",
    }
    yield from (f"  {name:22}{text}" for name, text in rows.items())
    if peaks.problem:
        yield f"  shares of the peaks stay the catalogue's: {peaks.problem}"


def _format_share(share: float | None, unit: str) -> str:
    return "" if share is None else f", {100 * share:.3g} % of the {unit} peak"


def _format_profiled(profiled_us: float | None) -> str:
    return "" if profiled_us is None else f"; {profiled_us:.3g} us under the profiler"
