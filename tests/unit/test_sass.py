"""Machine code: what instructions read and write, where control goes, and who waits for whom."""

import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_code import make_function, unpack_report

from kernelkb.profiles.machine_code import disassemble, find_disassembler, iter_cubins, list_symbols
from kernelkb.sass.counters import find_producers
from kernelkb.sass.function import (
    Place,
    decode_control,
    fill_called_places,
    fill_calling_places,
    parse_disassembly,
    parse_instruction,
)

LOAD = "stall:long_scoreboard"
SHARED = "stall:short_scoreboard"


def names(text):
    return set(text.split())


@pytest.mark.parametrize(
    ("text", "writes", "reads"),
    [
        ("LDG.E.CONSTANT R5, desc[UR4][R2.64]", "R5", "UR4 UR5 R2 R3"),
        ("@!P0 LDG.E.128 R8, desc[UR6][R10.64+0x10] ;", "R8 R9 R10 R11", "P0 UR6 UR7 R10 R11"),
        ("STG.E.64 desc[UR4][R2.64], R6", "", "UR4 UR5 R2 R3 R6 R7"),
        ("LDS.128 R4, [R6+UR4+0x20]", "R4 R5 R6 R7", "R6 UR4"),
        ("FFMA R17, R17.reuse, -R24, |R14|", "R17", "R17 R24 R14"),
        ("IMAD.WIDE R8, R6, 0x4, R8", "R8 R9", "R6 R8 R9"),
        ("IADD3 R4, P2, R4, 0x80, RZ", "R4 P2", "R4"),
        ("IADD3.X R11, R2, UR5, RZ, P0, !PT", "R11", "R2 UR5 P0"),
        ("ISETP.GE.AND P0, PT, R9, UR4, PT", "P0", "R9 UR4"),
        ("SHFL.BFLY PT, R3, R14, 0x10, 0x1f", "R3", "R14"),
        ("DFMA R4, R6, R8, R4", "R4 R5", "R6 R7 R8 R9 R4 R5"),
        ("HMMA.16816.F32 R4, R12.reuse, R16, R4", "R4 R5 R6 R7",
         "R12 R13 R14 R15 R16 R17 R4 R5 R6 R7"),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5", "", "UR4 UR5 R2 R3 R5"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R3, desc[UR4][R2.64], R5", "R3", "UR4 UR5 R2 R3 R5"),
        ("FSEL R3, R4, R5, P1", "R3", "R4 R5 P1"),
        ("F2F.F64.F32 R22, R16", "R22 R23", "R16"),
        ("F2F.F32.F64 R16, R22", "R16", "R22 R23"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
        ("@P1 BRA `(.L_x_3)", "", "P1"),
    ],
)  # fmt: skip
def test_registers_follow_from_the_operation(text, writes, reads):
    one = parse_instruction(0, text)

    assert (one.writes, one.reads) == (names(writes), names(reads))


def test_control_bits_name_the_scoreboards():
    load = decode_control(0x000EA2000C1E9900)
    product = decode_control(0x004FCA000000000E)

    assert (load.write_scoreboard, load.read_scoreboard, load.waits_for) == (2, None, frozenset())
    assert (product.write_scoreboard, product.waits_for) == (None, {2})


def test_a_product_waits_for_the_load_of_its_operand():
    function = make_function(
        (3, "LDG.E R2, desc[UR4][R8.64]", "w0", ()),
        (4, "IADD3 R6, R6, 0x1, RZ", "", ()),
        (5, "FFMA R3, R2, R2, R3", "", (0,)),
    )
    found = find_producers(function, 2, LOAD)

    assert [(one.at, one.dependence, one.distance) for one in found] == [(0, "result", 2)]


def test_an_address_that_is_changed_waits_until_the_load_has_read_it():
    function = make_function(
        (3, "LDG.E R2, desc[UR4][R8.64]", "r1", ()), (4, "IADD3 R8, R8, 0x80, RZ", "", (1,))
    )
    found = find_producers(function, 1, LOAD)

    assert [(one.at, one.dependence) for one in found] == [(0, "operands")]


def test_a_load_for_the_next_step_of_a_loop_is_found_around_its_end():
    function = make_function(
        (2, "MOV R3, RZ", "", ()),
        (4, ".L_x_0: FFMA R3, R2, R2, R3", "", (0,)),
        (5, "LDG.E R2, desc[UR4][R8.64]", "w0", ()),
        (3, "@P0 BRA `(.L_x_0)", "", ()),
        (6, "EXIT", "", ()),
    )
    found = find_producers(function, 1, LOAD)

    assert [one.at for one in found] == [2]
    assert function.find_loops() == [frozenset({1, 2, 3})]


