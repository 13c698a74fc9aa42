"""Recordings of pairs: their file, their reports, and the program that lists and records them."""

import json
import lzma
import shutil
from pathlib import Path

import pytest
from benchmarks.zoo.__main__ import main
from benchmarks.zoo.pairs import list_pairs
from benchmarks.zoo.record import list_wanted, name_report
from benchmarks.zoo.record import make_recording as record_bench
from benchmarks.zoo.recordings import (
    PairRecording,
    VariantRecording,
    format_recording,
    read_recordings,
    write_recordings,
)
from benchmarks.zoo.reports import blank_foreign_sources, extract_metrics
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.errors import BadValueError, KnowledgeError, UnknownNameError
from kernelkb.loading.kernels import find_kernel_folders, find_zoo_folders, load_kernel
from kernelkb.model.records.measurement import Bench
from kernelkb.profiles.launch import list_raw_names, split_instance
from kernelkb.profiles.report import read_report
from kernelkb.safety.paths import shipped_folder

PAIR = "histogram_few_bins"
REPORTS = sorted((Path(__file__).parents[1] / "data" / "zoo").glob("*/*.xz"))


def make_variant(name="before", kernel_us=12.5, **metrics):
    return VariantRecording(variant=name, kernel_us=kernel_us, metrics=metrics)


def make_recording(kernel="a_pair", **fields):
    return PairRecording(
        **{
            "kernel": kernel,
            "device": "h100-sxm",
            "driver": "580.1",
            "workload": "main",
            "speedup": 2.5,
            "interval": (2.4, 2.6),
            "before": make_variant("before", 12.5, occupancy=0.5),
            "after": make_variant("after", 5.0, occupancy=0.75),
            **fields,
        }
    )


def write_lines(folder, *rows):
    file = folder / "h100-sxm.jsonl"
    file.write_text("".join(map(format_recording, rows)))
    return file


NUMBER = st.floats(0, 1e15, allow_subnormal=False).map(lambda value: float(f"{value:.7g}"))
METRICS = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True), NUMBER)
VARIANTS = st.builds(
    VariantRecording,
    variant=st.sampled_from(["before", "after"]),
    kernel_us=st.floats(0.001, 1e9),
    metrics=METRICS,
)
RECORDINGS = st.builds(
    make_recording,
    st.sampled_from(["a_pair", "b_pair"]),
    speedup=st.floats(0.001, 1000),
    interval=st.none() | st.tuples(st.floats(0, 10), st.floats(0, 10)),
    timed_by=st.sampled_from(["bench", "profiler"]),
    before=VARIANTS,
    after=VARIANTS,
    report=st.sampled_from(["", "small-grid.ncu-rep.xz"]),
    launch=st.integers(0, 40),
)


@pytest.mark.slow
@given(st.lists(RECORDINGS, max_size=4))
def test_reading_is_the_inverse_of_writing(tmp_path_factory, rows):
    file = write_lines(tmp_path_factory.mktemp("zoo"), *rows)

    assert read_recordings(file) == rows


def test_metrics_are_written_in_alphabetical_order_with_seven_digits():
    row = make_recording(before=make_variant(waves=1 / 3, occupancy=123456789.0))
    metrics = json.loads(format_recording(row))["before"]["metrics"]

    assert list(metrics.items()) == [("occupancy", 123456800.0), ("waves", 0.3333333)]


def test_a_recording_is_one_line():
    assert format_recording(make_recording()).count("\n") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"kernel": "a_pair"', "Invalid JSON"),
        ('{"kernel": "a_pair"}', "Field required"),
        ("", "Invalid JSON"),
    ],
)
def test_a_wrong_line_names_its_line(tmp_path, text, says):
    good = format_recording(make_recording())
    file = tmp_path / "h100-sxm.jsonl"
    file.write_text(f"{good}{text}\n{good}")
    with pytest.raises(KnowledgeError) as caught:
        read_recordings(file)
    (problem,) = caught.value.problems

    assert (problem.path, problem.line) == (str(file), 2)
    assert says in problem.message


def test_every_wrong_line_is_named(tmp_path):
    file = tmp_path / "h100-sxm.jsonl"
    file.write_text(f"[]\n{format_recording(make_recording())}[]\n")
    with pytest.raises(KnowledgeError) as caught:
        read_recordings(file)

    assert [problem.line for problem in caught.value.problems] == [1, 3]


@pytest.mark.parametrize("wrong", [{"speedup": 0.0}, {"device": "H100"}, {"timed_by": "clock"}])
def test_a_recording_that_cannot_be_is_refused(tmp_path, wrong):
    fields = json.loads(format_recording(make_recording()))
    file = tmp_path / "h100-sxm.jsonl"
    file.write_text(json.dumps({**fields, **wrong}) + "\n")

    with pytest.raises(KnowledgeError):
        read_recordings(file)


