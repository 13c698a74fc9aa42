"""``kb lab sweep``: many kernels on the lanes of a cluster; one that fails costs its own row."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import reset_signals
from simple_kernels import KILLING_REFERENCE, write_kernel

from kernelkb.actions.sweep.sweep import SweepRun, build_ahead, judge
from kernelkb.actions.sweep.sweep_plan import SweepRequest, find_candidate, plan_sweep
from kernelkb.cli import main
from kernelkb.cluster.choice import parse_workers
from kernelkb.cluster.cluster import open_cluster
from kernelkb.errors import BadValueError, EnvironmentGapError, UnknownNameError
from kernelkb.model.records.measurement import Sweep
from kernelkb.record.attempt_store import open_attempts
from kernelkb.record.measurements.store import open_store
from kernelkb.render.text.measurements import format_row, format_sweep

KB = [sys.executable, "-c", "import kernelkb.cli, sys; sys.exit(kernelkb.cli.main())"]
TIMED = ("faster", "slower", "inconclusive")
TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x

def get_inputs():
    return [torch.rand(64, 256)]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + x
"""
# Dask closes its sockets and loops in threads that outlive a test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


def plan(project, **request):
    return plan_sweep(SweepRequest(**request), project, has_gpu=False)


# --- what is judged


def test_every_kernel_of_the_project_has_a_job(project):
    write_kernel(project, "good")
    write_kernel(project, "gpu_only", is_cuda=True)
    write_kernel(project, "unreadable").joinpath("kernel.yaml").write_text("id: [")
    found = plan(project)

    assert [one.job.name for one in found.jobs] == ["good"]
    assert found.left_out == {"gpu_only": "it has no variant for cpu"}
    assert "kernel.yaml" in found.broken["unreadable"]


def test_on_gpus_a_kernel_of_both_targets_runs_there(project):
    found = plan_sweep(SweepRequest(("gemm",)), project, has_gpu=True)
    every = plan_sweep(SweepRequest(("gemm",), variant="all"), project, has_gpu=True)

    assert [(one.job.variant, one.job.target) for one in found.jobs] == [("naive", "cuda")]
    assert [one.job.variant for one in every.jobs] == ["naive", "tiled"]


def test_a_folder_elsewhere_is_judged(project, tmp_path):
    write_kernel(tmp_path / "other", "good")
    found = plan(project, folder=tmp_path / "other" / "kernels")

    assert [one.job.name for one in found.jobs] == ["good"]


def test_a_kernel_without_the_workload_or_variant_is_left_out(project):
    write_kernel(project, "good")

    with pytest.raises(BadValueError, match="no workload huge"):
        plan(project, workload="huge")
    with pytest.raises(BadValueError, match="no variant tiled for cpu"):
        plan(project, variant="tiled")


def test_what_cannot_be_judged_at_all_is_an_error(project):
    with pytest.raises(UnknownNameError, match="gem"):
        plan(project, kernels=("gem",))
    with pytest.raises(EnvironmentGapError, match="no worker has a GPU"):
        plan(project, kernels=("gemm",), target="cuda")
    with pytest.raises(BadValueError, match="name kernels, or --folder"):
        plan(project)
    with pytest.raises(BadValueError, match="--candidates"):
        plan(project, tasks=project)


def write_tasks(project, candidates):
    for folder in ("level1", "mine"):
        (project / folder).mkdir()
    for name, text in candidates.items():
        (project / "level1" / name).write_text(TASK)
        if text is not None:
            (project / "mine" / name).write_text(text)
    (project / "level1" / "notes.py").write_text("text = 'no problem'\n")


def test_a_problem_is_paired_with_its_candidate(project):
    write_tasks(project, {"1_Twice.py": CANDIDATE, "2_Twice.py": None, "23_Twice.py": None})
    other = project / "mine" / "level_1_problem_23_sample_0_kernel.py"
    other.write_text(CANDIDATE)
    (project / "level1" / "1_hidden.py").write_text("def get_hidden_inputs():\n    return []\n")
    found = plan(project, tasks=project / "level1", candidates=project / "mine")

    assert find_candidate(project / "level1" / "23_Twice.py", project / "mine") == other
    assert [one.job.name for one in found.jobs] == ["1_Twice", "23_Twice"]
    assert list(found.left_out) == ["2_Twice"]
    assert sorted(found.jobs[0].packed.files) == [
        "candidate/1_Twice.py",
        "task/1_Twice.py",
        "task/1_hidden.py",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["gemm", "--folder", "kernels"],
        ["--candidates", "mine"],
        ["--tasks", "level1", "--candidates", "mine", "--variant", "all"],
        ["--export", "nowhere/x.json"],
    ],
)
def test_options_that_contradict_each_other_are_refused(project, words, capsys):
    assert main(["sweep", *words]) == 2
    assert capsys.readouterr().err.startswith("kb: ")


# --- on workers


@pytest.fixture(scope="module")
def two_lanes(tmp_path_factory):
    """Two lanes of this host; the workers take their folders from the environment."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        patch.setenv("KB_DEVICE_QUEUE", str(base / "queue"))
        patch.setenv("KB_BUDGET", "0.4")
        with open_cluster(parse_workers("auto"), pretend_count=2) as cluster:
            yield cluster


def sweep(cluster, project, **request):
    run = SweepRun(cluster, plan(project, **request), project)
    rows = list(run.judge_all())
    found = run.conclude()
    assert sorted(rows, key=lambda row: row.kernel) == list(found.rows)
    return found


def list_times(project):
    with open_store(project) as store:
        return {one.subject.kernel: one for one in store.iter_all()}


def list_kept(project, kernel):
    """Return the kinds of what the history has of a kernel's states."""
    with open_attempts(project) as store:
        ids = [one.id for one in store.list_newest(kernel, 10)]
        return {one.kind for one in store.list_events(ids)}


