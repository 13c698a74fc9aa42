"""What machine code shows without a GPU: widths, local memory, divisions, chains, registers."""

import shutil
import subprocess

import pytest
from machine_code import make_function

from kernelkb.profiles import machine_code
from kernelkb.profiles.machine_code import (
    analyse,
    explain_missing_disassembler,
    parse_compiler_notes,
)
from kernelkb.render.text.reports import describe_fact, find_plain_name, format_static_report
from kernelkb.sass.function import parse_disassembly, parse_instruction
from kernelkb.sass.static_dataflow import find_live_registers, survey_function
from kernelkb.sass.static_facts import find_names, find_static_facts

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def make_code(*rows):
    """Return a function of rows ``(line, text)``."""
    return make_function(*((line, text, "", ()) for line, text in rows))


def find(rows, kind, **options):
    found = find_static_facts(make_code(*rows), **options)["facts"]
    return [fact for fact in found if fact["kind"] == kind]


def get_lines(fact):
    return [place["line"] for place in fact["places"]]


def test_a_narrow_load_of_the_innermost_loop_is_notable_and_a_wide_one_is_not():
    loop = [
        (3, ".L_x_0: LDG.E.U16 R2, desc[UR4][R8.64]"),
        (4, "LDG.E.128 R4, desc[UR4][R10.64]"),
        (5, "@P0 BRA `(.L_x_0)"),
        (6, "EXIT"),
    ]
    found = {fact["amount"]: fact for fact in find(loop, "global-width")}

    assert [(width, fact["notable"]) for width, fact in found.items()] == [(2, True), (16, False)]
    assert get_lines(found[2]) == [3]


def test_a_narrow_access_outside_of_the_loop_that_has_wide_ones_is_not_notable():
    rows = [
        (2, "LDG.E R1, desc[UR4][R8.64]"),
        (3, ".L_x_0: LDG.E.128 R4, desc[UR4][R10.64]"),
        (5, "@P0 BRA `(.L_x_0)"),
        (6, "EXIT"),
    ]

    assert not any(fact["notable"] for fact in find(rows, "global-width"))


@pytest.mark.parametrize(
    ("second", "bytes_together"), [("+0x4", [8]), ("+0x8", []), ("+0x400", [])]
)
def test_loads_side_by_side_may_be_one(second, bytes_together):
    rows = [
        (3, "LDG.E R2, desc[UR4][R8.64]"),
        (3, f"LDG.E R3, desc[UR4][R8.64{second}]"),
        (4, "EXIT"),
    ]

    assert [fact["amount"] for fact in find(rows, "neighbouring-accesses")] == bytes_together


def test_loads_whose_base_changes_in_between_are_not_side_by_side():
    rows = [
        (3, "LDG.E R2, desc[UR4][R8.64]"),
        (3, "IADD3 R8, R8, 0x80, RZ"),
        (3, "LDG.E R3, desc[UR4][R8.64+0x4]"),
        (4, "EXIT"),
    ]

    assert find(rows, "neighbouring-accesses") == []


SPILL = (3, "STL [R1+0x8], R2")
ARRAY = (4, "LDL R3, [R5]")


@pytest.mark.parametrize(
    ("rows", "spill_bytes", "kinds"),
    [
        ([SPILL], None, {"spill": [3]}),
        ([ARRAY], None, {"local-array": [4]}),
        ([SPILL, ARRAY], None, {"local-array": [3, 4]}),
        ([SPILL, ARRAY], 4, {"spill": [3], "local-array": [4]}),
        ([SPILL], 0, {"local-array": [3]}),
    ],
)
def test_local_memory_is_an_array_or_spilled_registers(rows, spill_bytes, kinds):
    found = find_static_facts(make_code(*rows, (5, "EXIT")), spill_bytes)["facts"]
    local = [fact for fact in found if fact["kind"] in ("spill", "local-array")]

    assert {fact["kind"]: get_lines(fact) for fact in local} == kinds


DIVISION = [
    (7, "I2F.U32.RP R2, UR6"),
    (7, "MUFU.RCP R2, R2"),
    (7, "F2I.FTZ.U32.TRUNC.NTZ R3, R2"),
]


def test_a_reciprocal_rounded_up_is_an_integer_division():
    (fact,) = find([*DIVISION, (8, "EXIT")], "integer-division")

    assert (fact["amount"], get_lines(fact), fact["loop_depth"]) == (1, [7], 0)


