"""Lines of the source: the one that holds what a bottleneck counts, or the reason for none."""

import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.zoo.pairs import list_pairs
from machine_code import make_counters, make_function, unpack_report
from shipped_rules import program

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.cli import main
from kernelkb.decide.source_lines import find_lines
from kernelkb.errors import KbError
from kernelkb.profiles import machine_code, ncu_rep, reader_process
from kernelkb.profiles import report as reports
from kernelkb.render.text.answers import format_source_lines
from kernelkb.sass.function import Place
from kernelkb.sass.static_facts import measure_code

SOURCE = "\n".join(f"line {number};" for number in range(1, 40))
ZOO = Path(__file__).parents[2] / "kernels" / "zoo"
WITHOUT_LINES = (
    "only 70% of what is counted have a line; the compiler's code for divisions and roots has "
    "none, nor have libraries"
)


def make_evidence(count, *, producer=False, operations=(), without=(), of="what is counted"):
    return {
        "count": count, "producer": producer, "operations": list(operations),
        "without": list(without), "of": of,
    }  # fmt: skip


def tell(function, evidence, **raw):
    return find_lines(make_counters(function, SOURCE, **raw), [evidence])


def list_numbers(answer):
    return [line["at"]["line"] for line in answer["lines"]]


LOADS = make_function(
    (3, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
    (5, "LDG.E.128 R12, desc[UR4][R10.64]", "w1", ()),
    (7, "FADD R3, R4, R3", "", (0,)),
    (8, "FADD R3, R12, R3", "", (1,)),
)


def test_the_line_of_the_load_is_told_and_not_of_the_addition_that_waits():
    found = tell(
        LOADS, make_evidence("stall:long_scoreboard", producer=True),
        stall_long_scoreboard={2: 90, 3: 10}, samples={0: 5, 2: 95, 3: 10},
    )  # fmt: skip

    assert list_numbers(found) == [3, 5]
    assert [line["share"] for line in found["lines"]] == [0.9, 0.1]
    assert found["lines"][0]["waiting"]["line"] == 7
    assert found["lines"][0]["at"]["text"] == "line 3;"


def test_of_two_loads_that_one_product_waits_for_the_one_with_more_sectors_comes_first():
    function = make_function(
        (3, "LDG.E R4, desc[UR4][R8.64]", "w0", ()),
        (5, "LDG.E R5, desc[UR4][R10.64]", "w0", ()),
        (7, "FFMA R3, R4, R5, R3", "", (0,)),
    )
    found = tell(
        function, make_evidence("stall:long_scoreboard", producer=True),
        stall_long_scoreboard={2: 90}, memory_l2_theoretical_sectors_global={0: 4, 1: 32},
    )  # fmt: skip

    assert list_numbers(found) == [5, 3]


def test_excess_is_what_an_ideal_access_would_not_need():
    found = tell(
        LOADS, make_evidence("excess-sectors"),
        memory_l2_theoretical_sectors_global={0: 40, 1: 100},
        memory_l2_theoretical_sectors_global_ideal={0: 10, 1: 100},
    )  # fmt: skip

    assert list_numbers(found) == [3]


def test_lanes_that_take_no_part_are_idle():
    found = tell(
        LOADS, make_evidence("idle-lanes"),
        inst_executed={0: 10, 2: 10}, thread_inst_executed_true={0: 320, 2: 80},
    )  # fmt: skip

    assert list_numbers(found) == [7]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [({"operations": ["LDG"]}, [5, 3]), ({"operations": ["LDG"], "without": ["128"]}, [3]),
     ({"operations": ["LDG.E.128"]}, [5]), ({"operations": ["FADD"]}, [7, 8])],
)  # fmt: skip
def test_evidence_may_ask_for_some_operations_only(more, wanted):
    found = tell(
        LOADS, make_evidence("executed", **more), inst_executed={0: 10, 1: 11, 2: 10, 3: 10}
    )

    assert list_numbers(found) == wanted


def test_the_code_of_a_library_is_told_at_its_call():
    inside, call = Place("/usr/include/half.h", 200), Place("/k/a.cu", 9)
    function = make_function(((inside, call), "FADD R3, R4, R3", "", ()))
    found = tell(function, make_evidence("executed"), inst_executed={0: 10})

    assert list_numbers(found) == [9]
    assert found["lines"][0]["called_at"] is None


