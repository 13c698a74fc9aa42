"""What was counted at each instruction of a launch, and which instruction a stalled one waits for.

A sample lies at the instruction that could not issue; what it waits for is another one. The wait
mask in its control bits names scoreboards, and the control flow graph leads back to all that counts
one of them up. Scoreboards are few and shared, so a register that both name confirms it; where only
the text is known, the register alone has to do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

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
        elif quantity == "excess-wavefronts":
            passes, least = (
                self.raw.get("memory_l1_wavefronts_shared", {}),
                self.list_least_passes(),
            )
            found = {at: n - least.get(at, 0.0) for at, n in passes.items()}
        else:
            counter, subtracted = _RAW[quantity]
            minus = self.raw.get(subtracted, {}) if subtracted else {}
            found = {at: n - minus.get(at, 0.0) for at, n in self.raw.get(counter, {}).items()}
        return {at: value for at, value in found.items() if value > 0}

    def list_least_passes(self) -> dict[int, float]:
        """Return the passes of each access to shared memory that has no bank conflicts.

        An asynchronous copy takes a pass for each line of global memory that it reads, however the
        lanes lie in shared memory (``benchmarks/planted_accesses.py`` on an H200), which the
        profiler does not count among those that it calls ideal.
        """
        ideal, lines = (
            self.raw.get("memory_l1_wavefronts_shared_ideal", {}),
            self.list_copied_lines(),
        )
        return {at: max(passes, lines.get(at, 0.0)) for at, passes in ideal.items()}

    def list_copied_lines(self) -> dict[int, float]:
        """Return the lines of 128 bytes that each asynchronous copy to shared memory reads."""
        instructions = self.function.instructions
        return {
            at: lines
            for at, lines in self.raw.get("memory_l1_tag_requests_global", {}).items()
            if instructions[at].opcode == "LDGSTS"
        }

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


Dependence = Literal["result", "operands", "scoreboard"]
"""result: it reads what the producer writes, or writes it anew. operands: it overwrites what the
producer has to read first (write after read). scoreboard: they share a scoreboard only."""

_LONG = frozenset(
    {"LD", "LDG", "LDL", "TEX", "TLD", "TLD4", "TXQ", "TXD", "TMML", "SULD", "SUATOM", "SURED",
     "ATOM", "ATOMG", "ST", "STG", "STL", "RED", "REDG", "LDGSTS", "LDGDEPBAR", "SUST", "CCTL",
     "MEMBAR", "ERRBAR", "UBLKCP", "UTMALDG", "UTMASTG", "QSPC", "UTMAREDG", "UBLKRED"}
)  # fmt: skip
"""Operations that a long-scoreboard stall waits for: memory outside of the SM's shared memory."""
_SHORT = frozenset(
    {"AL2P", "ARRIVES", "ATOMIS", "ATOMS", "B2R", "BAR", "BMOV", "BREV", "CS2R", "DADD",
     "DFMA", "DMMA", "DMUL", "DSETP", "F2F", "F2I", "FCHK", "FLO", "FRND", "GETLMEMBASE",
     "I2F", "I2FP", "IDP", "ISBERD", "LDC", "LDCU", "LDS", "LDSM", "MATCH", "MUFU", "POPC",
     "R2B", "R2UR", "REDUX", "S2R", "S2UR", "SHFL", "STS", "STSM", "SYNCS", "ULDC", "VOTE"}
)  # fmt: skip
"""Operations of variable latency that a short-scoreboard stall waits for."""
_KINDS = {"stall:long_scoreboard": _LONG, "stall:short_scoreboard": _SHORT}
_MAX_STEPS = 20_000
"""Instructions looked at for one stall."""


class Producer(NamedTuple):
    """An instruction that another one waits for."""

    at: int
    """Its index in the function."""
    dependence: Dependence
    distance: int
    """Instructions between the two, on the shortest way."""


def find_producers(function: SassFunction, index: int, stall: str) -> list[Producer]:
    """Return the instructions that one waits for, the most probable first; empty: undecided.

    Args:
        function: The code around.
        index: Of the instruction that stalls.
        stall: Such as ``stall:long_scoreboard``; others wait for no producer.
    """
    wanted = _KINDS.get(stall)
    if wanted is None:
        return []
    one = function.instructions[index]
    if one.control is None:
        found = _walk_registers(function, index, wanted)
    else:
        found = [
            producer
            for scoreboard in sorted(one.control.waits_for)
            for producer in _walk_scoreboard(function, index, scoreboard, wanted)
        ]
    order = ("result", "operands", "scoreboard")
    return sorted(set(found), key=lambda p: (order.index(p.dependence), p.distance, p.at))


def _walk_scoreboard(
    function: SassFunction, index: int, scoreboard: int, wanted: frozenset[str]
) -> list[Producer]:
    """Go back to all that counts a scoreboard up, each way until something waits for it."""
    waiting = function.instructions[index]
    found = []
    for at, distance in _walk_back(function, index, scoreboard):
        one = function.instructions[at]
        if one.control is None or one.opcode not in wanted:
            continue
        if scoreboard == one.control.write_scoreboard:
            is_result = one.writes & (waiting.reads | waiting.writes)
            found.append(Producer(at, "result" if is_result else "scoreboard", distance))
        elif scoreboard == one.control.read_scoreboard:
            is_operand = one.reads & waiting.writes
            found.append(Producer(at, "operands" if is_operand else "scoreboard", distance))
    return found


def _walk_back(function: SassFunction, index: int, scoreboard: int) -> list[tuple[int, int]]:
    """Return indices and distances of all before an instruction, up to earlier waits."""
    seen: set[int] = set()
    level, distance, found = list(function.predecessors[index]), 1, []
    while level and len(seen) < _MAX_STEPS:
        following: list[int] = []
        for at in level:
            if at in seen:
                continue
            seen.add(at)
            found.append((at, distance))
            control = function.instructions[at].control
            if control is None or scoreboard not in control.waits_for:
                following += function.predecessors[at]
        level, distance = following, distance + 1
    return found


def _walk_registers(function: SassFunction, index: int, wanted: frozenset[str]) -> list[Producer]:
    """Go back to what last wrote each register that an instruction reads."""
    found = []
    for register in function.instructions[index].reads:
        seen: set[int] = set()
        level, distance = list(function.predecessors[index]), 1
        while level and len(seen) < _MAX_STEPS:
            following: list[int] = []
            for at in level:
                if at in seen:
                    continue
                seen.add(at)
                one = function.instructions[at]
                if register not in one.writes:
                    following += function.predecessors[at]
                    continue
                if one.opcode in wanted:
                    found.append(Producer(at, "result", distance))
                if one.is_conditional:
                    following += function.predecessors[at]
            level, distance = following, distance + 1
    return found
