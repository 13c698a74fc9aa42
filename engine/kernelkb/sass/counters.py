"""What was counted at each instruction of one launch, and quantities that follow from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kernelkb.sass.function import SassFunction

STALL_PREFIX = "stall:"
_WARP_LANES = 32
_PASS_SECTORS = 4
"""Sectors of 32 bytes that L1 returns in one pass of 128 bytes."""
_RAW: dict[str, tuple[str, str | None]] = {
    "samples": ("samples", None),
    "executed": ("inst_executed", None),
    "divergent-branches": ("smsp__branch_targets_threads_divergent", None),
    "sectors": ("memory_l2_theoretical_sectors_global", None),
    "excess-sectors": (
        "memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal",
    ),
    "excess-wavefronts": ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"),
}  # fmt: skip
"""Counter of each quantity, and the counter to subtract."""


class SourceCounters(NamedTuple):
    """One launch, instruction by instruction."""

    function: SassFunction
    raw: Mapping[str, Mapping[int, float]]
    """By counter, the value at each instruction (its index). ``samples`` counts all samples,
    ``stall:REASON`` those of a reason; other names are those of Nsight Compute."""
    sources: Mapping[str, str]
    """Text of each source file that the report contains, by path."""
    outside: float = 0.0
    """Samples in code that is not in ``function``."""
    notes: tuple[str, ...] = ()

    def get_counts(self, quantity: str) -> dict[int, float]:
        """Return a quantity at each instruction that has any of it.

        Args:
            quantity: A ``LineQuantity`` or a ``Stall``.
        """
        if quantity.startswith(STALL_PREFIX):
            return {at: value for at, value in self.raw.get(quantity, {}).items() if value > 0}
        if quantity == "idle-lanes":
            executed, lanes = self.raw.get("inst_executed", {}), self._list_lanes()
            found = {at: _WARP_LANES * n - lanes.get(at, 0.0) for at, n in executed.items()}
        elif quantity == "l1-passes":
            found = dict(self.raw.get("memory_l1_wavefronts_shared", {}))
            for at, sectors in self.raw.get("memory_l2_theoretical_sectors_global", {}).items():
                requests = self.raw.get("memory_l1_tag_requests_global", {}).get(at, 0.0)
                found[at] = found.get(at, 0.0) + max(requests, sectors / _PASS_SECTORS)
        else:
            counter, subtracted = _RAW[quantity]
            minus = self.raw.get(subtracted, {}) if subtracted else {}
            found = {at: n - minus.get(at, 0.0) for at, n in self.raw.get(counter, {}).items()}
        return {at: value for at, value in found.items() if value > 0}

    def list_stalls(self, without: Collection[str] = ()) -> list[str]:
        """Return the stalls of which there are samples, in the order of their names."""
        return sorted(
            name for name in self.raw if name.startswith(STALL_PREFIX) and name not in without
        )

    def _list_lanes(self) -> Mapping[int, float]:
        """Return the lanes that executed each instruction and whose predicate was true."""
        return self.raw.get("thread_inst_executed_true", self.raw.get("thread_inst_executed", {}))

    @property
    def has_control_bits(self) -> bool:
        """Whether scoreboards are known, and not only registers."""
        return any(one.control is not None for one in self.function.instructions)