def test_a_function_of_the_kernel_is_told_with_its_call():
    function = make_function(
        ((Place("/k/a.cu", 2), Place("/k/a.cu", 9)), "FADD R3, R4, R3", "", ())
    )
    found = tell(function, make_evidence("executed"), inst_executed={0: 10})

    assert list_numbers(found) == [2]
    assert found["lines"][0]["called_at"]["line"] == 9


def test_of_code_that_cannot_be_read_lines_are_told_and_no_instructions():
    function = make_function((9, "", "", ()))
    samples = tell(function, make_evidence("executed"), inst_executed={0: 10})
    named = tell(function, make_evidence("executed", operations=["DFMA"]), inst_executed={0: 10})

    assert list_numbers(samples) == [9]
    assert not any(line.strip() == "" for line in format_source_lines(samples))
    assert not named["lines"]
    assert "cannot be told" in named["reason"]
    assert measure_code([function]) == {}


def test_a_line_with_less_than_a_tenth_is_not_told():
    function = make_function(*((line, "FADD R3, R4, R3", "", ()) for line in range(1, 13)))
    found = tell(function, make_evidence("executed"), inst_executed=dict.fromkeys(range(12), 10))

    assert found["lines"] == []
    assert found["reason"] == "no line holds a tenth of what is counted: they are spread over many"


def test_code_without_lines_is_said_to_be_so():
    function = make_function((None, "FADD R3, R4, R3", "", ()), (4, "FADD R3, R4, R3", "", ()))
    some = tell(function, make_evidence("executed"), inst_executed={0: 30, 1: 70})
    none = tell(function, make_evidence("executed"), inst_executed={0: 30})

    assert some["reason"] == WITHOUT_LINES
    assert none["reason"] == "the code was compiled without -lineinfo"


def test_samples_outside_of_the_kernel_count_as_without_a_line():
    found = tell(
        LOADS, make_evidence("samples", producer=True), stall_barrier={2: 70}, outside=30.0
    )

    assert found["reason"] == WITHOUT_LINES


def test_the_first_evidence_of_which_anything_was_counted_is_used():
    counters = make_counters(LOADS, inst_executed={0: 10})
    evidence = [make_evidence("excess-sectors"), make_evidence("executed", of="instructions")]
    found = find_lines(counters, evidence)

    assert found["lines"][0]["of"] == "instructions"


def test_nothing_counted_is_a_reason():
    assert "nothing of what is counted" in tell(LOADS, make_evidence("executed"))["reason"]
    assert "in the launch" in find_lines(make_counters(LOADS), [])["reason"]


@pytest.mark.parametrize(
    ("sets", "text", "words"),
    [("w0", "FADD R3, R4, R3", "line 7 waits for its result"),
     ("r0", "IADD3 R8, R8, 0x1, RZ", "line 7 waits until it has read its operands"),
     ("w0", "FADD R3, R2, R3", "line 7 may wait for it: they share a scoreboard")],
)  # fmt: skip
def test_what_is_waited_for_is_said_in_words(sets, text, words):
    function = make_function((3, "LDG.E R4, desc[UR4][R8.64]", sets, ()), (7, text, "", (0,)))
    found = tell(
        function, make_evidence("stall:long_scoreboard", producer=True),
        stall_long_scoreboard={1: 9},
    )  # fmt: skip

    assert any(words in line for line in format_source_lines(found))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return unpack_report(tmp_path_factory.mktemp("report"), "h100-sxm", "memory-latency-bound")


def test_a_recommendation_from_a_report_names_the_line(report, capsys):
    assert (
        main(["recommend", "--profile", str(report), "--kernel", "run_recurrence", "--json"]) == 0
    )
    answer = json.loads(capsys.readouterr().out)["kernels"][0]
    lines = answer["diagnoses"][0]["lines"]["lines"]

    assert lines[0]["at"]["file"].endswith(".cu")
    assert lines[0]["at"]["text"]
    assert main(["recommend", "--profile", str(report), "--kernel", "run_recurrence"]) == 0
    assert f":{lines[0]['at']['line']}, " in capsys.readouterr().out


def read_afresh(report):
    """Return what the first launch counted, read as by a process that has not read it before."""
    ncu_rep._load.cache_clear()
    return reports.load_source_counters(report, 0)


