"""kb session metrics, compare and trend: how sessions went."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from kernelkb.cli import main
from kernelkb.model.records.session import SessionEntry, Step
from kernelkb.record.sessions import append_entry

DAY = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
ADVICE = "small-grid (confidence 1.00) -> parallelize-outer-dim, predicted 1.39x [1.27, 1.54]"


def make_bench_step(variant, speedup, low, high):
    return Step(
        name="bench",
        variant=variant,
        status="ok",
        found="",
        seconds=30,
        verdict="slower",
        speedup=speedup,
        interval=(low, high),
        baseline="torch",
        workload="large",
    )


def make_step(name, found=""):
    return Step(name=name, variant="naive", status="ok", found=found, seconds=30)


@pytest.fixture
def project_with_sessions(project):
    """Two sessions with one kernel and one with another, a day apart."""
    for day, (kernel, speedup) in enumerate([("gemm", 0.5), ("gemm", 1.0), ("softmax", 0.1)]):
        opening = [
            make_step("build"),
            make_step("check"),
            make_step("recommend", ADVICE),
        ]
        last = make_bench_step("naive", speedup, speedup * 0.9, speedup * 1.1)
        entry = SessionEntry(
            session=f"2026-11-2{1 + day}-{kernel}",
            at=DAY + timedelta(days=day),
            goal=f"faster {kernel}",
            kernel=kernel,
            target="cpu",
            machine="M",
            steps=(*opening, last),
            cost_usd=0.5 if day else None,
        )
        append_entry(entry, project / "sessions")
    return project


def test_metrics_of_the_last_session(project_with_sessions, capsys):
    assert main(["session", "metrics"]) == 0

    out = capsys.readouterr().out
    assert out.startswith("2026-11-23-softmax  faster softmax\n")
    assert "working build  after 1.0 min" in out
    assert "small-grid, after 1.5 min" in out
    assert "0.1x [0.09, 0.11] of torch, softmax naive, large, on M" in out


def test_unknown_session_metrics_are_null_in_json(project_with_sessions, capsys):
    main(["session", "metrics", "2026-11-21-gemm", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (found["minutes"], found["cost_usd"]) == (2.0, None)
    assert (found["changes"], found["wrong_changes"]) == (0, 0)


def test_two_sessions_of_one_kernel_have_a_ratio(project_with_sessions, capsys):
    assert main(["session", "compare", "2026-11-21-gemm", "2026-11-22-gemm"]) == 0

    assert "speedups: 2x [1.64, 2.44], the second is faster" in capsys.readouterr().out


def test_sessions_of_two_kernels_have_no_ratio_but_a_reason(project_with_sessions, capsys):
    main(["session", "compare", "2026-11-21-gemm", "2026-11-23-softmax"])

    out = capsys.readouterr().out
    assert "no ratio of the speedups: not the same kernel: gemm and softmax" in out


def test_the_trend_is_in_time_order_and_adds_up(project_with_sessions, capsys):
    assert main(["session", "trend"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == [
        "2026-11-21-gemm",
        "2026-11-22-gemm",
        "2026-11-23-softmax",
    ]
    assert "minutes: 6 in the 3 of 3 sessions that say" in lines
    assert "cost: 1.00 USD in the 2 of 3 sessions that say" in lines


def test_the_trend_of_one_kernel_leaves_out_the_others(project_with_sessions, capsys):
    main(["session", "trend", "--kernel", "softmax", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert [one["session"] for one in found["sessions"]] == ["2026-11-23-softmax"]
    assert found["minutes"] == 2.0


def test_an_unknown_kernel_suggests_the_nearest_name(project_with_sessions, capsys):
    assert main(["session", "trend", "--kernel", "sofmax"]) == 2

    assert "did you mean 'softmax'" in capsys.readouterr().err


def test_the_plot_is_written_where_it_was_wanted(project_with_sessions, capsys):
    assert main(["session", "trend", "--plot", "trend.md"]) == 0

    assert (project_with_sessions / "trend.md").read_text().startswith("# Sessions over time")
    assert capsys.readouterr().out.endswith("charts written to trend.md\n")


def test_another_format_is_refused_before_anything_is_written(project_with_sessions, capsys):
    assert main(["session", "trend", "--plot", "trend.svg"]) == 2

    assert "ends in .md" in capsys.readouterr().err
    assert not (project_with_sessions / "trend.svg").exists()


def test_an_unwritable_plot_path_is_reported(project_with_sessions, capsys):
    assert main(["session", "trend", "--plot", "nowhere/trend.md"]) == 2

    assert capsys.readouterr().err.startswith("kb: cannot write nowhere/trend.md: ")


@pytest.mark.parametrize("words", [["metrics"], ["trend"], ["compare", "a", "b"]])
def test_without_sessions_the_error_says_how_to_open_one(project, capsys, words):
    assert main(["session", *words]) == 2

    assert re.search(
        r"`kb session new \S+ '.*' --kernel \S+` opens a session", capsys.readouterr().err
    )
