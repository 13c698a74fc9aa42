"""The main job, on a small copy of the shipped kernel."""

import os
import pty
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from broken_kernels import WORKLOADS, make_broken_kernel

from kernelkb.actions.kernels.measure_variant import OpenBench
from kernelkb.cli import main
from kernelkb.model.answers.triage import Triage
from kernelkb.model.records.measurement import DISTURBANCE_TEXT
from kernelkb.model.records.session import Session
from kernelkb.record.sessions import (
    create_session,
    list_session_ids,
    read_session,
    set_open_session,
)
from kernelkb.safety.paths import shipped_folder


@pytest.fixture
def softmax_project(project):
    """row_softmax as it is shipped, on workloads of milliseconds."""
    folder = project / "kernels" / "row_softmax"
    shutil.copytree(Path(shipped_folder("kernels")) / "row_softmax", folder)
    text = (folder / "kernel.yaml").read_text()
    text = text[: text.index("workloads:")] + text[text.index("# The smallest ones") :]
    text = text.replace("axes: [rows, cols]\n", f"axes: [rows, cols]\nworkloads: {WORKLOADS}\n")
    text = text.replace("small: {rows: 64, cols: 256}", "small: {rows: 1024, cols: 1024}")
    text = text.replace("{cpu: large, cuda: xlarge}", "{cpu: small, cuda: small}")
    (folder / "kernel.yaml").write_text(text)
    return project


def read_entries(project):
    (name,) = list_session_ids(project / "sessions")
    return read_session(name, project / "sessions").entries


@pytest.mark.slow
def test_the_naive_variants_advice_is_followed_and_both_are_reported(softmax_project, capsys):
    code = main(["triage", "row_softmax", "--target", "cpu", "--json"])
    found = Triage.model_validate_json(capsys.readouterr().out)
    assert [seen.variant for seen in found.examined] == ["naive", "vectorized"]
    assert "vectorize-inner-loop" in found.followed.fixes
    followed, benches = found.followed, [seen.bench for seen in found.examined]
    if followed.unmeasured is None:
        assert followed.interval[0] <= followed.measured <= followed.interval[1]
    else:
        assert any(b.disturbed_by or b.verdict == "inconclusive" for b in benches)
    assert found.followed.predicted["point"] > 1
    assert ("scalar_loop_count 0 == 0", True) in {
        (d.falsifier, d.falsifier_held) for d in found.decisions
    }
    assert code == {"done": 0, "stopped": 1}[found.outcome]
    (entry,) = read_entries(softmax_project)
    assert (entry.by, entry.cc, entry.device) == ("triage", None, None)
    assert {"compiler", "torch", "os"} <= set(entry.environment)
    assert entry.steps == found.steps
    assert all(step.at for step in entry.steps)
    assert [s.verdict for s in entry.steps if s.name == "bench"] == [b.verdict for b in benches]
    assert [s.interval for s in entry.steps if s.name == "bench"] == [b.interval for b in benches]
    named = [step.bottleneck for step in entry.steps if step.name == "recommend"]
    assert named[0] == found.examined[0].answer["diagnoses"][0]["bottleneck"]


@pytest.mark.slow
def test_cpu_contention_is_a_warning_and_confirms_nothing(softmax_project, capsys, monkeypatch):
    disturbed = {"verdict": "inconclusive", "disturbed_by": "cpu-contention"}
    reason = DISTURBANCE_TEXT["cpu-contention"]
    run = OpenBench.run
    monkeypatch.setattr(OpenBench, "run", lambda self: run(self).model_copy(update=disturbed))
    main(["triage", "row_softmax", "--target", "cpu", "--json"])
    found = Triage.model_validate_json(capsys.readouterr().out)

    benches = [step for step in found.steps if step.name == "bench"]
    assert [(s.status, s.cure) for s in benches] == [("warning", reason)] * 2
    assert [seen.answer["gate"]["id"] for seen in found.examined] == ["measure-again"] * 2
    assert (found.followed.measured, found.followed.confirmed) == (None, None)
    assert {d.measured for d in found.decisions} == {None}
    (entry,) = read_entries(softmax_project)
    assert "speedup" not in entry.metrics
    assert entry.went_wrong == (f"the change was not measured: naive: {reason}",)


@pytest.mark.slow
def test_a_pipe_gets_plain_lines_and_the_session_one_more_entry(softmax_project, capsys):
    assert main(["triage", "row_softmax", "--target", "cpu", "--variant", "vectorized"]) in (0, 1)

    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert [line.split()[1] for line in out.splitlines()[:3]] == ["environment", "build", "check"]
    assert len(read_entries(softmax_project)) == 1
    assert main(["session", "show"]) == 0
    assert "triage row_softmax on cpu" in capsys.readouterr().out


@pytest.mark.slow
def test_a_terminal_gets_progress(softmax_project):
    body = "import sys; from kernelkb.cli import main; sys.exit(main())"
    words = ["triage", "row_softmax", "--target", "cpu", "--variant", "vectorized"]
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", body, *words], stdout=follower, stderr=follower, stdin=follower,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(follower)
    seen = b""
    try:
        while chunk := os.read(leader, 65536):
            seen += chunk
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(leader)

    assert child.wait() in (0, 1)  # how fast it is on this machine is not the claim
    assert b"\x1b[" in seen
    assert b"check vectorized" in seen


@pytest.mark.parametrize(("kernel", "name"), [("broken", "mine"), (None, "mine"), ("gemm", None)])
def test_the_open_session_gets_it_unless_it_is_about_another_kernel(project, kernel, name):
    make_broken_kernel(project, "does-not-compile")
    opened = Session(session="mine", opened=datetime.now(UTC), goal="see", kernel=kernel)
    create_session(opened, project / "sessions")
    set_open_session(project, "mine")

    assert main(["triage", "broken", "--target", "cpu"]) == 1

    names = [one for one in list_session_ids(project / "sessions") if one != "mine"]
    (entry,) = read_session(name or names[0], project / "sessions").entries
    assert (entry.goal, entry.kernel) == ("triage broken on cpu", "broken")
    assert len(names) == (name is None)


@pytest.mark.parametrize(
    ("how", "last", "text"),
    [
        ("does-not-compile", "build", "naive.cpp:7:"),
        pytest.param("segfault", "check", "SIGSEGV", marks=pytest.mark.slow),
        ("zeros", "check", "are wrong"),
    ],
)
def test_a_failed_gate_stops_the_loop_with_the_cure(project, capsys, how, last, text):
    make_broken_kernel(project, how)

    assert main(["triage", "broken", "--target", "cpu", "--json"]) == 1

    found = Triage.model_validate_json(capsys.readouterr().out)
    assert found.outcome == "stopped"
    assert (found.steps[-1].name, found.steps[-1].status) == (last, "failure")
    assert text in found.steps[-1].found
    assert found.steps[-1].cure
    assert read_entries(project)[0].went_wrong


def test_a_machine_without_a_compiler_is_exit_2_and_leaves_no_record(project, capsys, monkeypatch):
    make_broken_kernel(project, "right")
    monkeypatch.setenv("CXX", "/nonexistent/g++")

    assert main(["triage", "broken", "--target", "cpu"]) == 2
    assert "install a C++ compiler" in capsys.readouterr().out
    assert list((project / "sessions").iterdir()) == []