def test_without_a_disassembler_the_text_of_the_report_has_to_do(report, monkeypatch):
    whole = read_afresh(report)
    monkeypatch.setattr(ncu_rep, "find_disassembler", lambda: None)
    bare = read_afresh(report)
    evidence = program()["line_evidence"]["memory-latency-bound"]

    assert whole.has_control_bits
    assert not bare.has_control_bits
    assert bare.notes == (machine_code.explain_missing_disassembler(),)
    assert list_numbers(find_lines(bare, evidence))[:1] == list_numbers(
        find_lines(whole, evidence)
    )[:1]  # fmt: skip


def test_a_report_without_counts_by_instruction_says_how_to_record_them():
    bare = Path(__file__).parents[1] / "data" / "ncu" / "reports" / "four_launches.ncu-rep"
    answer = recommend_from_report(str(bare))["kernels"][0]

    assert any("--section SourceCounters" in note for note in answer["notes"])


def test_every_place_of_a_flaw_is_a_line_of_its_source():
    for kernel in list_pairs().values():
        place = kernel.pair.place
        if place is None:
            continue
        (folder,) = ZOO.glob(f"*/{kernel.id}")
        sources = {one.id: one.source for one in kernel.variants}
        lines = (folder / sources[kernel.pair.before]).read_text().splitlines()

        assert lines[place.line - 1].strip() == place.text, kernel.id
        assert all(lines[n - 1].strip() for n in (*place.also, *place.producers)), kernel.id


def test_every_bottleneck_with_lines_is_found_by_what_the_report_counts():
    rules = program()
    known = {row["id"] for row in rules["bottlenecks"]["cuda"]}

    assert rules["line_evidence"].keys() <= known
    assert len(rules["line_evidence"]) >= 30


def test_a_disassembler_that_fails_leaves_the_text_of_the_report(report, monkeypatch):
    monkeypatch.setattr(machine_code, "find_disassembler", lambda: "/bin/false")
    found = read_afresh(report)

    assert not found.has_control_bits
    assert "nvdisasm cannot read the code" in found.notes[0]


def test_addresses_of_a_damaged_report_do_not_run_on_for_hours(report, monkeypatch):
    read = reports._read_counters

    def damage(action):
        for name, values in read(action):
            yield name, {**values, max(values) + 2**50: 1.0}

    monkeypatch.setattr(reports, "_read_counters", damage)
    monkeypatch.setattr(ncu_rep, "find_disassembler", lambda: None)

    with pytest.raises(KbError, match="damaged"):
        read_afresh(report)


def flip_a_required_field(data):
    data[8] ^= 0x10  # in the header; the reader prints what it lacks


def flip_many_bytes(data):
    for at in range(int(0.3 * len(data)), len(data), 31):
        data[at] ^= 0xFF  # the reader aborts its process


@pytest.mark.parametrize("damage", [flip_a_required_field, flip_many_bytes])
def test_of_a_damaged_report_there_is_one_line_and_nothing_of_the_readers(
    report, tmp_path, damage, capfd
):
    damaged = tmp_path / "damaged.ncu-rep"
    data = bytearray(report.read_bytes())
    damage(data)
    damaged.write_bytes(bytes(data))

    assert main(["recommend", "--profile", str(damaged)]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_a_reader_that_does_not_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(reader_process, "_TIMEOUT_S", 0.5)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(KbError, match="takes over"):
        reader_process.read_in_process(Path.read_bytes, pipe)


@pytest.mark.parametrize(
    "share",
    [0.5, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.1, 0.3, 0.7, 0.9, 0.99))],
)
def test_a_report_that_was_cut_off_is_answered_for_what_is_left_of_it(report, tmp_path, share):
    """Its reader gives launches without a name for what is missing."""
    data = report.read_bytes()
    cut = tmp_path / "cut.ncu-rep"
    cut.write_bytes(data[: int(share * len(data))])
    kernels = []
    with suppress(KbError):
        kernels = recommend_from_report(str(cut))["kernels"]

    assert all(answer["kernel"] for answer in kernels)


def test_a_fix_says_what_to_change_on_the_line(tmp_path, capsys):
    found = unpack_report(tmp_path, "h100-sxm", "uncoalesced-global-access")
    main(["recommend", "--profile", str(found), "--kernel", "permute"])
    out = capsys.readouterr().out

    assert (
        "line 19: read x[image + channel * pixels + pixel] along its rows into a tile of shared "
        "memory" in out
    )


