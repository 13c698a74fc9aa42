"""The ceiling of a mix, and the benchmark that compares it with kernels of known work."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import ceilings
from benchmarks.ceilings import (
    build_mix,
    find_rates,
    format_table,
    judge,
    read_lines,
    time_calls,
    time_written,
)
from benchmarks.library_calls import CALLS
from benchmarks.zoo import stop
from benchmarks.zoo.recordings import read_recordings
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import program

from kernelkb.decide.recommend import recommend
from kernelkb.device_math.roofline import (
    Mix,
    find_mix_ceiling,
    flatten_rates,
    interpolate_grid,
    list_own_rates,
    time_mix,
)
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.profiles.launch import ProfiledLaunch
from kernelkb.render.text.answers import format_finish

ROOT = Path(__file__).parents[2]
RATES = {
    "mix_gbps": [[0.0, 4000.0], [0.5, 3000.0], [1.0, 4000.0]],
    "l2_mix_gbps": [[0.0, 5000.0], [1.0, 9000.0]],
    "narrow_gbps": [[1.0, 1000.0], [4.0, 2500.0], [16.0, 3000.0]],
    "random_gbps": [
        [0.25, 4.0, 600.0],
        [0.25, 32.0, 4800.0],
        [4.0, 4.0, 100.0],
        [4.0, 32.0, 800.0],
    ],
    "atomic_rates": [[1, 0.5], [1024, 64.0]],
    "shared_atomic_rates": [[1, 100.0], [1024, 4000.0]],
    "fma_rate": 30000.0,
    "shared_gbps": 33000.0,
}


def one_part(**fields):
    (part,) = time_mix(RATES, Mix(**fields))
    return part


@pytest.mark.parametrize(
    ("fields", "resource", "us"),
    [
        ({"read_bytes": 4e6}, "memory", 1.0),
        ({"read_bytes": 3e6, "write_bytes": 3e6}, "memory", 2.0),
        ({"read_bytes": 7e6, "write_bytes": 7e6 / 3}, "memory", 7e6 * 4 / 3 / 3500 / 1e3),
        ({"l2_read_bytes": 9e6}, "l2", 1.0),
        ({"l2_read_bytes": 7e6, "l2_write_bytes": 7e6}, "l2", 2.0),
        ({"random_bytes": 6e5, "piece_bytes": 4.0, "buffer_ratio": 0.25}, "random", 1.0),
        ({"random_bytes": 8e5, "piece_bytes": 32.0, "buffer_ratio": 64.0}, "random", 1.0),
        ({"atomics": 500.0}, "atomics", 1.0),
        ({"atomics": 64000.0, "atomic_words": 1e6}, "atomics", 1.0),
        ({"shared_atomics": 4e6, "shared_atomic_words": 1024}, "shared atomics", 1.0),
        ({"work": (("fma", 3e7),)}, "pipe", 1.0),
        ({"work": (("shared", 3.3e7),)}, "pipe", 1.0),
    ],
)
def test_each_kind_of_work_has_its_own_ceiling(fields, resource, us):
    part = one_part(**fields)

    assert part.resource == resource
    assert part.us == pytest.approx(us)


def test_narrow_accesses_have_a_ceiling_of_their_own():
    copied = Mix(read_bytes=5e5, write_bytes=5e5, lane_bytes=1)

    assert find_mix_ceiling(RATES, copied).resource == "lanes"
    assert find_mix_ceiling(RATES, copied).us == pytest.approx(1.0)
    assert find_mix_ceiling(RATES, copied._replace(lane_bytes=16)).resource == "memory"


def test_random_reads_of_memory_and_streams_share_it():
    mix = Mix(write_bytes=4e6, random_bytes=8e5, piece_bytes=32.0, buffer_ratio=4.0)

    assert find_mix_ceiling(RATES, mix).us == pytest.approx(2.0)
    inside = mix._replace(buffer_ratio=0.25)
    assert find_mix_ceiling(RATES, inside).us == pytest.approx(1.0)


def test_what_was_not_measured_has_no_ceiling():
    (part,) = time_mix({}, Mix(l2_read_bytes=1.0))

    assert (part.us, part.rate) == (None, None)
    assert find_mix_ceiling({}, Mix(l2_read_bytes=1.0)) is None
    only_reads = {"l2_read_gbps": 8000.0}
    assert find_mix_ceiling(only_reads, Mix(l2_read_bytes=8e6)).us == pytest.approx(1.0)
    assert find_mix_ceiling(only_reads, Mix(l2_write_bytes=8e6)) is None
    assert (
        find_mix_ceiling({"gather_gbps": [[1, 10]]}, Mix(random_bytes=1, piece_bytes=512)) is None
    )


def test_older_measurements_serve_where_there_are_no_newer_ones():
    newer = ("random_gbps", "atomic_rates")
    rates = {name: rate for name, rate in find_rates(None, "h200").items() if name not in newer}
    gathered = find_mix_ceiling(rates, Mix(random_bytes=1.34e6, buffer_ratio=8.0))
    added = find_mix_ceiling(rates, Mix(atomics=569.6))

    assert gathered.us == pytest.approx(1.0)
    assert added.us == pytest.approx(1.0)


@given(st.floats(0.01, 100), st.floats(1, 4096))
def test_a_rate_of_pieces_lies_between_those_measured(size, piece):
    found = interpolate_grid(RATES["random_gbps"], size, piece)

    assert 99.9 <= found <= 4800.1


def test_rates_measured_here_pass_through_an_answer_unchanged():
    found = list_own_rates(flatten_rates({**RATES, "title": "a GPU", "special_rate": None}))

    assert found == {**RATES, "atomic_rates": [[1.0, 0.5], [1024.0, 64.0]],
                     "shared_atomic_rates": [[1.0, 100.0], [1024.0, 4000.0]]}  # fmt: skip


def answer_scattered(peaks, *, left_out=()):
    rows = read_recordings(ROOT / "kernels/zoo/measured/h200.jsonl")
    metrics = next(row for row in rows if row.kernel == "bilateral_7x7_wide_tile").after.metrics
    kept = {name: value for name, value in metrics.items() if name not in left_out}
    return recommend(program(), kept, device="h200", peaks=peaks and flatten_rates(peaks))


def test_a_kernel_at_the_ceiling_of_scattered_reads_is_told_so_and_not_to_stop():
    peaks = {**RATES, "random_gbps": [[0.125, 32.0, 3700.0]]}
    work = ("algorithmic_bytes", "algorithmic_flop_count")
    finish = answer_scattered(peaks, left_out=work)["finish"]
    lines = format_finish(finish)

    assert finish["ceiling"]["resource"] == "l2"
    assert finish["verdict"] in ("open", "change")
    assert "of L2's 3,700 (GB/s, a sector a lane; kb env --measure here)" in lines[0]
    assert max(map(len, lines)) <= 100


def test_far_from_the_floor_of_its_work_what_it_moves_in_l2_is_no_ceiling():
    assert answer_scattered(None)["finish"] is None


LINES = [
    {"peaks": {**RATES, "device": "h200"}, "device": "h200"},
    {"kernel": "reads", "us": 1.07, "at_ceiling": True, "mix": {"read_bytes": 4e6}},
    {"kernel": "slow", "us": 1.2, "at_ceiling": True, "mix": {"read_bytes": 4e6}},
    {"kernel": "unknown", "us": 9.0, "at_ceiling": False, "mix": {"work": [["special", 5.0]]}},
    {"kernel": "broken", "error": "out of memory"},
]


def test_the_table_counts_those_known_to_be_at_their_ceiling():
    lines = list(format_table(LINES))

    assert lines[-1] == "1 of 2 known to be at their ceiling are within 8%"
    assert any(line.startswith("unknown") and "not measured: pipe" in line for line in lines)
    assert any(line.startswith("broken") and "out of memory" in line for line in lines)


def test_a_file_that_ended_early_has_a_table(tmp_path):
    file = tmp_path / "ceilings.jsonl"
    file.write_text("\n".join(map(json.dumps, LINES))[:-9])

    assert "1 of 2" in list(format_table(read_lines(file)))[-1]


def test_a_call_that_ends_its_process_costs_no_other(tmp_path, monkeypatch):
    child = tmp_path / "child"
    child.write_text(
        "#!/bin/sh\nshift 3\n"
        'for name; do echo "{\\"begins\\": \\"$name\\"}"; [ "$name" = bad ] && exit 3; '
        'echo "{\\"kernel\\": \\"$name\\", \\"us\\": 1}"; done\n'
    )
    child.chmod(0o755)
    monkeypatch.setattr(ceilings.sys, "executable", str(child))
    found = list(time_calls(["one", "bad", "two"], ceilings.time.monotonic() + 60, tiny=False))

    assert [line["kernel"] for line in found] == ["one", "bad", "two"]
    assert found[1]["error"] == "its process ended with 3"


def test_a_child_that_cannot_run_is_started_once(monkeypatch):
    monkeypatch.setattr(ceilings.sys, "executable", "false")
    found = list(time_calls(["one", "two"], ceilings.time.monotonic() + 60, tiny=False))

    assert [line["error"] for line in found] == ["its process ended with 1"] * 2


def test_kernels_without_time_left_are_named():
    found = list(time_calls(["add fp32"], 0.0, tiny=True))

    assert found == [{"kernel": "add fp32", "error": "not run: no time is left"}]


def test_a_dry_run_goes_through_every_call():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ceilings", "--dry-run"],
        capture_output=True, text=True, check=True, env=dict(os.environ), cwd=ROOT,
    )  # fmt: skip

    names = [name for name in CALLS if f"\n{name} " in done.stdout]
    failed = [line for line in done.stdout.splitlines() if "Error:" in line]
    assert names == list(CALLS)
    assert all(line.startswith(("matmul fp8", "matmul int8", "matmul tf32")) for line in failed)


@pytest.mark.slow
@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
def test_nvcc_compiles_the_kernels_of_known_mix_without_a_warning(tmp_path):
    command = [find_nvcc(), "-O3", "-std=c++17", "-arch=sm_90", "-Werror", "all-warnings"]
    subprocess.run([*command, "-o", str(tmp_path / "run"), str(ceilings.SOURCE)], check=True)
    listed = subprocess.run([str(tmp_path / "run"), "list"], capture_output=True, text=True)
    names = listed.stdout.splitlines()

    assert len(set(names)) == len(names) >= 30
    assert len(names) + len(CALLS) >= 40
    assert set(ceilings.PROFILED) <= set(CALLS)
    assert len(set(ceilings.PROFILED)) == 30


def test_a_compiler_that_fails_is_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "find_nvcc", lambda: "false")
    compiler = ceilings.start_compiler(tmp_path)
    (line,) = time_written(compiler, tmp_path, ceilings.time.monotonic() + 60)

    assert line["kernel"] == "ceilings.cu"
    assert "error" in line


def test_a_line_of_the_program_is_a_mix():
    text = '{"read_bytes": 1.5, "lane_bytes": 4, "work": [["fma", 3]]}'
    mix = build_mix(json.loads(text))

    assert mix == Mix(read_bytes=1.5, lane_bytes=4, work=(("fma", 3.0),))
    assert judge(RATES, {"kernel": "a", "us": 1, "at_ceiling": True, "mix": {}}).ceiling_us is None


def test_profiles_of_libraries_are_scored_by_call(tmp_path, monkeypatch):
    rows = {row.kernel: row for row in read_recordings(ROOT / "kernels/zoo/measured/h200.jsonl")}
    metrics = rows["add_rmsnorm_two_sweeps"].after.metrics
    plain = {name: value for name, value in metrics.items() if name != "algorithmic_bytes"}
    short = {**plain, "profiled_us": 2.0}
    launches = [
        ProfiledLaunch(name, values, device="NVIDIA H200")
        for name, values in (
            ("spin_kernel(long)", short),
            ("norm", plain),
            ("clear", short),
            ("spin_kernel(long)", short),
            ("norm", plain),
        )
    ]
    monkeypatch.setattr(stop, "read_report", lambda *_: launches)
    (tmp_path / "one.ncu-rep").touch()
    half = metrics["algorithmic_bytes"] / 2
    mixes = [{"read_bytes": half, "write_bytes": half}, {"read_bytes": half / 8}]
    calls = [
        {"kernel": f"norm {i}", "mix": mix, "report": "one.ncu-rep"} for i, mix in enumerate(mixes)
    ]
    (tmp_path / "calls.jsonl").write_text("\n".join(map(json.dumps, calls)))
    rows = stop.read_library_calls(tmp_path)
    found = list(stop.list_library_launches(program(), rows, with_cost=True))

    assert [(one.is_due, one.is_stopped) for one in found] == [(True, True), (False, False)]
    assert "2 calls of libraries, 1 at the ceiling" in "\n".join(
        stop.format_library_lines(tmp_path)
    )
