"""Typed parts of the worker's results: what the engine reads from fields, never from sentences."""

import json

import pytest
from stand_in_judge import answer

from kernelkb.errors import EnvironmentGapError
from kernelkb.measure.check.check import find_cure, get_judge_result
from kernelkb.measure.process.subprocesses import ProcessResult
from kernelkb.measure.process.worker_jobs import JobRun
from kernelkb.measure.worker.shared.failures import RunnerDied, UnsupportedHost, describe_exit
from kernelkb.measure.worker.shared.messages.jobs import (
    Batch,
    BenchTimes,
    CaseResult,
    CheckReport,
    restore_batches,
)

EXIT_CURE = "a kernel must return to its caller; look for exit and abort"


@pytest.mark.parametrize(
    ("returncode", "log", "exit_status"),
    [(3, "", 3), (0, "some output", 0), (-11, "", None), (1, "Traceback\nValueError: x", None)],
)
def test_only_an_exit_without_an_exception_has_an_exit_status(returncode, log, exit_status):
    assert describe_exit(returncode, log, None).exit_status == exit_status


@pytest.mark.parametrize(("exit_status", "is_exit_cure"), [(0, True), (3, True), (None, False)])
def test_the_cure_of_an_exit_follows_from_its_status_not_from_the_text(exit_status, is_exit_cure):
    detail = "it ended the process with status 3"
    failure = RunnerDied("crashed", detail, "candidate", exit_status).to_message()

    assert (find_cure(failure) == EXIT_CURE) == is_exit_cure


def test_a_host_gap_keeps_its_semicolons():
    gap = "cuIpcGetMemHandle failed: not supported; see the driver's log"
    result = {"unsupported_host": UnsupportedHost(gap, "measure on Linux itself").to_message()}
    run = JobRun(json.loads(json.dumps(result)), ProcessResult(0, False, 1.0, ""), "")

    with pytest.raises(EnvironmentGapError) as caught:
        get_judge_result(None, run)

    assert (caught.value.gap, caught.value.cure) == (gap, "measure on Linux itself")


@pytest.mark.slow
def test_batches_survive_the_way_through_json():
    times = {
        "candidate_batches": [Batch(2e6, 1.9e6, 4, 0.0, 0.5, 1.0, 2.0, 3.0)],
        "rival_batches": [Batch(3e6, 2.9e6, 4, 0.5, 1.0)],
        "single_call_batches": [],
        "rival_single_call_batches": [Batch(1e6, 0.9e6, 1, 1.0, 1.5)],
    }
    decoded = json.loads(json.dumps(times))
    restore_batches(decoded)

    assert decoded == times
    assert decoded["candidate_batches"][0].idle_read_ns == 3.0


def test_a_stand_in_judge_answers_with_the_fields_of_the_real_one():
    report = answer({"mode": "check", "cases": [{"name": "small"}]})["report"]
    times = answer({"mode": "bench", "runners": {"candidate": {}, "torch": {}}})["times"]

    assert report.keys() == CheckReport.__annotations__.keys()
    assert report["cases"][0].keys() == CaseResult.__annotations__.keys()
    assert times.keys() == BenchTimes.__annotations__.keys() - {"precision"}  # not of every bench
    assert Batch(*times["candidate_batches"][0]).calls > 1