def test_without_a_report_no_fix_points_at_a_line(capsys):
    main(["recommend", "--metric", "sectors_per_load=32", "--json"])
    answer = json.loads(capsys.readouterr().out)["kernels"][0]
    fixes = [fix for diagnosis in answer["diagnoses"] for fix in diagnosis["fixes"]]

    assert fixes
    assert {fix["on_line"] for fix in fixes} == {None}


def move_code(function):
    """Return another build of a function: its instructions and lines an instruction later."""
    moved = [*function.instructions[-1:], *function.instructions[:-1]]
    renumbered = [
        one._replace(offset=own.offset)
        for one, own in zip(moved, function.instructions, strict=True)
    ]
    places = tuple(tuple(place._replace(line=place.line + 1000) for place in chain)
                   for chain in function.places)  # fmt: skip
    return replace(function, instructions=tuple(renumbered), places=places)


@pytest.mark.parametrize("with_own", [True, False])
def test_code_of_another_build_of_the_same_name_is_passed_over(report, monkeypatch, with_own):
    whole = read_afresh(report)
    disassemble = ncu_rep.disassemble

    def find_two(cubin, names):
        found = disassemble(cubin, names)
        return [*map(move_code, found), *(found if with_own else [])]

    monkeypatch.setattr(ncu_rep, "disassemble", find_two)
    found = read_afresh(report)

    assert found.has_control_bits == with_own
    assert found.notes == (() if with_own else ("the report holds no image of its code",))
    operations = [one.operation for one in found.function.instructions]
    assert operations == [one.operation for one in whole.function.instructions][: len(operations)]


def test_of_several_launches_without_lines_only_the_first_is_disassembled(tmp_path, monkeypatch):
    path = unpack_report(tmp_path, "h100-sxm", "small-grid")
    monkeypatch.setattr(reports, "_has_lines", lambda _action, _raw: False)
    first, second = reports._load_all(path, [0, 1], 1)

    assert first.function.instructions
    assert second == "the code was compiled without -lineinfo"
    assert not any(isinstance(one, str) for one in reports._load_all(path, [0, 1], None))


def test_a_launch_with_lines_is_read_wherever_it_stands(tmp_path):
    path = unpack_report(tmp_path, "h100-sxm", "small-grid")
    _, second = reports.read_source_counters(path, [0, 1], without_lines=1)

    assert second.function.instructions


def test_kernels_of_one_image_take_one_run_of_the_disassembler(tmp_path, monkeypatch):
    path = unpack_report(tmp_path, "h100-sxm", "small-grid")
    runs = []
    disassemble = ncu_rep.disassemble
    monkeypatch.setattr(ncu_rep, "_SMALL_BYTES", 0)
    monkeypatch.setattr(
        ncu_rep,
        "disassemble",
        lambda image, names: runs.append(sorted(names)) or disassemble(image, names),
    )
    images = ncu_rep.ReportImages(path)
    (image, *_) = images._read(b"")
    names = [one.name for one in machine_code.list_symbols(image)]
    images.start(names)
    found = [run.result() for name in names for run in images.find(name)]

    assert found
    assert len(runs) == len({tuple(names) for names in runs})
    assert [sorted(one.name for one in functions) for functions in found[:1]] == runs[:1]


def test_a_report_that_was_written_again_is_loaded_again(report, tmp_path):
    copy = tmp_path / "copy.ncu-rep"
    copy.write_bytes(report.read_bytes())
    first = ncu_rep.load_report(copy)

    assert ncu_rep.load_report(copy) is first
    os.utime(copy, ns=(0, 0))
    assert ncu_rep.load_report(copy) is not first


def test_one_process_answers_several_questions_and_outlives_an_error(report, monkeypatch):
    reader_class = reader_process.ReaderProcess
    monkeypatch.setattr(reader_class, "__exit__", lambda self, *_: self._end())  # not kept for more
    own = Path("/proc/self")
    with reader_process.ReaderProcess() as reader:
        first, second = (reader.call(os.readlink, own) for _ in range(2))
        with pytest.raises(KbError, match="no such launch"):
            reader.call(reports.load_source_counters, report, 1000)
        third = reader.call(os.readlink, own)
        with pytest.raises(KbError, match="ends the program"):
            reader.call(os.kill, int(third), signal.SIGKILL)
        fourth = reader.call(os.readlink, own)

    assert first == second == third != fourth
    assert not Path("/proc", fourth).exists()