def test_a_division_by_the_same_number_leaves_its_products_in_the_loop():
    rows = [*DIVISION, (7, ".L_x_0: IMAD.HI.U32 R4, R3, R5, RZ"), (8, "@P0 BRA `(.L_x_0)")]
    (fact,) = find([*rows, (9, "EXIT")], "integer-division")

    assert (fact["amount"], fact["loop_depth"]) == (1, 1)
    assert "before the loop" in fact["words"]


def test_a_64_bit_division_is_told_once():
    call = (7, "CALL.REL.NOINC `($__internal_7_$__cuda_sm20_rem_s64)")
    (fact,) = find([*DIVISION, call, (8, "EXIT")], "integer-division")

    assert "64-bit" in fact["words"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("__cuda_sm3x_div_rn_noftz_f32_slowpath", "fp32 division"),
        ("__cuda_sm20_rcp_rn_f32_slowpath", "fp32 division"),
        ("__cuda_sm20_sqrt_rn_f32_slowpath", "fp32 square root"),
        ("__cuda_sm20_div_rn_f64_full", "fp64 division"),
        ("__cuda_sm20_dsqrt_rn_f64_mediumpath_v1", "fp64 square root"),
    ],
)
def test_an_exact_function_calls_a_subroutine(name, words):
    (fact,) = find(
        [(3, f"CALL.REL.NOINC `($__internal_0_${name})"), (4, "EXIT")], "precise-division"
    )

    assert words in fact["words"]


def make_loop(*rows):
    first, *others = rows
    return [(first[0], f".L_x_0: {first[1]}"), *others, (20, "@P0 BRA `(.L_x_0)"), (21, "EXIT")]


def test_a_load_whose_address_is_its_own_result_is_a_pointer_chase():
    rows = make_loop((5, "LDG.E R2, desc[UR4][R8.64]"), (6, "IMAD.WIDE R8, R2, 0x4, R10"))
    (fact,) = find(rows, "pointer-chase")

    assert (get_lines(fact), fact["amount"]) == ([5], 44)


def test_a_load_whose_pointer_advances_is_no_pointer_chase():
    rows = make_loop((5, "LDG.E R2, desc[UR4][R8.64]"), (6, "IADD3 R8, R8, 0x4, RZ"))

    assert find(rows, "pointer-chase") == []


def test_registers_used_again_under_one_predicate_carry_nothing():
    rows = make_loop(
        (5, "@!P1 LDC.64 R16, c[0x0][0x210]"),
        (5, "@!P1 IMAD.WIDE.U32 R16, R7, 0x10, R16"),
        (5, "@!P1 LDG.E.128 R16, desc[UR8][R16.64]"),
        (6, "@!P1 STS.128 [R9], R16"),
    )

    assert find(rows, "pointer-chase") == []


def test_sums_that_wait_for_each_other_are_a_chain():
    rows = make_loop(*((7, "FFMA R4, R4, R5, R6") for _ in range(8)))
    (fact,) = find(rows, "chain")

    assert (fact["amount"], fact["notable"], get_lines(fact)) == (32, True, [7])


def test_sums_into_many_registers_are_no_notable_chain():
    rows = make_loop(*((7, f"FFMA R{n}, R{n}, R1, R2") for n in range(10, 18)))

    assert not any(fact["notable"] for fact in find(rows, "chain"))


def test_the_counter_of_a_loop_is_no_chain():
    rows = make_loop((5, "IADD3 R2, R2, 0x1, RZ"), (5, "ISETP.GE.AND P0, PT, R2, UR4, PT"))

    assert find(rows, "chain") == []


def test_loads_of_loads_are_counted():
    rows = [
        (3, "LDG.E R2, desc[UR4][R8.64]"),
        (4, "IMAD.WIDE R4, R2, 0x4, R10"),
        (4, "LDG.E R5, desc[UR4][R4.64]"),
        (5, "IMAD.WIDE R6, R5, 0x4, R12"),
        (5, "LDG.E R7, desc[UR4][R6.64]"),
        (6, "EXIT"),
    ]
    (fact,) = find(rows, "dependent-loads")

    assert (fact["amount"], get_lines(fact), fact["notable"]) == (3, [3, 4, 5], True)


def test_a_product_that_only_a_sum_uses_could_be_one_instruction():
    rows = [(3, "FMUL R2, R3, R4"), (3, "FADD R5, R5, R2"), (4, "EXIT")]
    used_twice = [*rows[:2], (4, "STG.E desc[UR4][R8.64], R2"), (5, "EXIT")]

    assert [get_lines(fact) for fact in find(rows, "not-contracted")] == [[3]]
    assert find(used_twice, "not-contracted") == []


