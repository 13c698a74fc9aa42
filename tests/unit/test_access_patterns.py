"""Accesses in words: planted address patterns are told as they are, and nothing is invented."""

import pytest
from benchmarks.planted_accesses import (
    IDEAL_PASSES,
    PASSES,
    PLANTED,
    SECTORS,
    Planted,
    count,
    describe,
    stride,
)
from machine_code import unpack_report

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.render.text.answers import format_answer_lines
from kernelkb.sass.access_patterns import describe_access, find_access_patterns
from kernelkb.sass.counters import SourceCounters
from kernelkb.sass.function import SassFunction, parse_instruction


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_access_is_told_as_it_is(name):
    assert describe(count(PLANTED[name])) == PLANTED[name].words


@pytest.mark.parametrize(
    ("text", "size"),
    [("LDG.E.256 R8, [R4]", 32), ("LDG.E.S16 R2, [R4]", 2), ("REDG.E.ADD.F64.RN [R4], R2", 8),
     ("REDG.E.ADD.F16x2.RN [R4], R2", 4), ("ATOMG.E.ADD.64 PT, R2, [R4], R6", 8)],
)  # fmt: skip
def test_the_bytes_of_a_lane_are_those_of_the_instruction(text, size):
    function = SassFunction("k", (parse_instruction(0, text),), ((),), {})
    (pattern,) = find_access_patterns(SourceCounters(function, count(PLANTED["row"]).raw, {}))

    assert pattern.lane_bytes == size


def test_the_operation_is_named_first():
    (load,) = find_access_patterns(count(Planted("load-4", [stride(4)], "")))
    (bank,) = find_access_patterns(count(Planted("shared-4", [stride(4)], "")))
    (atomic,) = find_access_patterns(count(Planted("add-4", [stride(4)], "")))

    assert describe_access(load).startswith("each load: 32 lanes")
    assert describe_access(bank).startswith("each load in shared memory: 32 lanes")
    assert describe_access(atomic).startswith("each atomic: 32 lanes")


@pytest.mark.parametrize(
    "text", ["HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24", "UTMALDG.2D [UR8], [UR4]",
             "LDL R2, [R1]", "IADD3 R2, R2, R3, RZ"],
)  # fmt: skip
def test_nothing_is_told_where_no_addresses_are_counted(text):
    function = SassFunction("k", (parse_instruction(0, text),), ((),), {})
    raw = {PASSES: 12.0, IDEAL_PASSES: 12.0, SECTORS: 0.0, "inst_executed": 1.0,
           "thread_inst_executed_true": 32.0}  # fmt: skip
    counters = SourceCounters(function, {name: {0: value} for name, value in raw.items()}, {})

    assert describe(counters) == ""


def test_a_report_without_these_counters_tells_no_pattern():
    whole = count(PLANTED["row"])
    bare = {name: whole.raw[name] for name in ("inst_executed", "thread_inst_executed_true")}

    assert describe(SourceCounters(whole.function, bare, {})) == ""


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
