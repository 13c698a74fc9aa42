"""A check or bench that is cut, killed or interrupted says what it knew until then."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from broken_kernels import CORRECT_BODY, HEAD, make_broken_kernel
from processes import find_processes, read_cmdline, reset_signals

from kernelkb.actions.kernels.measure_variant import (
    bench_built,
    build_prepared,
    check_variant,
)
from kernelkb.actions.project.bench_target import prepare
from kernelkb.errors import KbError
from kernelkb.measure.subject import BenchOptions

AFTER_PAIRS = r", after [1-9]\d* pairs"
LATE = "static long calls = 0; if (++calls > 3000)"
"""More calls than a check and the trial batches of a bench make."""
ENDLESS = "for (volatile long n = 0;; n = n + 1) {}"
START = "import sys; from kernelkb.cli import start; sys.exit(start())"


def make_source(text):
    return f"{HEAD}{CORRECT_BODY}  {text}\n  return 0;\n}}\n"


@pytest.fixture
def kernel(project, monkeypatch):
    """Return what writes the kernel ``broken`` with a last statement; its benches are long."""
    monkeypatch.setenv("KB_BUDGET", "60")
    monkeypatch.setenv("TMPDIR", str(project))
    folder = make_broken_kernel(project, "right")
    (folder / "vectorized.cpp").write_text(make_source(""))
    return lambda text: (folder / "naive.cpp").write_text(make_source(text))


def bench_beside_its_like(**options):
    """Bench against the same code without the last statement.

    A bench of what is plainly slower ends after few pairs, a busy machine decides when.
    """
    places = [prepare("broken", name, "cpu") for name in ("naive", "vectorized")]
    own, other = ((place, build_prepared(place)) for place in places)
    rival = (other[0].subject, other[1])
    return bench_built(*own, "small", BenchOptions(rival=rival, only_rival=True, **options))


def test_a_candidate_that_dies_in_a_bench_has_the_pairs_until_then(kernel):
    kernel(f"{LATE} __builtin_trap();")
    found = bench_beside_its_like()

    assert found.verdict == "invalid"
    assert found.pair_count > 0
    assert found.detail == f"it died of SIGILL, after {found.pair_count} pairs"


def test_a_candidate_that_dies_in_a_check_has_the_workloads_until_then(kernel):
    kernel("if (cols == 256) __builtin_trap();")
    found = check_variant("broken", target="cpu")

    assert found.status == "crashed"
    assert re.search(r"on small; correct before on [1-9]\d* workloads and \d+ hidden", found.detail)
    assert {case.status for case in found.cases} == {"correct"}


@pytest.mark.slow
def test_a_limit_of_time_leaves_the_pairs_until_then(kernel):
    kernel(f"{LATE} {ENDLESS}")
    found = bench_beside_its_like(timeout_s=60)

    assert found.verdict == "invalid"
    within = re.fullmatch(rf"it did not finish within (\d+) s{AFTER_PAIRS}", found.detail)
    assert int(within[1]) <= 60  # a call that was timed before has a limit of its own


def find_judge():
    """Return the process of a judge that times, once it does."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for entry in find_processes(f"{os.environ['TMPDIR']}/kernelkb-job-"):
            line = read_cmdline(entry)
            job = Path((line.split() or ["."])[-1])
            if job.name == "judge.json" and "supervisor.py" not in line and has_pairs(job):
                return int(entry.name)
        time.sleep(0.05)
    raise TimeoutError("nothing was timed")


def has_pairs(job):
    progress = job.with_name("progress")
    if json.loads(job.read_text())["mode"] != "bench" or not progress.exists():
        return False
    return int(progress.read_text().partition("\n")[2] or 0) > 0


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, "judge"])
def test_what_is_ended_from_outside_says_what_it_knew(kernel, ending):
    kernel("")
    command = subprocess.Popen(
        [sys.executable, "-c", START, "bench", "broken", "--target", "cpu"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=reset_signals,
    )
    try:
        judge = find_judge()
        if ending == "judge":  # as the system does for want of memory
            os.kill(judge, signal.SIGKILL)
        else:
            command.send_signal(ending)
        _, said = command.communicate(timeout=60)
    finally:
        command.kill()
        command.wait()

    assert re.search(AFTER_PAIRS, said)
    assert "until then: naive for cpu" in said
    assert "naive is correct on" in said
    assert "Traceback" not in said


def test_an_error_keeps_what_was_known_before_its_cure():
    error = KbError("it ended")
    error.add_note("until then: half")

    assert str(error) == "it ended; until then: half"


NOTING_REFERENCE = """
import sys
from pathlib import Path

import torch


def row_softmax(x, out=None):
    job = Path(sys.argv[-1])
    progress = job.with_name("progress")
    if job.name == "judge.json" and progress.exists():
        with open("{log}", "a") as log:
            log.write(progress.read_text().partition(chr(10))[0] + chr(10))
    return torch.softmax(x, dim=-1, out=out)
"""


@pytest.mark.slow
def test_while_the_judge_computes_what_is_right_nobody_else_is_said_to_run(kernel, project):
    kernel("")
    log = project / "names"
    reference = project / "kernels" / "broken" / "reference.py"
    reference.write_text(NOTING_REFERENCE.format(log=log))
    place = prepare("broken", target="cpu")
    options = BenchOptions(budget_s=0.2)
    found = bench_built(place, build_prepared(place), "small", options)

    assert found.hidden_inputs
    assert set(log.read_text().splitlines()) == {"the judge"}