def test_matrix_instructions_are_told_with_their_shape():
    rows = make_loop(
        (5, "HMMA.16816.F32.BF16 R4, R8, R12, R4"), (6, "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24")
    )
    words = [fact["words"] for fact in find(rows, "tensor")]

    assert "HGMMA.64x128x16.F32" in words[0]
    assert "HMMA.16816.F32.BF16" in words[1]


def test_a_wgmma_that_is_waited_for_each_time_is_serialised():
    wgmma, wait = "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24, gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x0"
    each = make_loop((5, wgmma), (5, wait), (6, wgmma), (5, wait))
    group = make_loop((5, wgmma), (6, wgmma), (7, wait))

    assert len(find(each, "wgmma-serialised")) == 1
    assert find(group, "wgmma-serialised") == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", 64),
        ("HGMMA.64x64x16.F16 R24, gdesc[UR4], R24", 16),
        ("IGMMA.64x32x32.S8.S8 R24, gdesc[UR4], RZ, !UPT", 16),
    ],
)
def test_the_sums_of_a_wgmma_lie_in_many_registers(text, count):
    assert len(parse_instruction(0, text).writes) == count


def test_registers_are_live_until_their_last_use():
    function = make_code(
        (3, "MOV R2, 0x1"), (4, "MOV R3, 0x2"), (5, "IADD3 R4, R2, R3, RZ"), (6, "EXIT")
    )
    live = find_live_registers(function)

    assert live == [0, 0b100, 0b1100, 0]


def test_what_a_loop_uses_again_is_live_through_it():
    rows = make_loop((5, "FADD R4, R4, R2"), (6, "MOV R7, 0x3"))
    function = make_code(*rows)
    live = find_live_registers(function)

    assert all(mask & 1 << 2 for mask in live[:3])
    assert not live[3] & 1 << 2


def test_a_barrier_joins_the_branch_that_it_was_set_for():
    function = make_code(
        (1, "BSSY B0, `(.L_x_0)"), (1, "BSYNC B0"), (2, ".L_x_0: BSSY B0, `(.L_x_1)"),
        (2, "BSYNC B0"), (3, ".L_x_1: EXIT"),
    )  # fmt: skip

    assert function.successors == [[1], [2], [3], [4], []]
    assert function.find_loops() == []


def test_a_jump_back_to_the_main_path_is_no_loop():
    function = make_code(
        (1, "@P0 BRA `(.L_x_1)"),
        (2, ".L_x_0: EXIT"),
        (3, ".L_x_1: MOV R2, 0x1"),
        (3, "BRA `(.L_x_0)"),
    )

    assert function.find_loops() == []


def test_a_loop_that_polls_a_barrier_leaves_the_loop_around_it_the_innermost():
    wait = [(4, ".L_x_1: SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R3"), (4, "@!P1 BRA `(.L_x_1)")]
    rows = [(3, ".L_x_0: MOV R3, R2"), *wait, (5, "LDS R2, [R4]"), (6, "@P0 BRA `(.L_x_0)")]
    code = survey_function(make_code(*rows, (7, "EXIT")))

    assert [loop.is_main for loop in code.loops] == [True]


def test_the_remainder_of_an_unrolled_loop_is_not_a_main_loop():
    load, leave = "LDG.E R2, desc[UR4][R8.64]", (9, "@P0 BRA `(.L_x_0)")
    unrolled = [(3, f".L_x_0: {load}"), *((3, load) for _ in range(3)), leave]
    function = make_code(*unrolled, (3, f".L_x_1: {load}"), (9, "@P1 BRA `(.L_x_1)"), (10, "EXIT"))
    code = survey_function(function)

    assert [(len(loop.body), loop.is_main) for loop in code.loops] == [(2, False), (5, True)]


DISASSEMBLY = """
\t.section\t.text.walk,"ax",@progbits
\t//## File "/k/a.cu", line 9
        /*0000*/                   EXIT ;   /* 0x000000000000794d */
                                            /* 0x000fea0003800000 */
$__internal_0_$__cuda_sm20_rcp_rn_f32_slowpath:
        /*0010*/                   MUFU.RCP R2, R3 ;   /* 0x0000000000007308 */
                                            /* 0x000fea0003800000 */
"""


def test_a_subroutine_of_the_compiler_has_no_line():
    (function,) = parse_disassembly(DISASSEMBLY)

    assert [len(chain) for chain in function.places] == [1, 0]
    assert survey_function(function).own == [0]