def test_a_scoreboard_that_is_shared_without_a_register_comes_last():
    function = make_function(
        (3, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
        (4, "LDG.E R2, desc[UR4][R10.64]", "w0", ()),
        (5, "FADD R3, R4, R3", "", (0,)),
    )
    found = find_producers(function, 2, LOAD)

    assert [(one.at, one.dependence) for one in found] == [(0, "result"), (1, "scoreboard")]


def test_what_an_earlier_instruction_waited_for_is_no_producer():
    function = make_function(
        (3, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
        (4, "FADD R3, R4, R3", "", (0,)),
        (5, "LDG.E R2, desc[UR4][R10.64]", "w0", ()),
        (6, "FADD R3, R2, R4", "", (0,)),
    )
    found = find_producers(function, 3, LOAD)

    assert [one.at for one in found] == [2]


def test_a_short_scoreboard_is_not_that_of_a_load_from_device_memory():
    function = make_function(
        (3, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
        (4, "LDS R2, [R10]", "w1", ()),
        (5, "FADD R3, R2, R4", "", (0, 1)),
    )

    assert [one.at for one in find_producers(function, 2, SHARED)] == [1]
    assert [one.at for one in find_producers(function, 2, LOAD)] == [0]
    assert find_producers(function, 2, "stall:barrier") == []


def test_without_control_bits_the_register_decides():
    function = make_function(
        (3, "LDG.E R4, desc[UR4][R8.64]", "", ()),
        (4, "@P0 MOV R4, RZ", "", ()),
        (5, "FADD R3, R2, R4", "", ()),
    )
    bare = replace(
        function, instructions=tuple(one._replace(control=None) for one in function.instructions)
    )
    found = find_producers(bare, 2, LOAD)

    assert [(one.at, one.dependence) for one in found] == [(0, "result")]


def test_threads_that_diverged_go_on_where_they_meet():
    function = make_function(
        (1, "BSSY B0, `(.L_x_1)", "", ()),
        (2, "@P0 BRA `(.L_x_0)", "", ()),
        (3, "BSYNC B0", "", ()),
        (4, ".L_x_0: FADD R3, R3, R3", "", ()),
        (5, "BSYNC B0", "", ()),
        (6, ".L_x_1: EXIT", "", ()),
    )

    assert function.successors == [[1], [2, 3], [3, 5], [4], [5], []]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    report = unpack_report(tmp_path_factory.mktemp("report"), "h100-sxm", "constant-cache-miss")
    return next(iter_cubins(report.read_bytes()))


def test_a_report_holds_images_that_the_disassembler_reads(image):
    (function,) = disassemble(image)

    assert find_disassembler() is not None
    assert function.instructions[-1].offset == 16 * (len(function.instructions) - 1)
    assert all(one.control is not None for one in function.instructions)
    assert function.name in {one.name for one in list_symbols(image)}
    assert {chain[-1].file.rpartition("/")[2] for chain in function.places} == {"before.cu"}


def test_only_the_functions_that_are_asked_for_are_disassembled(image):
    assert disassemble(image, ["no such function"]) == []


def test_every_register_of_real_code_is_found(image):
    """What is read was written before, or comes from outside: no operand is taken for a result."""
    for function in disassemble(image):
        written = {register for one in function.instructions for register in one.writes}
        read = {register for one in function.instructions for register in one.reads}

        assert {name for name in read - written if not name.startswith("B")} <= {"R1", "UP0"}


@given(st.binary(max_size=200), st.integers(0, 80), st.binary(max_size=8))
def test_damaged_images_are_left_out(image, garbage, at, change):
    damaged = image[:at] + change + image[at + len(change) :]

    for cubin in iter_cubins(garbage + damaged[:4096] + garbage):
        assert isinstance(list_symbols(cubin), list)


@given(st.text(max_size=300))
def test_any_text_is_parsed(text):
    assert isinstance(parse_disassembly(text), list)
    assert parse_instruction(0, text).offset == 0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_newest_compiler_and_the_disassembler_agree_on_lines(tmp_path):
    source = tmp_path / "a.cu"
    source.write_text(
        "__device__ float twice(float x) {\n  return x + x;\n}\n"
        "__global__ void kernel(float* y) {\n  y[threadIdx.x] = twice(y[threadIdx.x]);\n}\n"
    )
    subprocess.run(
        ["nvcc", "-arch=sm_90a", "-lineinfo", "-cubin", "-o", tmp_path / "a.cubin", source],
        check=True,
    )
    (function,) = disassemble((tmp_path / "a.cubin").read_bytes())
    add = next(at for at, one in enumerate(function.instructions) if one.opcode in ("FADD", "FFMA"))

    assert [place.line for place in function.places[add]] == [2, 5]


def test_a_subroutine_without_lines_has_those_of_its_most_frequent_call():
    function = make_function(
        (3, "CALL.REL.NOINC `($__internal_0)", "", ()),
        (5, "CALL.REL.NOINC `($__internal_0)", "", ()),
        (6, "EXIT", "", ()),
        (None, "$__internal_0: DFMA R4, R4, R4, R4", "", ()),
        (None, "RET.REL.NODEC R2 `(kernel)", "", ()),
    )
    filled = fill_called_places(function, {0: 10.0, 1: 90.0})

    assert [chain[0].line for chain in filled.places] == [3, 5, 6, 5, 5]


def test_a_line_of_a_library_without_its_call_stands_in_the_nearest_line_of_the_kernel_before_it():
    first, own = (Place("/k/before.py", 9),), (Place("/k/before.py", 27),)
    library = (Place("/lib/triton/language/standard.py", 293),)

    filled = fill_calling_places([first, library, own, library, (), library])

    assert filled == (first, (*library, *first), own, (*library, *own), (), (*library, *own))


def test_lines_with_their_calls_stay_as_they_are():
    inlined = (Place("/lib/math.h", 3), Place("/k/a.cu", 7))

    assert fill_calling_places([(Place("/k/a.cu", 1),), inlined]) == (
        (Place("/k/a.cu", 1),),
        inlined,
    )
