"""What a person sees on a real terminal: the step and its time, and one line after Ctrl-C."""

import os
import re
import subprocess
import sys

import pytest
from broken_kernels import make_broken_kernel
from terminals import PROGRAM, Terminal

from kernelkb.record.measurements.store import open_store


@pytest.fixture
def stalled_project(project):
    folder = make_broken_kernel(project, "right")
    os.mkfifo(folder / "wait.txt")
    source = folder / "naive.cpp"
    source.write_text(f'#include "wait.txt"\n{source.read_text()}')
    return project


def test_a_build_shows_its_step_and_time_and_ends_with_ctrl_c(stalled_project):
    terminal = Terminal("build", "broken", "--target", "cpu")
    shown = terminal.read_until(r"build naive, \d+ s")
    terminal.press_ctrl_c()
    status = terminal.wait()

    assert shown, terminal.said
    assert status == 130
    assert "kb: interrupted: nothing was built" in terminal.said
    assert "Traceback" not in terminal.said
    assert not list(stalled_project.glob(".kb/build/*/.building-*"))


def test_a_bench_that_is_interrupted_records_no_measurement(project):
    """The source is kept before it is built."""
    make_broken_kernel(project, "endless")
    terminal = Terminal("bench", "broken", "--target", "cpu", "--workload", "tiny")
    shown = terminal.read_until(r"(check naive|bench naive|is free)[^,]*, \d+ s")
    terminal.press_ctrl_c()
    status = terminal.wait()

    assert shown, terminal.said
    assert status == 130
    assert "kb: interrupted: nothing was recorded" in terminal.said
    assert "Traceback" not in terminal.said
    with open_store(project) as store:
        assert store.count() == 0


def test_a_triage_that_is_interrupted_has_one_line(stalled_project):
    terminal = Terminal("triage", "broken", "--target", "cpu")
    shown = terminal.read_until(r"build naive, \d+ s")
    terminal.press_ctrl_c()
    status = terminal.wait()

    assert shown, terminal.said
    assert status == 130
    assert "kb: interrupted: the steps that ended are recorded" in terminal.said
    assert "Traceback" not in terminal.said


def test_a_second_run_shows_the_time_of_the_first(project):
    program = (
        "import sys, time; from kernelkb.cli.output import interruptible_measurement\n"
        "with interruptible_measurement('bench x'): time.sleep(float(sys.argv[1]))"
    )
    said = []
    for _ in range(2):
        terminal = Terminal("1.6", program=program)
        assert terminal.wait() == 0
        said.append(terminal.said)

    assert re.search(r"bench x, \d s(?! of about)", said[0])
    assert re.search(r"bench x, \d s of about 2 s", said[1])


def test_nothing_is_shown_without_a_terminal(project):
    make_broken_kernel(project, "right")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "build", "broken", "--target", "cpu"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip

    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert " s of about" not in done.stdout
