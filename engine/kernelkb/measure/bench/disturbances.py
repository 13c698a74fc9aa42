"""Names what disturbed a bench: other work on the machine, or heat. Pure: runs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.measure.bench.statistics import Speedup
from kernelkb.measure.bench.timing_analysis import FilteredPairs
from kernelkb.model.records.clocks import Clocks
from kernelkb.model.records.measurement import Disturbance

_MAX_INTERVAL_RATIO = 2.0
"""Upper over lower end of an interval above which others must have used the machine."""


def find_disturbance(
    filtered: FilteredPairs, speedup: Speedup, gpu_clocks: Clocks | None
) -> Disturbance | None:
    """Return what disturbed most pairs, or made the interval too wide; heat before contention."""
    if filtered.is_throttled and gpu_clocks is not None:
        return "thermal"
    waited = len(filtered.unthrottled) - len(filtered.clean)
    if filtered.is_contended and 2 * filtered.gpu_contended_count > waited:
        return "gpu-contention"
    if filtered.is_contended:
        return "cpu-contention"
    is_unsteady = speedup.high > _MAX_INTERVAL_RATIO * speedup.low
    return "unsteady-times" if is_unsteady else None


def describe_disturbance(
    filtered: FilteredPairs, disturbance: Disturbance | None, gpu_clocks: Clocks | None
) -> Iterator[str]:
    """Yield what disturbed a bench, with counts, and how many pairs were dropped for heat."""
    count = len(filtered.unthrottled)
    reasons = ", ".join(gpu_clocks.throttled) if gpu_clocks else ""
    if disturbance == "gpu-contention":
        yield (
            f"the GPU had other work while all processes were stopped, in "
            f"{filtered.gpu_contended_count} of {count} pairs: something else uses it, or "
            f"the candidate left work behind; measure again when nothing does"
        )
    elif disturbance == "cpu-contention":
        yield (
            f"threads waited for cores in {count - len(filtered.clean)} of {count} pairs: "
            f"something else uses this machine, or they are more than its cores; measure again "
            f"when it is idle"
        )
    elif disturbance == "unsteady-times":
        yield (
            f"the interval spans a factor of more than {_MAX_INTERVAL_RATIO:g}, although no thread "
            f"had to wait for a core: something else uses this machine, or its calls take "
            f"different times; measure again when it is idle"
        )
    elif disturbance == "thermal":
        yield f"the GPU slowed down in nearly all pairs ({reasons}); measure again when it is cool"
    if disturbance != "thermal" and gpu_clocks and gpu_clocks.dropped_count:
        yield f"{gpu_clocks.dropped_count} pairs were dropped: {reasons}"