@pytest.mark.slow
def test_each_kernel_has_its_row_and_its_record(two_lanes, project):
    for name in ("good", "wrong", "broken", "aborts"):
        write_kernel(project, name, name)
    write_kernel(project, "killer", reference=KILLING_REFERENCE)
    write_kernel(project, "gpu_only", is_cuda=True)
    found = sweep(two_lanes, project)
    rows = {row.kernel: row for row in found.rows}

    assert {name: row.verdict for name, row in rows.items() if name != "good"} == {
        "wrong": "incorrect",
        "broken": "invalid",
        "aborts": "invalid",
        "killer": "invalid",
    }
    assert rows["good"].verdict in TIMED
    assert "nothing" in rows["broken"].detail
    assert "SIGABRT" in rows["aborts"].detail
    assert "worker process died" in rows["killer"].detail
    assert list(list_times(project)) == ["good"]
    assert list_times(project)["good"].id == rows["good"].bench.measurement
    assert list(found.left_out) == ["gpu_only"]
    assert list_kept(project, "wrong") == {"build", "check"}
    assert sum(lane.judged_count for lane in found.lanes) == 4
    assert found.counts["invalid"] == 3
    assert not list(Path(os.environ["XDG_CACHE_HOME"]).rglob("worker-projects/**/*.db"))
    text = "\n".join(format_sweep(found))
    assert all(name in text for name in (*rows, "gpu_only: left out"))
    assert "good plain (cpu) on " in format_row(rows["good"])
    written = found.model_dump_json()
    assert Sweep.model_validate_json(written).model_dump_json() == written


@pytest.mark.slow
def test_a_state_that_was_edited_meanwhile_is_not_kept(two_lanes, project):
    folder = write_kernel(project, "good", "broken")
    planned = plan(project, check_only=True)
    (folder / "plain.cpp").write_text("edited")
    row = next(SweepRun(two_lanes, planned, project).judge_all())

    assert (row.verdict, row.check, row.bench) == ("invalid", None, None)
    assert "nothing" in row.detail
    assert list_kept(project, "good") == set()


@pytest.mark.slow
def test_a_folder_of_tasks_is_judged_by_the_command(project, capsys):
    write_tasks(project, {"1_A.py": CANDIDATE, "2_B.py": "text = 'no candidate'\n"})
    folders = ["--tasks", "level1", "--candidates", "mine"]
    status = main(["sweep", *folders, "--check", "--json", "--export", "found.json"])
    found = json.loads(capsys.readouterr().out)

    assert status == 1
    assert [row["verdict"] for row in found["rows"]] == ["correct", "not-run"]
    assert "has no ModelNew" in found["rows"][1]["detail"]
    assert len(found["lanes"]) == 1
    assert 0 < found["lanes"][0]["busy_share"] <= 1
    exported = json.loads((project / "found.json").read_text())
    assert exported["rows"] == found["rows"]


@pytest.mark.slow
def test_what_an_interrupt_leaves_is_recorded(project):
    write_kernel(project, "broken", "broken")  # its row comes first, or not
    for name in ("good", "other"):
        write_kernel(project, name)
    command = [*KB, "sweep", "--check", "--export", "found.json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, preexec_fn=reset_signals) as process:
        line = process.stdout.readline().decode()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    found = json.loads((project / "found.json").read_text())

    assert process.returncode == 130
    assert "judged and recorded" in told.decode()
    assert line.startswith(found["rows"][0]["kernel"])
    assert found["not_judged_count"] == 3 - len(found["rows"]) > 0
    for row in found["rows"]:
        assert "build" in list_kept(project, row["kernel"])


# --- building ahead, on another host and on this one


def build_then_judge(project, monkeypatch, tmp_path, **changes):
    """Build a kernel ahead, and judge it on a host whose folders are empty."""
    planned = plan(project, check_only=True).jobs[0]
    ahead = build_ahead(planned.packed, planned.job, ())._replace(**changes)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other-cache"))
    return ahead, judge(planned.packed, planned.job, ahead)


@pytest.mark.slow
def test_a_lane_uses_the_build_of_another_host_and_records_nothing(project, monkeypatch, tmp_path):
    write_kernel(project, "good")
    ahead, judged = build_then_judge(project, monkeypatch, tmp_path, host="elsewhere")
    copies = tmp_path / "other-cache" / "kernelkb" / "worker-projects"
    written = {path.name for path in copies.rglob("*")}

    assert len(ahead.libraries) == 1
    assert judged.results.build.status == "cached"
    assert judged.results.build.library.startswith(str(copies))
    assert judged.results.check.status == "correct"
    assert "kernel.yaml" in written
    assert not [name for name in written if name.endswith(".db")]
    assert not (project / ".kb").exists()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"host": "elsewhere"},
        pytest.param({"toolchain": ("other",)}, marks=pytest.mark.slow),
    ],
)
def test_a_failed_build_counts_on_its_own_host_only(project, monkeypatch, tmp_path, changes):
    write_kernel(project, "broken", "broken")
    ahead, judged = build_then_judge(project, monkeypatch, tmp_path, **changes)

    assert "nothing" in ahead.failed[""].error
    assert (judged.results.build is ahead.failed[""]) is (not changes)
    assert judged.results.build.status == "failed"
