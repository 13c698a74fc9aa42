"""Metrics of machine code, which no counter tells and no user has to give."""

import json
from dataclasses import replace

import pytest
from machine_code import make_function, unpack_report

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.actions.kernels.measure_variant import OpenBench
from kernelkb.cli import main
from kernelkb.measure.subject import DEFAULT_OPTIONS
from kernelkb.model.records.measurement import Bench, Build, KernelResources
from kernelkb.profiles import ncu_rep
from kernelkb.profiles.machine_code import iter_cubins, list_symbols
from kernelkb.sass.function import Place
from kernelkb.sass.static_facts import measure_code

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


LOAD = (4, "LDG.E R4, desc[UR4][R8.64]", "w0", ())
STAGE = (3, "STS [R10], R4", "", (0,))
MEET = (6, "BAR.SYNC.DEFER_BLOCKING 0x0", "", ())
READ = (4, "LDS R12, [R11]", "w1", ())
ADD = (5, "FADD R5, R12, R5", "", (1,))
KEEP = (3, "STG.E desc[UR4][R8.64], R5", "", ())
END = (6, "EXIT", "", ())
BACK = (3, "@P0 BRA `(.L_x_0)", "", ())
BACK_INSIDE = (3, "@P1 BRA `(.L_x_1)", "", ())


def name(label, row):
    return (row[0], f".L_x_{label}: {row[1]}", *row[2:])