def test_a_new_recording_stands_in_place_of_the_old_one_of_its_pair(tmp_path):
    file = tmp_path / "measured" / "h100-sxm.jsonl"
    write_recordings(file, [make_recording("b_pair"), make_recording("a_pair")])
    write_recordings(file, [make_recording("b_pair", speedup=7.0)])

    assert [(row.kernel, row.speedup) for row in read_recordings(file)] == [
        ("a_pair", 2.5),
        ("b_pair", 7.0),
    ]


def test_without_recordings_there_is_nothing_to_extract(tmp_path):
    with pytest.raises(BadValueError, match=r"python -m benchmarks\.zoo record writes them"):
        extract_metrics(tmp_path, tmp_path)


HEADERS = [
    "/usr/local/cuda/targets/x86_64-linux/include/cuda_fp16.hpp",
    "/usr/local/cuda/include/crt/mma.h",
    "/usr/local/cuda-13.0/include/cub/block.cuh",
    "/usr/include/c++/13/cmath",
]


def encode_length(number):
    """A number as a protocol buffer has it: seven bits a byte, lowest first."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + encode_length(rest) if rest else bytes([low])


def encode_file(path, text):
    """A source file in a report: the fields of its path and its text."""
    fields = ((1, path.encode()), (2, text.encode()))
    return b"".join(
        bytes([number << 3 | 2]) + encode_length(len(data)) + data for number, data in fields
    )


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("repeat", [1, 50, 5000])
def test_the_text_of_a_header_becomes_blank(header, repeat):
    text = "// licence\nint secret();\n" * repeat
    blank = f"{' ' * 10}\n{' ' * 13}\n" * repeat

    assert blank_foreign_sources(encode_file(header, text)) == encode_file(header, blank)


def test_the_text_of_a_kernel_stays():
    report = encode_file(
        "/home/user/project/kernels/zoo/small-grid/a_pair/before.cu", '#include "a.h"\nint x;\n'
    )

    assert blank_foreign_sources(report) == report


def test_what_stands_around_a_header_stays():
    own = encode_file("/home/user/project/before.cu", "int own;\n")
    report = own + encode_file(HEADERS[0], "a\nb\n") + own + encode_file(HEADERS[1], "c\n") + own
    blanked = blank_foreign_sources(report)

    assert blanked.count(own) == 3
    assert b"a\nb" not in blanked


@given(st.text("ab \n\tü", max_size=300), st.sampled_from(HEADERS))
def test_blanking_keeps_the_length_and_the_lines(text, header):
    report = encode_file("/home/user/project/before.cu", text) + encode_file(header, text) + b"tail"
    blanked = blank_foreign_sources(report)

    assert len(blanked) == len(report)
    assert [at for at, byte in enumerate(blanked) if byte == 10] == [
        at for at, byte in enumerate(report) if byte == 10
    ]
    assert blank_foreign_sources(blanked) == blanked


@given(st.binary(max_size=300))
def test_bytes_without_a_header_stay(report):
    assert blank_foreign_sources(report) == report


@pytest.mark.parametrize("packed", REPORTS, ids=lambda file: file.name.partition(".")[0])
def test_no_report_holds_the_text_of_a_header(packed):
    report = lzma.decompress(packed.read_bytes())

    assert b"Copyright" not in report
    assert blank_foreign_sources(report) == report


def test_instructions_are_counted_by_opcode(tmp_path):
    """Each of 64 images of 2048 boxes takes two divisions for each pair of boxes, one for each."""
    (packed,) = (file for file in REPORTS if file.name.startswith("box_voting_overlaps."))
    report = tmp_path / "boxes.ncu-rep"
    report.write_bytes(lzma.decompress(packed.read_bytes()))
    before, after = (
        launch.metrics for launch in read_report(report, list_raw_names(load_compiled_rules()))
    )

    assert before["float_division_count"] == 64 * (2 * 2048 * 2048 + 2048) / 32
    assert after["float_division_count"] == 64 * 2048 / 32
    assert before["call_instruction_count"] > before["absolute_value_count"] == 0


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("sm__cycles_active.avg", ("sm__cycles_active.avg", "")),
        ("opcodes[F2I]", ("opcodes", "F2I")),
    ],
)
def test_a_raw_name_may_name_an_instance(name, parts):
    assert split_instance(name) == parts


def test_a_pair_is_found_by_its_name_and_is_none_of_the_kernels(project):
    assert load_kernel(PAIR).kernel.pair.fix == "block-privatize"
    assert PAIR in find_zoo_folders()
    assert PAIR not in find_kernel_folders()


def test_a_pair_of_the_project_hides_the_shipped_one(project):
    own = project / "kernels" / "zoo" / "ours" / PAIR
    shutil.copytree(find_zoo_folders()[PAIR], own)

    assert find_zoo_folders()[PAIR] == own
    assert list(list_pairs()).count(PAIR) == 1


def test_the_zoo_lists_every_pair_with_its_fix(project, capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert len(lines) == len(
        list((Path(shipped_folder("kernels")) / "zoo").glob("*/*/kernel.yaml"))
    )
    assert f"{PAIR}: flaw, block-privatize" in lines


def test_the_zoo_lists_the_whole_pairs_as_json(project, capsys):
    assert main(["list", "--json"]) == 0
    kernels = {kernel["id"]: kernel for kernel in json.loads(capsys.readouterr().out)}

    assert kernels[PAIR]["pair"]["bottlenecks"] == ["atomic-contention"]


@pytest.mark.parametrize("verb", ["list", "extract"])
def test_only_recording_takes_names(project, capsys, verb):
    with pytest.raises(SystemExit, match="2"):
        main([verb, PAIR])

    assert f"unrecognized arguments: {PAIR}" in capsys.readouterr().err


def test_an_unknown_pair_is_offered_the_near_one(project, capsys):
    assert main(["record", "histogram_few_bin"]) == 2
    assert f"did you mean '{PAIR}'?" in capsys.readouterr().err


def test_extracting_without_recordings_says_what_writes_them(project, capsys):
    assert main(["extract"]) == 2
    assert "python -m benchmarks.zoo record writes them" in capsys.readouterr().err


RECORDED = {
    "timed": make_recording("timed"),
    "profiled": make_recording("profiled", timed_by="profiler", report="family.ncu-rep.xz"),
    "whole": make_recording("whole", report="family.ncu-rep.xz"),
}


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [("time", {"profiled", "new"}), ("profile", {"timed", "new"})],
)
def test_missing_leaves_out_what_was_recorded(stage, wanted):
    pair = load_kernel(PAIR).kernel.pair
    pairs = dict.fromkeys([*RECORDED, "new"], pair)

    assert list_wanted(pairs, stage, RECORDED, missing=True) == wanted
    assert list_wanted(pairs, stage, RECORDED, missing=False) == set(pairs)


def test_a_form_of_several_launches_is_not_profiled():
    pairs = {"steps": load_kernel("relaxation_forty_launches").kernel.pair}

    assert list_wanted(pairs, "profile", {}, missing=False) == set()
    assert list_wanted(pairs, "time", {}, missing=False) == {"steps"}


def test_a_part_of_a_family_leaves_the_report_of_the_family():
    every = {"a": "spills", "b": "spills", "c": "tail"}

    assert name_report("spills", ["b", "a"], every) == "spills"
    assert name_report("spills", ["b"], every) == "b"
    assert name_report("tail", ["c"], every) == "tail"


def make_bench(**fields):
    return Bench(
        **{
            "kernel": PAIR,
            "variant": "before",
            "target": "cuda",
            "workload": "main",
            "verdict": "slower",
            "candidate_us": 12.0,
            "baseline_us": 3.0,
            "speedup": 0.25,
            "interval": (0.2, 0.4),
            "metrics": {"call_us": 15.0, "algorithmic_bytes": 64.0, "speedup": 0.25},
            "seconds": 1.0,
            **fields,
        }
    )


COMPILED = {"before": {"register_count": 40.0}, "after": {"register_count": 32.0}}


def test_a_bench_of_the_old_form_against_the_new_one_gives_the_gain_of_the_change():
    row = record_bench(load_kernel(PAIR).kernel.pair, make_bench(), COMPILED, None, "h100-sxm")

    assert (row.speedup, row.interval) == (4.0, (2.5, 5.0))
    assert (row.before.kernel_us, row.after.kernel_us) == (12.0, 3.0)
    assert row.before.metrics == {
        "kernel_us": 12.0,
        "call_us": 15.0,
        "algorithmic_bytes": 64.0,
        "register_count": 40.0,
    }
    assert row.after.metrics == {
        "kernel_us": 3.0,
        "algorithmic_bytes": 64.0,
        "register_count": 32.0,
    }
    assert row.timed_by == "bench"


def test_a_form_of_several_launches_is_recorded_with_their_number():
    pair = load_kernel("relaxation_forty_launches").kernel.pair
    row = record_bench(pair, make_bench(), COMPILED, None, "h100-sxm")

    assert row.before.metrics["call_launch_count"] == 40
    assert "call_launch_count" not in row.after.metrics


def test_a_new_bench_keeps_the_profile():
    old = make_recording(PAIR, timed_by="profiler", report="spills.ncu-rep.xz", launch=4)
    pair = load_kernel(PAIR).kernel.pair
    row = record_bench(pair, make_bench(), COMPILED, old, "h100-sxm")

    assert (row.report, row.launch, row.timed_by) == ("spills.ncu-rep.xz", 4, "bench")
    assert row.before.metrics["occupancy"] == 0.5
    assert row.before.metrics["kernel_us"] == 12.0


def test_a_bench_without_an_interval_is_no_recording():
    wrong = make_bench(verdict="incorrect", interval=None, speedup=None)

    assert record_bench(load_kernel(PAIR).kernel.pair, wrong, COMPILED, None, "l4") is None


def test_an_unknown_pair_is_no_kernel(project):
    with pytest.raises(UnknownNameError, match=f"did you mean '{PAIR}'"):
        load_kernel("histogram_few_bin")
