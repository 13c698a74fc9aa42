"""What a profile counts by instruction is kept in a report, and answers name lines from it."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from machine_code import unpack_report
from measurements import make_subject

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.actions.advice.recommend_run import recommend_from_run
from kernelkb.actions.project.profile_reports import find_report, name_report_by_record
from kernelkb.cli import main
from kernelkb.measure.profile import ncu
from kernelkb.measure.profile.ncu import collect_counters
from kernelkb.model.records.measurement import Profile
from kernelkb.profiles.launch import RawName
from kernelkb.record.measurements.rows import create_measurement
from kernelkb.record.measurements.store import open_store

PAGE = Path(__file__).parents[1] / "data" / "ncu" / "row_softmax_naive.csv"
DEVICE = "NVIDIA H100 80GB HBM3"
UNCOALESCED = {
    "sector_load_useful_bytes": 4.0, "sectors_per_load": 32.0, "profiled_us": 900.0,
    "l1tex_utilization": 0.9,
}  # fmt: skip
STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > "{arguments}"
while [ $# -gt 0 ]; do
  case $1 in
    --log-file) cp "{page}" "$2" ;;
    --export) echo report > "$2" ;;
  esac
  shift
done
"""
JOB = {"mode": "known-traffic", "bytes": 1}
TIME = RawName("profiled_us", ("gpu__time_duration.sum",), 1e-3)


def make_profile(**fields):
    return Profile(
        kernel="k", variant="v", target="cuda", workload="w", tool="ncu", metrics={}, seconds=1,
        **fields,
    )  # fmt: skip


@pytest.fixture
def ncu_arguments(tmp_path, monkeypatch):
    """A stand-in for ncu that writes a recorded page; returns the file of its arguments."""
    arguments, tool = tmp_path / "arguments", tmp_path / "ncu"
    tool.write_text(STAND_IN.format(arguments=arguments, page=PAGE))
    tool.chmod(0o755)
    monkeypatch.setattr(ncu, "find_cuda_tool", lambda _name: str(tool))
    return arguments


def test_counting_by_instruction_writes_a_report_beside_the_page(tmp_path, ncu_arguments):
    file = tmp_path / "new.ncu-rep"
    found = collect_counters(JOB, ["softmax"], [TIME], timeout_s=30, report_file=file)
    arguments = ncu_arguments.read_text().splitlines()

    assert found.launch.metrics["profiled_us"] > 0
    assert file.is_file()
    assert arguments[arguments.index("--section") + 1] == "SourceCounters"
    assert arguments[arguments.index("--import-source") + 1] == "yes"


def test_nothing_is_counted_by_instruction_unless_asked(ncu_arguments):
    collect_counters(JOB, ["softmax"], [TIME], timeout_s=30)

    assert not {"--export", "--section"} & {*ncu_arguments.read_text().splitlines()}


def test_a_report_is_named_after_its_record(tmp_path):
    file = tmp_path / ".kb" / "profiles" / "softmax-1.ncu-rep"
    file.parent.mkdir(parents=True)
    file.write_text("report")
    named = name_report_by_record(make_profile(report=str(file), measurement="ab" * 32))

    assert find_report(tmp_path, "ab" * 32) == Path(named.report)
    assert find_report(tmp_path, "cd" * 32) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"report": "x.ncu-rep"},
        {"measurement": "ab" * 32},
        {"report": "absent/x.ncu-rep", "measurement": "ab" * 32},
    ],
)
def test_a_profile_without_a_record_or_report_stays_as_it_is(fields):
    assert name_report_by_record(make_profile(**fields)) == make_profile(**fields)


@pytest.fixture
def record_profile(project, tmp_path):
    """The id of a recorded profile of a GPU kernel, and where its report belongs."""
    subject = make_subject(device=DEVICE, target="cuda")
    measurement = create_measurement(
        "profile", datetime.now(UTC), subject, status="ncu", metrics=UNCOALESCED, seconds=1.0
    )
    with open_store(project) as store:
        store.add([measurement])
    reports = project / ".kb" / "profiles"
    reports.mkdir(parents=True, exist_ok=True)
    return measurement.id, reports / f"{measurement.id[:12]}.ncu-rep"


def test_an_answer_for_a_record_names_lines_from_its_report(record_profile, tmp_path, capsys):
    run, file = record_profile
    shutil.copy(unpack_report(tmp_path, "h100-sxm", "uncoalesced-global-access"), file)
    main(["recommend", "--run", run])
    shown = capsys.readouterr().out
    (answer,) = recommend_from_run(run)["kernels"]
    best = answer["diagnoses"][0]

    assert best["bottleneck"] == "uncoalesced-global-access"
    place = best["lines"]["lines"][0]["at"]
    assert f"{Path(place['file']).name}:{place['line']}" in shown
    assert "which source line" not in json.dumps(answer["conclusions"])


def test_a_damaged_report_of_a_record_is_a_note_and_the_answer_stays(record_profile):
    run, file = record_profile
    file.write_bytes(b"NVR\0 damaged")
    (answer,) = recommend_from_run(run)["kernels"]

    assert answer["diagnoses"][0]["bottleneck"] == "uncoalesced-global-access"
    assert any(note.startswith("no lines: ") for note in answer["notes"])


def test_without_a_report_lines_are_what_the_answer_cannot_say(record_profile):
    run, _ = record_profile
    (answer,) = recommend_from_run(run)["kernels"]

    assert answer["diagnoses"][0]["lines"] is None
    assert "which source line" in json.dumps(answer["conclusions"])


def test_a_report_with_lines_needs_no_counters_by_line(tmp_path):
    path = unpack_report(tmp_path, "h100-sxm", "uncoalesced-global-access")
    answers = recommend_from_report(str(path))["kernels"]
    told = [a for a in answers if any(d["lines"] and d["lines"]["lines"] for d in a["diagnoses"])]

    assert told
    assert not any("which source line" in json.dumps(a["conclusions"]) for a in told)
