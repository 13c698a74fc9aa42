"""Children end when they must, and take theirs with them."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import alive, settled

from kernelkb.actions.kernels import check
from kernelkb.measure.process import sandbox_layers
from kernelkb.measure.process.subprocesses import Cancelled, cancelled_by, run_child
from kernelkb.measure.process.worker_jobs import run_job, scratch_folder

FAMILY = (
    "import subprocess,sys; subprocess.run([sys.executable,'-c','import time; time.sleep(60)'])"
)


def test_a_time_out_takes_grandchildren_along(tmp_path):
    word = f"#{tmp_path}"
    script = FAMILY.replace("time.sleep(60)", f"time.sleep(60) {word}")
    end = run_child([sys.executable, "-c", script], log=tmp_path / "log", timeout_s=1.0)

    assert end.timed_out
    assert settled(word, 0)


def test_a_cancelled_call_ends_its_child(tmp_path):
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()

    with cancelled_by(stop), pytest.raises(Cancelled):
        run_child(
            [sys.executable, "-c", FAMILY + f" #{tmp_path}"], log=tmp_path / "log", timeout_s=60
        )

    assert settled(f"#{tmp_path}", 0)


def test_the_worker_dies_with_whoever_started_it(tmp_path):
    (tmp_path / "hang.py").write_text("import time\ntime.sleep(60)\n")
    body = (
        "import pathlib, sys\n"
        "from kernelkb.measure.process.worker_jobs import run_job\n"
        f"reference = {{'file': {str(tmp_path / 'hang.py')!r}, 'function': 'f'}}\n"
        "job = {'mode': 'judge', 'cases': [], 'reference': reference}\n"
        f"run_job(job, pathlib.Path({str(tmp_path)!r}), timeout_s=60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", body])
    job = str(tmp_path / "judge.json")
    started = settled(f"start.py {job}", 2)  # and its keeper, which names it too
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()

    assert started
    assert settled(f"start.py {job}", 0)


HOPS = """
import os, time
end = time.monotonic() + 30
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
time.sleep({})
"""


@pytest.mark.parametrize("seconds", [0.5, 60])
def test_who_is_another_process_each_time_outlives_neither_its_program_nor_a_time_out(
    tmp_path, seconds
):
    word = f"#{tmp_path}"
    argv = [sys.executable, "-c", HOPS.format(seconds) + word]
    end = run_child(argv, log=tmp_path / "log", timeout_s=2.0)

    assert end.timed_out == (seconds > 2)
    assert not any(alive(word) for _ in range(50))


def test_whatever_a_child_has_started_dies_with_whoever_started_the_child(tmp_path):
    """As compilers do below ninja, and workers below ncu."""
    word = f"#{tmp_path}"
    script = FAMILY.replace("subprocess.run(", "subprocess.run(start_new_session=True, args=")
    body = (
        "import pathlib, sys\n"
        "from kernelkb.measure.process.subprocesses import run_child\n"
        f"argv = [sys.executable, '-c', {script.replace('(60)', f'(60) {word}')!r}]\n"
        f"run_child(argv, log=pathlib.Path({str(tmp_path / 'log')!r}), timeout_s=60)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", body])
    started = settled(word, 4)  # the starter, the keeper, the child and its own
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()

    assert started
    assert settled(word, 0)


@pytest.mark.parametrize(
    ("script", "code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 11)", -11)]
)
def test_a_child_ends_as_its_program_ended(tmp_path, script, code):
    end = run_child([sys.executable, "-c", script], log=tmp_path / "log", timeout_s=60)

    assert end.returncode == code


def test_nothing_in_the_working_directory_is_imported(tmp_path, monkeypatch):
    for name in ("engine", "torch", "json", "profile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hostile import')\n")
    monkeypatch.chdir(tmp_path)
    with scratch_folder() as folder:
        end = run_job({"mode": "probe"}, folder, timeout_s=60)

    assert end.result is not None, end.end.output


def test_the_walls_that_are_said_to_stand_are_those_of_a_check(project):
    found = check("row_softmax", "naive", "cpu")

    assert sandbox_layers.available()[0] == list(found.layers)


SIGNALS = """
import os, runpy, signal, subprocess, sys
confine = runpy.run_path(sys.argv[1])
other = subprocess.Popen(["sleep", "20"])
confine["_close_calls"]({"fork": True, "families": []})
os.kill(os.getpid(), 0)
for how in (os.kill, lambda pid, s: signal.pidfd_send_signal(os.pidfd_open(pid), s)):
    try:
        how(other.pid, signal.SIGKILL)
    except PermissionError:
        print("refused", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_runner_may_send_signals_to_itself_alone():
    """Landlock refuses them too, on a new kernel; on an older one only this does."""
    argv = [
        sys.executable,
        "-c",
        SIGNALS,
        str(Path(sandbox_layers.__file__).with_name("candidate_sandbox.py")),
    ]
    end = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    assert end.stdout.split() == ["refused", "refused"], end.stderr
    assert end.returncode == -signal.SIGTERM


RENAMES = """
import os, pathlib, runpy, sys
confine, own, other = runpy.run_path(sys.argv[1]), *map(pathlib.Path, sys.argv[2:])
(own / "below").mkdir()
(own / "below" / "made").write_text("x")
confine["_close_files"]({"folder": str(own), "writable": []})
os.replace(own / "below" / "made", own / "kept")
print("renamed", flush=True)
for source, target in ((own / "kept", other / "kept"), (other / "alien", own / "alien")):
    try:
        os.link(source, target)
    except OSError:
        print("refused", flush=True)
"""


def test_a_runner_renames_between_its_own_folders_and_no_others(tmp_path):
    """Triton's cache builds in one folder and renames into another."""
    if "landlock" not in sandbox_layers.available()[0]:
        pytest.skip("this kernel has no Landlock")
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "alien").write_text("x")
    file = str(Path(sandbox_layers.__file__).with_name("candidate_sandbox.py"))
    argv = [sys.executable, "-c", RENAMES, file, str(own), str(other)]
    end = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)

    assert end.stdout.split() == ["renamed", "refused", "refused"], end.stderr
