"""Metrics of machine code, which no counter tells and no user has to give."""

import pytest
from machine_code import make_function, unpack_report

from kernelkb.actions.recommend_report import recommend_from_report
from kernelkb.sass.code_metrics import measure_code

CHASE = (
    (2, "MOV R8, RZ", "", ()),
    (4, ".L_x_0: LDG.E R8, desc[UR4][R8.64]", "w0", (0,)),
    (3, "@P0 BRA `(.L_x_0)", "", ()),
    (6, "EXIT", "", ()),
)
STREAM = (
    (2, "MOV R8, RZ", "", ()),
    (4, ".L_x_0: LDG.E R4, desc[UR4][R8.64]", "w0", ()),
    (5, "FADD R3, R4, R3", "", (0,)),
    (5, "IADD3 R8, R8, 0x80, RZ", "", ()),
    (3, "@P0 BRA `(.L_x_0)", "", ()),
    (6, "EXIT", "", ()),
)


@pytest.mark.parametrize(("rows", "value"), [(CHASE, 1.0), (STREAM, 0.0)])
def test_a_load_in_a_loop_that_needs_its_own_result_is_a_dependent_load(rows, value):
    assert measure_code([make_function(*rows)])["dependent_load"] == value


def test_matrix_and_double_precision_instructions_are_counted():
    found = measure_code(
        [
            make_function(
                (3, "HMMA.16816.F32 R4, R12, R16, R4", "", ()),
                (4, "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "", ()),
                (5, "DFMA R4, R4, R4, R4", "", ()),
                (6, "EXIT", "", ()),
            )
        ]
    )

    assert (found["mma_opcode_count"], found["warpgroup_opcode_count"]) == (2.0, 1.0)
    assert found["fp64_opcode_count"] == 1.0


def test_no_code_has_no_metrics():
    assert measure_code([]) == {}


def test_a_report_shows_the_chase_without_being_told(tmp_path):
    report = unpack_report(tmp_path, "h100-sxm", "dependent-load-chain")
    answers = recommend_from_report(str(report), kernel_pattern="walk_lists")["kernels"]

    assert answers[0]["diagnoses"][0]["bottleneck"] == "dependent-load-chain"
    assert {"metric": "dependent_load", "value": 1.0}.items() <= next(
        reason.items()
        for reason in answers[0]["diagnoses"][0]["because"]
        if reason["metric"] == "dependent_load"
    )