@pytest.mark.parametrize(
    ("kind", "text", "names"),
    [
        ("local-array", "above = values[node + 1] * w[2];", ["values"]),
        ("local-array", "y[i] = sinf(x[i]);", ["sinf"]),
        ("fp64", "s += 1.0 / sqrt(d + 0.01) * 2.0f;  // 3.0", ["1.0", "0.01"]),
        ("integer-division", "const int x = i % width / 7;", ["width"]),
        ("integer-division", "n = i / static_cast<int>(groups);", ["groups"]),
        ("precise-division", "y = a / b + sqrtf(c);", ["b", "sqrtf"]),
        ("registers", "y = a / b;", []),
    ],
)
def test_a_line_names_what_a_fact_is_about(kind, text, names):
    assert find_names(kind, text, {"values"}) == names


LOG = """
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to insufficient register resources for the wgmma pipeline in the function '_Z3serPf'
ptxas info    : Function properties for _Z3serPf
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
"""


def test_the_compiler_says_what_it_spills_and_why_it_serialises():
    notes = parse_compiler_notes(LOG)

    assert notes.spill_bytes == {"_Z3serPf": 20}
    assert notes.serialised == {
        "_Z3serPf": "insufficient register resources for the wgmma pipeline"
    }


def test_a_fact_is_one_line_with_its_lines_and_names():
    fact = find([(3, "DFMA R2, R4, R6, R2"), (4, "EXIT")], "fp64")[0]
    fact["places"][0]["names"] = ["0.5"]

    assert describe_fact(fact) == "line 3: arithmetic in fp64: 1 DFMA (0.5)"


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        ("_Z4walkPKfi", "walk"),
        ("_ZN41_GLOBAL__N__c5937edb_9_before_cu_095130f510price_putsEPKfS1_", "price_puts"),
        ("walk", "walk"),
    ],
)
def test_a_plain_name_is_the_last_one(mangled, plain):
    assert find_plain_name(mangled) == plain


def test_without_a_disassembler_the_report_has_one_line_with_the_cure(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "find_disassembler", lambda: None)
    report = analyse(tmp_path / "kernel.so")

    assert list(format_static_report(report)) == [
        f"  machine code not read: {explain_missing_disassembler()}"
    ]


def test_a_file_without_machine_code_says_so(tmp_path):
    path = tmp_path / "kernel.so"
    path.write_bytes(b"no code")

    assert "holds no machine code" in analyse(path)["reason"]


SOURCE = """\
__global__ void walk(const int* next, const float* x, float* out, int n, int w) {
  int at = threadIdx.x;
  float values[32];
  for (int k = 0; k < 32; ++k) values[k] = x[k];
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) {
    at = next[at];
    values[at & 31] += 0.1;
  }
  for (int k = 0; k < 32; ++k) sum += values[(at + k) & 31];
  const int slot = threadIdx.x / w;
  out[slot] = sum / x[n];
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A library as ``kb build`` compiles it, and what ptxas printed."""
    folder = tmp_path_factory.mktemp("static")
    (folder / "walk.cu").write_text(SOURCE, encoding="ascii")
    words = [
        "nvcc",
        "-gencode",
        "arch=compute_90a,code=sm_90a",
        "-O3",
        "-lineinfo",
        "-Xptxas",
        "-v",
    ]
    words += ["-shared", "-cudart", "shared", "-Xcompiler", "-fPIC", "-o", "walk.so"]
    done = subprocess.run(
        [*words, str(folder / "walk.cu")], cwd=folder, capture_output=True, text=True, check=True
    )
    return folder / "walk.so", done.stdout + done.stderr


@needs_nvcc
def test_a_library_shows_the_flaws_of_its_kernel(compiled):
    path, log = compiled
    (found,) = analyse(path, log, path.parent)["kernels"]
    notable = {}
    for fact in found["facts"]:
        if fact["notable"]:
            names = {name for place in fact["places"] for name in place["names"]}
            lines, known = notable.setdefault(fact["kind"], (set(), set()))
            lines.update(get_lines(fact))
            known.update(names)

    assert notable["pointer-chase"] == ({7}, set())
    assert notable["local-array"][1] == {"values"}
    assert {8, 10} <= notable["local-array"][0]
    assert notable["integer-division"] == ({11}, {"w"})
    assert "precise-division" not in notable  # once, after the loops
    assert notable["fp64"] == ({8}, {"0.1"})
    assert "spill" not in notable


@needs_nvcc
def test_sources_outside_of_their_folder_are_not_read(compiled, tmp_path):
    path, log = compiled
    (found,) = analyse(path, log, tmp_path)["kernels"]

    assert {place["text"] for fact in found["facts"] for place in fact["places"]} == {""}
