"""Planted access patterns: counted as their addresses say, and told in words; checked on a GPU.

    python -m benchmarks.planted_accesses      (a GPU machine with nvcc and ncu: about two minutes)

Each pattern is the addresses of the lanes of some warps, the access that makes them, and the words
that KernelKB has to find for it. ``count`` predicts the profiler's counters from the addresses; the
program runs each access alone in a kernel under ncu and compares both, the counters and the words.
The unit tests use the predicted counters.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.profiles.report import read_source_counters
from kernelkb.sass.access_patterns import describe_access, find_access_patterns
from kernelkb.sass.counters import SourceCounters
from kernelkb.sass.function import SassFunction, parse_instruction

SOURCE = Path(__file__).with_suffix(".cu")
LANES = range(32)
SECTORS = "memory_l2_theoretical_sectors_global"
IDEAL = "memory_l2_theoretical_sectors_global_ideal"
LINES = "memory_l1_tag_requests_global"
PASSES = "memory_l1_wavefronts_shared"
IDEAL_PASSES = "memory_l1_wavefronts_shared_ideal"
COUNTERS = (SECTORS, IDEAL, LINES, PASSES, IDEAL_PASSES)
Warp = Sequence[int]
"""Addresses of the lanes that take part, in bytes."""

_TEXTS = {
    "load-1": "LDG.E.U8 R2, [R4]",
    "load-2": "LDG.E.U16 R2, [R4]",
    "load-4": "LDG.E R2, desc[UR4][R4.64]",
    "load-8": "LDG.E.64 R2, [R4]",
    "load-16": "LDG.E.128 R4, [R4]",
    "load-guarded": "@P0 LDG.E R2, desc[UR4][R4.64]",
    "store-4": "STG.E desc[UR4][R4.64], R2",
    "add-4": "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU [R4], R2",
    "shared-4": "LDS R2, [R4]",
    "shared-vectors": "STS.128 [R4], R8",
    "matrices": "LDSM.16.M88.4 R4, [R4]",
    "copy-16": "LDGSTS.E.BYPASS.128 [R4], desc[UR4][R6.64]",
    "copy-4": "LDGSTS.E [R4], desc[UR4][R6.64]",
}
"""The access of each kernel of ``planted_accesses.cu``."""
_BYTES = {"load-1": 1, "load-2": 2, "load-8": 8, "load-16": 16, "copy-16": 16,
          "shared-vectors": 16, "matrices": 16}  # fmt: skip


class Planted(NamedTuple):
    """A pattern."""

    access: str
    """A kernel of ``planted_accesses.cu``."""
    warps: Sequence[Warp]
    words: str
    """Of its access, and then of what an asynchronous copy does in shared memory."""


def stride(step: int, start: int = 0, lanes: Iterable[int] = LANES) -> Warp:
    """Return a warp whose lanes are ``step`` bytes apart."""
    return [start + step * lane for lane in lanes]


def rows(count: int, pitch: int, size: int) -> Warp:
    """Return a warp whose lanes lie in rows, as a tile of a matrix is read."""
    each = 32 // count
    return [pitch * (lane // each) + size * (lane % each) for lane in LANES]


def scatter(seed: int) -> Warp:
    """Return a warp whose lanes are anywhere in 8 KiB."""
    return [(seed * 7919 + lane * lane * 40_503 + lane * 7907) % 2048 * 4 for lane in LANES]


def matrix_rows(pitch: int) -> Warp:
    """Return the rows of four matrices of 8 by 8 halves, 16 bytes each, as ``ldmatrix`` asks."""
    return [pitch * (lane % 16) + 16 * (lane // 16) for lane in LANES]


def moving(make: Callable[[int], Warp], starts: Iterable[int]) -> list[Warp]:
    """Return a warp for each start."""
    return [make(start) for start in starts]


PLANTED = {
    "row": Planted("load-4", [stride(4)], "32 lanes x 4 bytes, in a row: 4 sectors"),
    "row-of-halves": Planted("load-2", [stride(2)], "32 lanes x 2 bytes, in a row: 2 "
                                                            "sectors"),
    "row-of-bytes": Planted("load-1", [stride(1)], "32 lanes x 1 byte, in a row: 1 sector"),
    "row-of-doubles": Planted("load-8", [stride(8)],
                       "32 lanes x 8 bytes, in a row: 8 sectors in 2 lines"),
    "row-of-vectors": Planted("load-16", [stride(16)],
                       "32 lanes x 16 bytes, in a row: 16 sectors in 4 lines"),
    "reversed": Planted("load-4", [stride(4)[::-1]], "32 lanes x 4 bytes, in a row: 4 sectors"),
    "permuted": Planted("load-4", [[4 * (lane * 7 % 32) for lane in LANES]],
                 "32 lanes x 4 bytes, in a row: 4 sectors"),
    "one-word": Planted("load-4", [stride(0)], "32 lanes x 4 bytes, all in one sector"),
    "one-vector": Planted("load-16", [stride(0)], "32 lanes x 16 bytes, all in one sector"),
    "one-sector": Planted("load-4", [[4 * (lane % 8) for lane in LANES]],
                   "32 lanes x 4 bytes, all in one sector"),
    "two-words": Planted("load-4", [[512 * (lane // 16) for lane in LANES]],
                  "32 lanes x 4 bytes, of which some share an address: 2 sectors in 2 lines"),
    "pairs-share": Planted("load-4", [[4 * (lane // 2) for lane in LANES]],
                    "32 lanes x 4 bytes, of which some share an address: 2 sectors"),
    "behind-a-header": Planted("load-4", [stride(4, 4)],
                        "32 lanes x 4 bytes, in a row that does not start at a sector: "
                        "5 sectors in 2 lines, 4 would do"),
    "left-neighbour": Planted("load-4", moving(lambda at: stride(4, at), (124, 252)),
                       "32 lanes x 4 bytes, in a row that does not start at a sector: "
                       "5 sectors in 2 lines, 4 would do"),
    "odd-bytes": Planted("load-1", moving(lambda at: stride(1, at), range(7, 1000, 33)),
                  "32 lanes x 1 byte, in a row that does not start at a sector: "
                  "2 sectors in 1.3 lines, 1 would do"),
    "every-second": Planted("load-4", [stride(8)],
                     "32 lanes x 4 bytes, as 8 bytes apart: 8 sectors in 2 lines, 4 would do"),
    "every-third": Planted("load-4", [stride(12)],
                    "32 lanes x 4 bytes, as 12 bytes apart: 12 sectors in 3 lines, 4 would do"),
    "struct-of-20": Planted("load-4", [stride(20)],
                     "32 lanes x 4 bytes, as 20 bytes apart: 20 sectors in 5 lines, 4 would do"),
    "struct-of-32": Planted("load-4", [stride(32)],
                     "32 lanes x 4 bytes, as 32 bytes apart: 32 sectors in 8 lines, 4 would do"),
    "struct-of-36": Planted("load-4", [stride(36)],
                     "32 lanes x 4 bytes, as 32 to 37 bytes apart: 32 sectors in 9 lines, 4 "
                     "would do"),
    "struct-of-64": Planted("load-4", [stride(64)],
                     "32 lanes x 4 bytes, as 64 bytes apart: 32 sectors in 16 lines, 4 would do"),
    "own-row": Planted("load-4", [stride(4096)],
                "32 lanes x 4 bytes, each in another line of 128 bytes: "
                "32 sectors in 32 lines, 4 would do"),
    "column-of-halves": Planted("load-2", [stride(1000)],
                         "32 lanes x 2 bytes, each in another line of 128 bytes: "
                         "32 sectors in 32 lines, 2 would do"),
    "piece-a-thread": Planted("load-2", [stride(16)],
                       "32 lanes x 2 bytes, as 16 bytes apart: 16 sectors in 4 lines, 2 would do"),
    "pixels": Planted("load-1", moving(lambda at: stride(3, at), (0, 96, 192, 288)),
               "32 lanes x 1 byte, as 3 bytes apart: 3 sectors in 1.5 lines, 1 would do"),
    "pixels-four": Planted("load-1", [stride(4)],
                    "32 lanes x 1 byte, as 4 bytes apart: 4 sectors, 1 would do"),
    "half-vectors": Planted("load-16", [stride(32)],
                     "32 lanes x 16 bytes, as 32 bytes apart: 32 sectors in 8 lines, 16 would do"),
    "eight-rows": Planted("load-8", [rows(8, 4096, 8)],
                   "32 lanes x 8 bytes, in 8 pieces of 32 bytes, 4 lanes each: 8 sectors in 8 "
                   "lines"),
    "four-rows": Planted("load-4", [rows(4, 1024, 4)],
                  "32 lanes x 4 bytes, in 4 pieces of 32 bytes, 8 lanes each: 4 sectors in 4 "
                  "lines"),
    "two-rows": Planted("load-4", [rows(2, 1024, 4)],
                 "32 lanes x 4 bytes, in 2 pieces of 64 bytes, 16 lanes each: 4 sectors in 2 "
                 "lines"),
    "fragments": Planted("store-4", [rows(8, 8192, 4)],
                  "32 lanes x 4 bytes, in 8 pieces of 16 bytes, 4 lanes each: "
                  "8 sectors in 8 lines, 4 would do"),
    "rows-behind-a-header": Planted("load-4", [[at + 16 for at in rows(4, 1024, 4)]],
                             "32 lanes x 4 bytes, in 4 pieces of 32 bytes, 8 lanes each: "
                             "8 sectors in 4 lines, 4 would do"),
    "half-a-warp": Planted("load-4", [stride(4, 0, range(16))],
                    "16 of 32 lanes x 4 bytes, in a row: 2 sectors"),
    "one-lane": Planted("load-4", [[0]], "1 of 32 lanes x 4 bytes, in a row: 1 sector"),
    "guarded": Planted("load-guarded", [stride(4, 0, range(20)), []],
                "10 of 32 lanes x 4 bytes: 1.5 sectors in 0.5 lines"),
    "scattered": Planted("load-4", moving(scatter, range(8)),
                  "32 lanes x 4 bytes: 30.5 sectors in 26.8 lines, 4 would do"),
    "store-row": Planted("store-4", [stride(4)], "32 lanes x 4 bytes, in a row: 4 sectors"),
    "store-column": Planted("store-4", [stride(256)],
                     "32 lanes x 4 bytes, each in another line of 128 bytes: "
                     "32 sectors in 32 lines, 4 would do"),
    "atomic-on-one": Planted("add-4", [stride(0)],
                      "32 lanes x 4 bytes, all in one sector"),
    "atomic-row": Planted("add-4", [stride(4)],
                   "32 lanes x 4 bytes, in a row: 4 sectors"),
    "bank-row": Planted("shared-4", [stride(4)],
                        "32 lanes x 4 bytes, without bank conflicts: 1 pass"),
    "bank-word": Planted("shared-4", [stride(0)],
                        "32 lanes x 4 bytes, without bank conflicts: 1 pass"),
    "bank-padded": Planted("shared-4", [stride(132)],
                           "32 lanes x 4 bytes, without bank conflicts: 1 pass"),
    "bank-every-second": Planted("shared-4", [stride(8)],
                                 "32 lanes x 4 bytes, 2 in one bank, as at a distance of 8 bytes: "
                                 "2 passes, 1 would do"),
    "bank-every-fourth": Planted("shared-4", [stride(16)],
                                 "32 lanes x 4 bytes, 4 in one bank, as at a distance of 16 bytes: "
                                 "4 passes, 1 would do"),
    "bank-every-eighth": Planted("shared-4", [stride(32)],
                                 "32 lanes x 4 bytes, 8 in one bank, as at a distance of 32 bytes: "
                                 "8 passes, 1 would do"),
    "bank-column": Planted("shared-4", [stride(128)],
                           "32 lanes x 4 bytes, all in one bank, as at a distance of 128 bytes: "
                           "32 passes, 1 would do"),
    "bank-wide-column": Planted("shared-4", [stride(4096)],
                                "32 lanes x 4 bytes, all in one bank, as at a distance of "
                                "128 bytes: 32 passes, 1 would do"),
    "bank-half-column": Planted("shared-4", [stride(128, 0, range(16))],
                                "16 of 32 lanes x 4 bytes, all in one bank, as at a distance of "
                                "128 bytes: 16 passes, 1 would do"),
    "bank-three": Planted("shared-4", [[0, 128, 256, *stride(4, 4, range(29))]],
                          "32 lanes x 4 bytes, 3 in one bank: 3 passes, 1 would do"),
    "vectors-column": Planted("shared-vectors", [stride(128)],
                              "32 lanes x 16 bytes, with bank conflicts: 32 passes, 4 would do"),
    "matrices-of-128": Planted("matrices", [matrix_rows(128)],
                               "all 8 rows of a matrix in the same banks, as rows a multiple of "
                               "128 bytes apart: 32 passes, 4 would do"),
    "matrices-of-64": Planted("matrices", [matrix_rows(64)],
                              "4 of the 8 rows of a matrix in the same banks: "
                              "16 passes, 4 would do"),
    "matrices-of-32": Planted("matrices", [matrix_rows(32)],
                              "2 of the 8 rows of a matrix in the same banks: "
                              "8 passes, 4 would do"),
    "matrices-padded": Planted("matrices", [matrix_rows(144)], "without bank conflicts: 4 passes"),
    "copy-row": Planted("copy-16", [stride(16)],
                        "32 lanes x 16 bytes, in a row: 16 sectors in 4 lines; "
                        "32 lanes x 16 bytes, without bank conflicts: 4 passes"),
    "copy-rows": Planted("copy-16", [rows(16, 1024, 16)],
                         "32 lanes x 16 bytes, in 16 pieces of 32 bytes, 2 lanes each: "
                         "16 sectors in 16 lines; "
                         "32 lanes x 16 bytes, one for each line: 16 passes"),
    "copy-rows-of-lines": Planted("copy-16", [rows(4, 4096, 16)],
                                  "32 lanes x 16 bytes, in a row: 16 sectors in 4 lines; "
                                  "32 lanes x 16 bytes, without bank conflicts: 4 passes"),
    "copy-own-rows": Planted("copy-16", [stride(512)],
                             "32 lanes x 16 bytes, each in another line of 128 bytes: "
                             "32 sectors in 32 lines, 16 would do; "
                             "32 lanes x 16 bytes, one for each line: 32 passes"),
    "copy-words": Planted("copy-4", [stride(8)],
                          "32 lanes x 4 bytes, as 8 bytes apart: 8 sectors in 2 lines, 4 would do; "
                          "32 lanes x 4 bytes, one for each line: 2 passes"),
}  # fmt: skip


def count(planted: Planted) -> SourceCounters:
    """Return the counters that the profiler is expected to have for a pattern."""
    size = _BYTES.get(planted.access, 4)
    raw = {} if _is_shared(planted) else _count_global(planted.warps, size)
    if _is_shared(planted):
        raw = _count_banks(planted.warps, size)
    elif planted.access.startswith("copy"):
        banks = _count_banks([stride(size)] * len(planted.warps), size)
        raw |= banks | {PASSES: max(banks[PASSES], raw[LINES])}
    function = SassFunction("k", (parse_instruction(0, _TEXTS[planted.access]),), ((),), {})
    raw["inst_executed"] = float(len(planted.warps))
    raw["thread_inst_executed_true"] = float(sum(map(len, planted.warps)))
    return SourceCounters(function, {name: {0: value} for name, value in raw.items()}, {})


def _is_shared(planted: Planted) -> bool:
    return planted.access.startswith(("shared", "matrices"))


def _count_global(warps: Sequence[Warp], size: int) -> dict[str, float]:
    """Return sectors of 32 bytes, lines of 128, and sectors of the same bytes side by side.

    Lanes that share addresses need no more than they touch.
    """
    touched = [{(a + at) // 32 for a in warp for at in range(size)} for warp in warps]
    lines = [{sector // 4 for sector in sectors} for sectors in touched]
    needed = [
        min(len(sectors), -(-len(warp) * size // 32))
        for warp, sectors in zip(warps, touched, strict=True)
    ]
    return {
        SECTORS: float(sum(map(len, touched))),
        LINES: float(sum(map(len, lines))),
        IDEAL: float(sum(needed)),
    }


def _count_banks(warps: Sequence[Warp], size: int) -> dict[str, float]:
    """Return the passes: of lanes with 16 bytes, eight at a time make one without conflicts."""
    each = 128 // max(size, 4)
    passes, ideal = 0, 0
    for warp in warps:
        for first in range(0, len(warp), each):
            words = {a // 4 + at for a in warp[first : first + each] for at in range(-(-size // 4))}
            banks = [word % 32 for word in words]
            passes += max(map(banks.count, banks))
            ideal += 1
    return {PASSES: float(passes), IDEAL_PASSES: float(ideal)}


def describe(counters: SourceCounters) -> str:
    """Return the words for the accesses, without the operation that each begins with."""
    told = [describe_access(one) for one in find_access_patterns(counters)]
    return "; ".join(one.partition(", " if "of matrices" in one else ": ")[2] for one in told)


def main() -> int:
    """Run all patterns under ncu, and print those whose counters or words differ."""
    with tempfile.TemporaryDirectory() as folder:
        launches = run_under_profiler(Path(folder))
    right = 0
    for (name, planted), launch in zip(PLANTED.items(), launches, strict=True):
        expected = count(planted)
        found = keep_access(launch, expected.function.instructions[0].opcode)
        told = describe(found)
        differing = [
            f"{one} {found.raw.get(one, {}).get(0)} instead of {value}"
            for one in COUNTERS
            if (value := expected.raw.get(one, {}).get(0)) != found.raw.get(one, {}).get(0)
        ]
        right += told == planted.words
        if differing or told != planted.words:
            print(f"{name}: {told or 'nothing'}", *differing, sep="\n    ")
    print(f"{right} of {len(PLANTED)} planted patterns are told as they are")
    return 0 if right == len(PLANTED) else 1


def run_under_profiler(folder: Path) -> list[SourceCounters]:
    """Return what ncu counts in the kernel of each pattern."""
    program, report = folder / "planted", folder / "planted.ncu-rep"
    lines = (
        f"{one.access} {len(one.warps)} {' '.join(map(str, _list_offsets(one)))}\n"
        for one in PLANTED.values()
    )
    compile_command = ["nvcc", "-arch=native", "-O3", "-o", str(program), str(SOURCE)]
    subprocess.run(compile_command, check=True)
    ncu = ["ncu", "--section", "SourceCounters", "-o", str(report), str(program)]
    subprocess.run(ncu, input="".join(lines), text=True, check=True, stdout=subprocess.DEVNULL)
    found = read_source_counters(report, range(len(PLANTED)))
    return [one for one in found if one is not None and not isinstance(one, str)]


def _list_offsets(planted: Planted) -> list[int]:
    """Return an offset for each lane of each warp; -1: it takes no part."""
    return [at for warp in planted.warps for at in [*warp, *[-1] * (len(LANES) - len(warp))]]


def keep_access(counters: SourceCounters, opcode: str) -> SourceCounters:
    """Return the counters of the one access with an operation, as its function's only one."""
    instructions = counters.function.instructions
    executed = counters.raw["inst_executed"]
    at = next(i for i, one in enumerate(instructions) if one.opcode == opcode and executed.get(i))
    function = SassFunction("k", (instructions[at],), ((),), {})
    raw = {name: {0: values[at]} for name, values in counters.raw.items() if at in values}
    return SourceCounters(function, raw, {})


if __name__ == "__main__":
    sys.exit(main())