TILES = {
    "a transpose": ((LOAD, STAGE, MEET, READ, KEEP, END), 0.0),
    "a stencil": ((LOAD, STAGE, MEET, READ, ADD, READ, ADD, KEEP, END), 1.0),
    "a loop over the tile": (
        (name(0, LOAD), STAGE, MEET, name(1, READ), ADD, BACK_INSIDE, BACK, KEEP, END),
        1.0,
    ),
    "one read of each element": (
        (name(0, LOAD), STAGE, MEET, READ, ADD, BACK, KEEP, END),
        0.0,
    ),
    "a sum that is kept in shared memory": (
        (
            name(0, READ),
            ADD,
            (4, "LDS R13, [R11+0x80]", "w1", ()),
            (5, "FADD R5, R13, R5", "", (1,)),
            (3, "STS [R10], R5", "", ()),
            MEET,
            BACK,
            END,
        ),
        None,
    ),
    "a loop that fills the tile and one that reads it": (
        (name(0, LOAD), STAGE, BACK, MEET, name(1, READ), ADD, BACK_INSIDE, KEEP, END),
        None,
    ),
    "loads that never run": (
        (name(0, LOAD), *[(4, "@!PT LDS RZ, [RZ]", "", ())] * 3, STAGE, MEET, READ, BACK, END),
        0.0,
    ),
    "matrices of an asynchronous copy": (
        (
            name(0, (4, "LDGSTS.E.BYPASS.128 [R10], desc[UR4][R8.64]", "", ())),
            MEET,
            *[(4, "LDSM.16.M88.4 R12, [R11]", "w1", ())] * 2,
            BACK,
            END,
        ),
        1.0,
    ),
    "a warpgroup's operands": (
        (
            name(0, (4, "UTMALDG.2D [UR8], [UR4]", "", ())),
            (4, "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "", ()),
            BACK,
            END,
        ),
        1.0,
    ),
    "no shared memory": ((LOAD, KEEP, END), 0.0),
}


@pytest.mark.parametrize(("rows", "value"), TILES.values(), ids=TILES)
def test_a_tile_that_is_read_more_than_once_is_reused(rows, value):
    assert measure_code([make_function(*rows)]).get("tile_reuse") == value


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


PLACES = {
    "values that have no register": (("STL [R1+0x8], R4", "LDL.LU R4, [R1+0x8]"), 1.0),
    "an array that is indexed": (("STL [R1], RZ", "LDL R4, [R7+0x10]"), 0.0),
    "no local memory": (("LDG.E R4, desc[UR4][R8.64]",), 0.0),
}


@pytest.mark.parametrize(("rows", "share"), PLACES.values(), ids=PLACES)
def test_spills_are_told_from_arrays_by_where_they_lie(rows, share):
    code = make_function(*((4, row, "w0", ()) for row in rows), (6, "EXIT", "", ()))

    assert measure_code([code])["spilled_access_share"] == share


@pytest.mark.parametrize("cause", ["local-array-indexing", "register-spilling"])
def test_local_memory_is_explained_by_a_report_of_a_release_that_counts_no_spills(
    tmp_path, monkeypatch, cause
):
    monkeypatch.setattr(
        "kernelkb.actions.advice.recommend_report.iter_plausible_metrics",
        lambda _program, launch, _notes: (
            item for item in launch.metrics.items() if item[0] != "spill_instruction_count"
        ),
    )
    answers = recommend_from_report(str(unpack_report(tmp_path, "h100-sxm", cause)))["kernels"]

    assert answers[0]["diagnoses"][0]["bottleneck"] == cause


@pytest.mark.parametrize(("cause", "size"), [("local-array-indexing", 64), ("low-ilp", 0)])
def test_a_report_states_the_stack_frame_of_its_kernel(tmp_path, cause, size):
    images = ncu_rep.ReportImages(unpack_report(tmp_path, "h100-sxm", cause))
    kernels = [
        one.name
        for image in iter_cubins((tmp_path / f"{cause}.ncu-rep").read_bytes())
        for one in list_symbols(image)
    ]

    assert max(images.measure_build(name).get("stack_bytes", 0) for name in kernels) == size


HALVES = (
    (2, ".L_x_0: LDS.U16 R8, [R4]", "w0", ()),
    (2, "LDS.U16 R9, [R5]", "w0", ()),
    (3, "HADD2.F32 R10, -RZ, R8.H0_H0", "", (0,)),
    (3, "HADD2.F32 R11, -RZ, R9.H0_H0", "", ()),
)
SHIFTED = (
    (2, ".L_x_0: LDG.E R8, desc[UR4][R4.64]", "w0", ()),
    (2, "LDG.E.U16 R9, desc[UR4][R6.64]", "w0", ()),
    (3, "LOP3.LUT R10, R8, 0xffff0000, RZ, 0xc0, !PT", "", (0,)),
    (3, "IMAD.U32 R11, R9, 0x10000, RZ", "", ()),
)
ADD_PRODUCT = (4, "FFMA R2, R10.reuse, R11, R3", "", ())
FACTORS = {
    "halves": ((*HALVES, ADD_PRODUCT), 1.0),
    "bfloat16, widened by a shift and a mask": ((*SHIFTED, ADD_PRODUCT), 1.0),
    "packed halves": (
        (
            (2, ".L_x_0: LDS R8, [R4]", "w0", ()),
            (2, "LDS R9, [R5]", "w0", ()),
            (3, "HFMA2.MMA R2, R8, R9.H0_H0, R2", "", (0,)),
        ),
        1.0,
    ),
    "one of two has a constant factor": (
        (*HALVES, ADD_PRODUCT, (5, "FFMA R2, R10, c[0x0][0x170], R2", "", ())),
        0.5,
    ),
    "a square": ((*HALVES, (4, "FFMA R2, R10, R10, R2", "", ())), 0.0),
    "values of 32 bits": ((*HALVES, (4, "FFMA R2, R8, R9, R2", "", (0,))), 0.0),
    "a computed factor": (
        (*HALVES, (4, "FMUL R11, R11, R12", "", ()), ADD_PRODUCT),
        0.0,
    ),
    "a register that is cleared": ((*HALVES, (4, "HFMA2.MMA R2, -RZ, RZ, 0, 0", "", ())), 0.0),
}


@pytest.mark.parametrize(("rows", "share"), FACTORS.values(), ids=FACTORS)
def test_a_product_of_two_loaded_values_of_16_bits_is_one_for_tensor_cores(rows, share):
    code = make_function(*rows, (3, "@P0 BRA `(.L_x_0)", "", ()), (6, "EXIT", "", ()))

    assert measure_code([code])["narrow_product_share"] == share


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


@pytest.fixture(scope="module")
def chase(tmp_path_factory):
    """A cubin with a pointer chase."""
    folder = tmp_path_factory.mktemp("code")
    data = unpack_report(folder, "h100-sxm", "dependent-load-chain").read_bytes()
    path = folder / "chase.cubin"
    path.write_bytes(
        next(
            image
            for image in iter_cubins(data)
            if any(
                "before_cu" in one.name and "walk_lists" in one.name for one in list_symbols(image)
            )
        )
    )
    return path


def test_machine_code_is_evidence_where_there_is_no_profile(chase, capsys):
    numbers = ["recommend", "--speedup", "0.8", "--metric", "dram_utilization=0.1", "--json"]
    answers = []
    for arguments in (numbers, [*numbers, "--code", str(chase)]):
        assert main(arguments) == 0
        answers.append(json.loads(capsys.readouterr().out)["kernels"][0])
    first = [answer["diagnoses"][0]["bottleneck"] for answer in answers]

    assert first[0] != "dependent-load-chain"
    assert first[1] == "dependent-load-chain"
    assert answers[0]["evidence_level"] == answers[1]["evidence_level"], "nothing more was measured"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--code", __file__], "holds no machine code"),
        (["--code", "/nowhere/a.cubin"], "cannot be read"),
        (["--code", "a.cubin", "--profile", "a.ncu-rep"], "leave --code out"),
        (["--code", "a.cubin", "--target", "cpu"], "leave --target cpu out"),
    ],
)
def test_code_that_cannot_be_used_has_one_line(arguments, words, capsys):
    assert main(["recommend", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


class FakeBench:
    """What a started bench returns; there may be no GPU here."""

    def run(self, _timeout_s):
        return Bench(
            kernel="lists",
            variant="walk",
            target="cuda",
            workload="small",
            verdict="slower",
            metrics={"speedup": 0.5},
            seconds=1.0,
        )


def test_the_metrics_of_a_bench_hold_what_the_machine_code_shows(chase):
    resources = KernelResources(
        kernel="walk_lists", registers=20, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0,
        static_smem_bytes=0,
    )  # fmt: skip
    built = Build(
        kernel="lists", variant="walk", target="cuda", status="built", seconds=1.0,
        library=str(chase), directory=str(chase.parent), command="nvcc", resources=(resources,),
    )  # fmt: skip
    timed = OpenBench(built, FakeBench(), DEFAULT_OPTIONS, None).run()

    assert timed.metrics["speedup"] == 0.5
    assert timed.metrics["dependent_load"] == 1.0


INTEGERS = {
    "a checksum, of which a step shifts by one bit": (
        (
            (4, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
            (5, "LOP3.LUT R5, R4, 0x1, RZ, 0xc0, !PT", "", (0,)),
            (5, "SHF.R.U32.HI R6, RZ, 0x1, R4", "", ()),
            (5, "LOP3.LUT R7, R6, R5, RZ, 0x3c, !PT", "", ()),
            (3, "STG.E desc[UR4][R8.64], R7", "", ()),
            END,
        ),
        {"data_integer_share": 3 / 6, "single_bit_step_share": 1 / 6, "bit_mask_share": 0.0},
    ),
    "an index that is divided": (
        (
            (4, "IMAD.HI.U32 R6, R2, R3, RZ", "", ()),
            (5, "LEA R8, R6, R10, 0x2", "", ()),
            (4, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
            (5, "FADD R7, R4, 1", "", (0,)),
            (3, "STG.E desc[UR4][R8.64], R7", "", ()),
            END,
        ),
        {"data_integer_share": 0.0, "single_bit_step_share": 0.0, "bit_mask_share": 0.0},
    ),
    "pairs of bits": (
        (
            (4, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
            (5, "LOP3.LUT R5, R4, 0x33333333, RZ, 0xc0, !PT", "", (0,)),
            (3, "STG.E desc[UR4][R8.64], R5", "", ()),
            END,
        ),
        {"data_integer_share": 1 / 4, "single_bit_step_share": 0.0, "bit_mask_share": 1 / 4},
    ),
    "a value that is stored, and an address as well": (
        (
            (4, "IMAD R6, R2, R3, R5", "", ()),
            (3, "STG.E desc[UR4][R6.64], R6", "", ()),
            END,
        ),
        {"data_integer_share": 0.0, "single_bit_step_share": 0.0, "bit_mask_share": 0.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "shares"), INTEGERS.values(), ids=INTEGERS)
def test_integers_that_are_stored_are_told_from_those_that_find_their_place(rows, shares):
    found = measure_code([make_function(*rows)])

    assert {name: pytest.approx(value) for name, value in shares.items()}.items() <= found.items()


def test_a_loop_counts_ten_times_among_the_integers():
    found = measure_code(
        [
            make_function(
                name(0, (5, "LOP3.LUT R5, R5, R4, RZ, 0x3c, !PT", "", ())),
                BACK,
                (3, "STG.E desc[UR4][R8.64], R5", "", ()),
                END,
            )
        ]
    )

    assert found["data_integer_share"] == pytest.approx(10 / 22)


EXCHANGE = (4, "SHFL.BFLY PT, R12, R5, 0x10, 0x1f", "w1", ())
SUMS = {
    "a sum over lanes in each pass": ((EXCHANGE, (5, "FADD R3, R12, R3", "", (1,))), 10 / 42),
    "a product that the sum is added to": (
        (EXCHANGE, (5, "FFMA R3, R8, R9, R12", "", (1,))),
        10 / 42,
    ),
    "a sum that scales": ((EXCHANGE, (5, "FFMA R3, R12, R9, R3", "", (1,))), 0.0),
    "a sum that each pass stores": (
        (EXCHANGE, (3, "STG.E desc[UR4][R8.64], R12", "", (1,))),
        0.0,
    ),
}


@pytest.mark.parametrize(("rows", "share"), SUMS.values(), ids=SUMS)
def test_shuffles_that_only_add_may_wait_until_the_loop_ends(rows, share):
    code = make_function(name(0, (5, "FMUL R5, R6, R7", "", ())), *rows, BACK, KEEP, END)

    assert measure_code([code])["looped_sum_share"] == pytest.approx(share)


PYTHON = (Place("/p/attention.py", 12),)
LANGUAGES = {
    "Triton": (PYTHON, "count_block", 1.0),
    "Numba": (PYTHON, "_ZN6cudapy8__main__3addB2v1Ef", None),
    "the CuTe DSL": (PYTHON, "kernel_cutlass_add_0", None),
    "CUDA": ((Place("/p/a.cu", 12),), "add", None),
    "no lines": (0, "count_block", None),
}


@pytest.mark.parametrize(("line", "called", "value"), LANGUAGES.values(), ids=LANGUAGES)
def test_triton_is_told_by_lines_of_python_and_a_plain_name(line, called, value):
    code = replace(make_function((line, "FADD R5, R12, R5", "", ()), (line, *END[1:])), name=called)

    assert measure_code([code]).get("triton_kernel") == value
