"""kb session metrics: how a session went."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from kernelkb.cli import main
from kernelkb.model.records.session import SessionEntry, Step
from kernelkb.record.sessions import append_entry

DAY = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


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


def make_step(name, **more):
    return Step(name=name, variant="naive", status="ok", found="", seconds=30, **more)


@pytest.fixture
def project_with_sessions(project):
    """Two sessions with one kernel and one with another, a day apart."""
    for day, (kernel, speedup) in enumerate([("gemm", 0.5), ("gemm", 1.0), ("softmax", 0.1)]):
        opening = [
            make_step("build"),
            make_step("check"),
            make_step("recommend", bottleneck="small-grid"),
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


def test_without_sessions_the_error_says_how_to_open_one(project, capsys):
    assert main(["session", "metrics"]) == 2

    assert re.search(
        r"`kb session new \S+ '.*' --kernel \S+` opens a session", capsys.readouterr().err
    )
