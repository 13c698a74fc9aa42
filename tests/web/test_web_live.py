"""What the live view shows of real commands while they run."""

import os
import subprocess
import sys

import pytest
from web_page import KERNEL

from kernelkb.measure.machine.nvidia_driver import GpuSample, GpuSampler
from kernelkb.progress import event_recorder, record_event, report_progress
from kernelkb.record.running import publish_progress
from kernelkb.web import live
from kernelkb.web.site import Site

START = "import sys; from kernelkb.cli import start; sys.exit(start())"


def start(project, *words):
    return subprocess.Popen(
        [sys.executable, "-c", START, *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
    )


def watch(children):
    """Return every row that the page would have shown, and every search, until all have ended."""
    rows, searches = [], []
    while any(child.poll() is None for child in children):
        shown = live.collect_runs()
        rows += [(view.run.what, row) for view in shown["runs"] for row in view.rows]
        searches += shown["searches"]
    return rows, searches


def show(view_of):
    page = live.show_live({})
    (view,) = [one for one in page.values["runs"] if one.run.what == view_of]
    return view, Site("project").fill(page)


@pytest.mark.slow
def test_the_interval_closes_in_while_a_bench_runs_and_another_one_waits(web_project):
    words = "bench", "broken", "--target", "cpu"
    with start(web_project, *words) as one, start(web_project, *words) as other:
        rows, _ = watch([one, other])

    so_far = [row for _, row in rows if row.baseline.endswith("so far")]
    assert so_far
    assert all(row.interval[0] <= row.speedup <= row.interval[1] for row in so_far)
    assert any(row.look == "waiting" and "1 before us" in row.text for _, row in rows)
    assert any(row.text == "bench naive" and row.interval for _, row in rows)


def test_a_judge_and_a_gpu_are_shown_while_they_work_and_not_after(web_project, tmp_path):
    (tmp_path / "progress").write_text("candidate\n37\n1.52 1.46 1.61 torch.compile", "utf-8")
    sampler = GpuSampler("0")
    with publish_progress(web_project, f"bench {KERNEL} watched"):
        report_progress("bench naive")
        record_event("judge", folder=str(tmp_path))
        sampler._tell(GpuSample(0.0, 1755.0, 58.0, 412.0, 0x20))
        view, text = show(f"bench {KERNEL} watched")
        assert view.rows[-1].interval == (1.46, 1.61)
        assert "against torch.compile, so far" in text
        assert "1755 of 0 MHz, 58 °C, 412 W; slowed down: software thermal slowdown" in text
    after, _ = show(f"bench {KERNEL} watched")

    assert view.incumbent.candidate_us == pytest.approx(30.0 / (1 + 5 / 8))
    assert [row.baseline for row in after.rows] == []


@pytest.mark.parametrize("text", ["", "candidate", "candidate\n12\n", "a\nb\nc", "x\n5\n1.5 1.4"])
def test_a_judge_that_writes_at_this_moment_is_no_error(tmp_path, text):
    (tmp_path / "progress").write_text(text, "utf-8")

    assert len(live._read_judge(str(tmp_path))) <= 1


def test_a_step_goes_on_when_its_wait_is_over(web_project):
    with publish_progress(web_project, "bench queued"):
        report_progress("check naive")
        report_progress("waiting for the CPU: 1 before us", "waiting")
        assert [row.look for row in show("bench queued")[0].rows] == ["now", "waiting"]
        report_progress("the CPU is free")
        assert [row.text for row in show("bench queued")[0].rows] == ["check naive"]
        report_progress("bench naive")
        assert [row.text for row in show("bench queued")[0].rows] == ["bench naive"]


class OneSample(GpuSampler):
    """Tells one sample and ends, in the thread that samples."""

    def _sample_until_stopped(self):
        self._tell(GpuSample(0.0, 1980.0, 40.0, 100.0, 0))


def test_samples_are_told_to_the_recorder_of_the_thread_that_began_to_sample():
    told = []
    with event_recorder(told.append):
        sampler = OneSample("0")
        sampler.start()
        sampler.stop()

    assert [(one["kind"], one["sm_mhz"]) for one in told] == [("gpu", 1980.0)]


@pytest.mark.slow
def test_a_sweep_shows_what_came_out(web_project):
    with start(web_project, "lab", "sweep", "broken", "--check", "--target", "cpu") as sweep:
        rows, _ = watch([sweep])

    assert any(what.startswith("sweep") and row.look == "ok" for what, row in rows)
