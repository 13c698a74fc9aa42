"""Accesses in words: planted address patterns are counted as the profiler counts them.

Sectors and lines are those that the addresses of a warp fall into, the ideal those of the same
bytes side by side; passes in shared memory are the words that meet in one bank.
"""

import pytest
from machine_code import unpack_report

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.render.text.answers import format_answer_lines
from kernelkb.sass.access_patterns import describe_access, find_access_patterns
from kernelkb.sass.counters import SourceCounters
from kernelkb.sass.function import SassFunction, parse_instruction

LANES = range(32)
SECTORS = "memory_l2_theoretical_sectors_global"
IDEAL = "memory_l2_theoretical_sectors_global_ideal"
LINES = "memory_l1_tag_requests_global"
PASSES = "memory_l1_wavefronts_shared"
IDEAL_PASSES = "memory_l1_wavefronts_shared_ideal"


def count_global(text, warps, size):
    """Return the counters of an access; each warp is the addresses of its active lanes."""
    touched = [{(a + at) // 32 for a in warp for at in range(size)} for warp in warps]
    lines = [{sector // 4 for sector in sectors} for sectors in touched]
    needed = [1 if len(set(warp)) == 1 else -(-len(warp) * size // 32) for warp in warps]
    raw = {SECTORS: touched, LINES: lines}
    counted = {name: {0: float(sum(map(len, sets)))} for name, sets in raw.items()}
    return make_counters(text, warps, counted | {IDEAL: {0: float(sum(needed))}})


def count_shared(text, warps, size):
    """Return the counters of an access of shared memory, of words of four bytes or less."""
    passes, ideal = 0, 0
    for warp in warps:
        words = {address // 4 for address in warp}
        banks = [word % 32 for word in words]
        passes += max(map(banks.count, banks))
        ideal += max(1, -(-len(warp) * size // 128))
    raw = {PASSES: {0: float(passes)}, IDEAL_PASSES: {0: float(ideal)}}
    return make_counters(text, warps, raw)


def make_counters(text, warps, raw):
    function = SassFunction("k", (parse_instruction(0, text),), ((),), {})
    lanes = float(sum(map(len, warps)))
    always = {"inst_executed": {0: float(len(warps))}, "thread_inst_executed_true": {0: lanes}}
    return SourceCounters(function, always | raw, {})


def describe(counters):
    return [describe_access(one) for one in find_access_patterns(counters)]


def stride(step, start=0, lanes=LANES):
    """Return a warp whose lanes are ``step`` bytes apart."""
    return [start + step * lane for lane in lanes]


def rows(count, pitch, size):
    """Return a warp whose lanes lie in rows, as a tile of a matrix is read."""
    each = 32 // count
    return [pitch * (lane // each) + size * (lane % each) for lane in LANES]


def scatter(seed):
    """Return a warp whose lanes are anywhere in 8 KiB."""
    return [(seed * 7919 + lane * lane * 40_503 + lane * 7907) % 2048 * 4 for lane in LANES]


def moving(make, starts):
    """Return a warp for each start."""
    return [make(start) for start in starts]


LOAD, STORE = "LDG.E R2, desc[UR4][R4.64]", "STG.E desc[UR4][R4.64], R2"
GLOBAL = {
    "row": (LOAD, [stride(4)], 4, "32 lanes x 4 bytes, in a row: 4 sectors"),
    "row-of-halves": ("LDG.E.U16 R2, [R4]", [stride(2)], 2, "32 lanes x 2 bytes, in a row: 2 "
                                                            "sectors"),
    "row-of-bytes": ("LDG.E.U8 R2, [R4]", [stride(1)], 1, "32 lanes x 1 byte, in a row: 1 sector"),
    "row-of-doubles": ("LDG.E.64 R2, [R4]", [stride(8)], 8,
                       "32 lanes x 8 bytes, in a row: 8 sectors in 2 lines"),
    "row-of-vectors": ("LDG.E.128 R4, [R4]", [stride(16)], 16,
                       "32 lanes x 16 bytes, in a row: 16 sectors in 4 lines"),
    "reversed": (LOAD, [stride(4)[::-1]], 4, "32 lanes x 4 bytes, in a row: 4 sectors"),
    "permuted": (LOAD, [[4 * (lane * 7 % 32) for lane in LANES]], 4,
                 "32 lanes x 4 bytes, in a row: 4 sectors"),
    "one-word": (LOAD, [stride(0)], 4, "32 lanes x 4 bytes, all in one sector"),
    "one-vector": ("LDG.E.128 R4, [R4]", [stride(0)], 16, "32 lanes x 16 bytes, all in one sector"),
    "one-sector": (LOAD, [[4 * (lane % 8) for lane in LANES]], 4,
                   "32 lanes x 4 bytes, all in one sector"),
    "two-words": (LOAD, [[512 * (lane // 16) for lane in LANES]], 4,
                  "32 lanes x 4 bytes, of which some share an address: 2 sectors in 2 lines"),
    "pairs-share": (LOAD, [[4 * (lane // 2) for lane in LANES]], 4,
                    "32 lanes x 4 bytes, of which some share an address: 2 sectors"),
    "behind-a-header": (LOAD, [stride(4, 4)], 4,
                        "32 lanes x 4 bytes, in a row that does not start at a sector: "
                        "5 sectors in 2 lines, 4 would do"),
    "left-neighbour": (LOAD, moving(lambda at: stride(4, at), (124, 252)), 4,
                       "32 lanes x 4 bytes, in a row that does not start at a sector: "
                       "5 sectors in 2 lines, 4 would do"),
    "odd-bytes": ("LDG.E.U8 R2, [R4]", moving(lambda at: stride(1, at), range(7, 1000, 33)), 1,
                  "32 lanes x 1 byte, in a row that does not start at a sector: "
                  "2 sectors in 1.3 lines, 1 would do"),
    "every-second": (LOAD, [stride(8)], 4,
                     "32 lanes x 4 bytes, as 8 bytes apart: 8 sectors in 2 lines, 4 would do"),
    "every-third": (LOAD, [stride(12)], 4,
                    "32 lanes x 4 bytes, as 12 bytes apart: 12 sectors in 3 lines, 4 would do"),
    "struct-of-20": (LOAD, [stride(20)], 4,
                     "32 lanes x 4 bytes, as 20 bytes apart: 20 sectors in 5 lines, 4 would do"),
    "struct-of-32": (LOAD, [stride(32)], 4,
                     "32 lanes x 4 bytes, as 32 bytes apart: 32 sectors in 8 lines, 4 would do"),
    "struct-of-36": (LOAD, [stride(36)], 4,
                     "32 lanes x 4 bytes, as 32 to 37 bytes apart: 32 sectors in 9 lines, 4 "
                     "would do"),
    "struct-of-64": (LOAD, [stride(64)], 4,
                     "32 lanes x 4 bytes, as 64 bytes apart: 32 sectors in 16 lines, 4 would do"),
    "own-row": (LOAD, [stride(4096)], 4,
                "32 lanes x 4 bytes, each in another line of 128 bytes: "
                "32 sectors in 32 lines, 4 would do"),
    "column-of-halves": ("LDG.E.U16 R2, [R4]", [stride(1000)], 2,
                         "32 lanes x 2 bytes, each in another line of 128 bytes: "
                         "32 sectors in 32 lines, 2 would do"),
    "piece-a-thread": ("LDG.E.U16 R2, [R4]", [stride(16)], 2,
                       "32 lanes x 2 bytes, as 16 bytes apart: 16 sectors in 4 lines, 2 would do"),
    "pixels": ("LDG.E.U8 R2, [R4]", moving(lambda at: stride(3, at), (0, 96, 192, 288)), 1,
               "32 lanes x 1 byte, as 3 bytes apart: 3 sectors in 1.5 lines, 1 would do"),
    "pixels-four": ("LDG.E.U8 R2, [R4]", [stride(4)], 1,
                    "32 lanes x 1 byte, as 4 bytes apart: 4 sectors, 1 would do"),
    "half-vectors": ("LDG.E.128 R4, [R4]", [stride(32)], 16,
                     "32 lanes x 16 bytes, as 32 bytes apart: 32 sectors in 8 lines, 16 would do"),
    "eight-rows": ("LDG.E.64 R4, [R4]", [rows(8, 4096, 8)], 8,
                   "32 lanes x 8 bytes, in 8 pieces of 32 bytes, 4 lanes each: 8 sectors in 8 "
                   "lines"),
    "four-rows": (LOAD, [rows(4, 1024, 4)], 4,
                  "32 lanes x 4 bytes, in 4 pieces of 32 bytes, 8 lanes each: 4 sectors in 4 "
                  "lines"),
    "two-rows": (LOAD, [rows(2, 1024, 4)], 4,
                 "32 lanes x 4 bytes, in 2 pieces of 64 bytes, 16 lanes each: 4 sectors in 2 "
                 "lines"),
    "fragments": (STORE, [rows(8, 8192, 4)], 4,
                  "32 lanes x 4 bytes, in 8 pieces of 16 bytes, 4 lanes each: "
                  "8 sectors in 8 lines, 4 would do"),
    "rows-behind-a-header": (LOAD, [[at + 16 for at in rows(4, 1024, 4)]], 4,
                             "32 lanes x 4 bytes, in 4 pieces of 32 bytes, 8 lanes each: "
                             "8 sectors in 4 lines, 4 would do"),
    "half-a-warp": (LOAD, [stride(4, 0, range(16))], 4,
                    "16 of 32 lanes x 4 bytes, in a row: 2 sectors"),
    "one-lane": (LOAD, [[0]], 4, "1 of 32 lanes x 4 bytes, in a row: 1 sector"),
    "guarded": (f"@P0 {LOAD}", [stride(4, 0, range(20)), []], 4,
                "10 of 32 lanes x 4 bytes: 1.5 sectors in 0.5 lines"),
    "scattered": (LOAD, moving(scatter, range(8)), 4,
                  "32 lanes x 4 bytes: 30.5 sectors in 26.8 lines, 4 would do"),
    "store-row": (STORE, [stride(4)], 4, "32 lanes x 4 bytes, in a row: 4 sectors"),
    "store-column": (STORE, [stride(256)], 4,
                     "32 lanes x 4 bytes, each in another line of 128 bytes: "
                     "32 sectors in 32 lines, 4 would do"),
    "atomic-on-one": ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU [R4], R2", [stride(0)], 4,
                      "32 lanes x 4 bytes, all in one sector"),
    "atomic-row": ("ATOMG.E.ADD.STRONG.GPU PT, R2, [R4], R6", [stride(4)], 4,
                   "32 lanes x 4 bytes, in a row: 4 sectors"),
}  # fmt: skip


@pytest.mark.parametrize("name", GLOBAL)
def test_a_planted_access_of_global_memory_is_told_as_it_is(name):
    text, warps, size, words = GLOBAL[name]
    (told,) = describe(count_global(text, warps, size))

    assert told.partition(": ")[2] == words


SHARED = {
    "row": (stride(4), "32 lanes x 4 bytes, without bank conflicts: 1 pass"),
    "one-word": (stride(0), "32 lanes x 4 bytes, without bank conflicts: 1 pass"),
    "odd-stride": (stride(132), "32 lanes x 4 bytes, without bank conflicts: 1 pass"),
    "every-second": (stride(8), "32 lanes x 4 bytes, 2 in one bank, as at a distance of 8 bytes: "
                                "2 passes, 1 would do"),
    "every-fourth": (stride(16), "32 lanes x 4 bytes, 4 in one bank, as at a distance of 16 bytes: "
                                 "4 passes, 1 would do"),
    "every-eighth": (stride(32), "32 lanes x 4 bytes, 8 in one bank, as at a distance of 32 bytes: "
                                 "8 passes, 1 would do"),
    "column": (stride(128), "32 lanes x 4 bytes, all in one bank, as at a distance of 128 bytes: "
                            "32 passes, 1 would do"),
    "wide-column": (stride(4096), "32 lanes x 4 bytes, all in one bank, as at a distance of "
                                  "128 bytes: 32 passes, 1 would do"),
    "half-column": (stride(128, 0, range(16)),
                    "16 of 32 lanes x 4 bytes, all in one bank, as at a distance of 128 bytes: "
                    "16 passes, 1 would do"),
    "three-meet": ([0, 128, 256, *stride(4, 4, range(29))],
                   "32 lanes x 4 bytes, 3 in one bank: 3 passes, 1 would do"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_a_planted_access_of_shared_memory_is_told_as_it_is(name):
    warp, words = SHARED[name]
    (told,) = describe(count_shared("LDS R2, [R4]", [warp], 4))

    assert told == f"each load in shared memory: {words}"


@pytest.mark.parametrize(
    ("text", "passes", "ideal", "words"),
    [
        ("LDSM.16.M88.4 R4, [R4]", 32, 4,
         "each load of matrices in shared memory, all 8 rows of a matrix in the same banks, as "
         "rows "
         "a multiple of 128 bytes apart: 32 passes, 4 would do"),
        ("LDSM.16.M88.4 R4, [R4]", 8, 4,
         "each load of matrices in shared memory, 2 of the 8 rows of a matrix in the same banks: "
         "8 passes, 4 would do"),
        ("LDSM.16.MT88.2 R4, [R4]", 2, 2,
         "each load of matrices in shared memory, without bank conflicts: 2 passes"),
        ("STS.128 [R4], R8", 16, 4,
         "each store in shared memory: 32 lanes x 16 bytes, with bank conflicts: "
         "16 passes, 4 would do"),
    ],
)  # fmt: skip
def test_matrices_and_vectors_in_shared_memory(text, passes, ideal, words):
    raw = {PASSES: {0: float(passes)}, IDEAL_PASSES: {0: float(ideal)}}

    assert describe(make_counters(text, [stride(4)], raw)) == [words]


def test_an_asynchronous_copy_is_told_on_both_sides():
    copy = "LDGSTS.E.BYPASS.128 [R4], desc[UR4][R6.64]"
    raw = count_global(copy, [rows(4, 2048, 16)], 16).raw | {
        PASSES: {0: 4.0},
        IDEAL_PASSES: {0: 4.0},
    }

    assert describe(make_counters(copy, [stride(16)], raw)) == [
        "each asynchronous copy: 32 lanes x 16 bytes, in a row: 16 sectors in 4 lines",
        "each asynchronous copy in shared memory: 32 lanes x 16 bytes, without bank conflicts: "
        "4 passes",
    ]


@pytest.mark.parametrize(
    "text", ["HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24", "UTMALDG.2D [UR8], [UR4]",
             "LDL R2, [R1]", "IADD3 R2, R2, R3, RZ"],
)  # fmt: skip
def test_nothing_is_told_where_no_addresses_are_counted(text):
    raw = {PASSES: {0: 12.0}, IDEAL_PASSES: {0: 12.0}, SECTORS: {0: 0.0}}

    assert describe(make_counters(text, [stride(4)], raw)) == []


def test_a_report_without_these_counters_tells_no_pattern():
    assert describe(make_counters(LOAD, [stride(4)], {})) == []


RECORDED = [
    ("lattice_cells_of_nine", 29, "each load: 32 lanes x 4 bytes, as 32 to 37 bytes apart: "
                                  "32 sectors in 9 lines, 4 would do"),
    ("rgb_to_yuv_planes", 29, "each load: 32 lanes x 1 byte, as 3 bytes apart: "
                              "3 sectors in 1.5 lines, 1 would do"),
    ("half_gemm_wmma_tiles_64x128", 61,
     "each load of matrices in shared memory, all 8 rows of a matrix in the same banks, as rows "
     "a multiple of 128 bytes apart: 32 passes, 4 would do"),
]  # fmt: skip


@pytest.mark.parametrize(("report", "line", "words"), RECORDED)
def test_recorded_accesses_are_told_with_their_lines(report, line, words, tmp_path):
    path = unpack_report(tmp_path, "h200", report)
    answers = recommend_from_report(str(path))["kernels"]
    answer = next(one for one in answers if line in {row["line"] for row in one["accesses"]})
    told = {row["line"]: row["pattern"] for row in answer["accesses"]}

    assert told[line] == words
    assert words in "\n".join(format_answer_lines(answer, everything=True))
