"""``kb compare`` of two reports, as a shell calls it."""

import json
from pathlib import Path

import pytest
from machine_code import unpack_report

from kernelkb.cli import main

TABLES = Path(__file__).parents[1] / "data" / "ncu"
NAIVE, WARP = (str(TABLES / f"row_softmax_{name}.csv") for name in ("naive", "warp"))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return unpack_report(tmp_path_factory.mktemp("report"), "h100-sxm", "barrier-stall")


def test_two_launches_of_a_report_are_compared_line_by_line(report, capsys):
    assert main(["compare", f"{report}#0", f"{report}#1"]) == 0
    text = capsys.readouterr().out

    assert "diffuse_rows: 602.21 us -> 454.21 us, 1.33x as fast" in text
    assert "gone before.cu:26" in text
    assert "Falsifier of barrier-stall: held, and the time fell, so the diagnosis was right" in text
    assert "Now binds l1tex-bandwidth-bound, confidence 1.00, predicted 1.0" in text


def test_tables_are_compared_as_json(capsys):
    assert main(["compare", NAIVE, WARP, "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]

    assert kernel["ratio"] > 30
    assert kernel["samples"] is None


def test_a_slower_kernel_is_no_failure(capsys):
    assert main(["compare", WARP, NAIVE]) == 0
    assert "0.0309x as fast" in capsys.readouterr().out


def test_a_pattern_without_a_kernel_names_those_that_there_are(capsys):
    assert main(["compare", NAIVE, WARP, "--kernel", "gemm"]) == 2
    assert "it holds softmax_thread_per_row" in capsys.readouterr().err


def test_reports_have_no_workload(capsys):
    assert main(["compare", NAIVE, WARP, "--workload", "medium"]) == 2
    assert "of reports, use --kernel" in capsys.readouterr().err


def test_a_missing_report_is_no_measurement(capsys):
    assert main(["compare", NAIVE, "missing.ncu-rep"]) == 2
    assert "no file missing.ncu-rep" in capsys.readouterr().err
