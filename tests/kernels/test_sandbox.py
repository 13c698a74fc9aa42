"""Supervised children: killed with their descendants, and sandboxed."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from broken_kernels import CORRECT_BODY, HEAD, make_broken_kernel
from processes import find_processes, ignore_signals, wait_for_count

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant
from kernelkb.measure.process import candidate_sandbox
from kernelkb.measure.process.subprocesses import run_supervised, scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.subject import BenchOptions
from kernelkb.progress import OperationCancelled, cancel_on

GRANDCHILD_PROGRAM = (
    "import subprocess,sys; subprocess.run([sys.executable,'-c','import time; time.sleep(60)'])"
)


def test_a_time_out_takes_grandchildren_along(tmp_path):
    word = f"#{tmp_path}"
    script = GRANDCHILD_PROGRAM.replace("time.sleep(60)", f"time.sleep(60) {word}")
    end = run_supervised([sys.executable, "-c", script], log=tmp_path / "log", timeout_s=1.0)

    assert end.timed_out
    assert wait_for_count(word, 0)


def test_a_cancelled_call_ends_its_child(tmp_path):
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()

    with cancel_on(stop), pytest.raises(OperationCancelled):
        run_supervised(
            [sys.executable, "-c", GRANDCHILD_PROGRAM + f" #{tmp_path}"],
            log=tmp_path / "log",
            timeout_s=60,
        )

    assert wait_for_count(f"#{tmp_path}", 0)


def test_the_worker_dies_with_its_parent(tmp_path):
    """The worker runs a task that would sleep for ten minutes."""
    marker = tmp_path / "task_runs"
    (tmp_path / "hang.py").write_text(
        f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(600)\n"
    )
    task = {"file": str(tmp_path / "hang.py"), "entry": "Model", "target": "cpu", "seed": 1}
    body = (
        "import pathlib\n"
        "from kernelkb.measure.process.worker_jobs import run_job\n"
        f"job = {{'mode': 'describe', **{task!r}}}\n"
        f"run_job(job, pathlib.Path({str(tmp_path)!r}), timeout_s=600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", body])
    try:
        wait_until_exists(marker)
        worker = f"start.py {tmp_path / 'describe.json'}"  # its supervisor's command line too
        running = len(find_processes(worker))
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()

    assert running == 2
    assert wait_for_count(worker, 0)


def wait_until_exists(file):
    """Wait for a file that a process writes once it has imported torch."""
    end = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < end, f"{file.name} was not written"
        time.sleep(0.05)


FORKING_PROGRAM = """
import os, time
end = time.monotonic() + 30
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
time.sleep({})
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 60])
def test_a_constantly_forking_process_is_killed_at_exit_and_at_timeout(tmp_path, seconds):
    word = f"#{tmp_path}"
    argv = [sys.executable, "-c", FORKING_PROGRAM.format(seconds) + word]
    end = run_supervised(argv, log=tmp_path / "log", timeout_s=2.0)

    assert end.timed_out == (seconds > 2)
    assert not any(find_processes(word) for _ in range(50))


def test_descendants_of_a_child_die_with_its_parent(tmp_path):
    """As compilers do below ninja, and workers below ncu."""
    word = f"#{tmp_path}"
    script = GRANDCHILD_PROGRAM.replace(
        "subprocess.run(", "subprocess.run(start_new_session=True, args="
    )
    body = (
        "import pathlib, sys\n"
        "from kernelkb.measure.process.subprocesses import run_supervised\n"
        f"argv = [sys.executable, '-c', {script.replace('(60)', f'(60) {word}')!r}]\n"
        f"run_supervised(argv, log=pathlib.Path({str(tmp_path / 'log')!r}), timeout_s=60)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", body])
    started = wait_for_count(word, 4)  # the starter, the supervisor, the child and its own child
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()

    assert started
    assert wait_for_count(word, 0)


@pytest.mark.parametrize(
    ("script", "code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 11)", -11)]
)
def test_a_child_ends_as_its_program_ended(tmp_path, script, code):
    end = run_supervised([sys.executable, "-c", script], log=tmp_path / "log", timeout_s=60)

    assert end.returncode == code


def test_an_exit_status_is_seen_where_the_parent_ignored_sigchld(tmp_path):
    """A child inherits that, and then ``Popen`` reports 0 for a program that failed."""
    body = (
        "import pathlib\n"
        "from kernelkb.cli.output import interruptible_measurement\n"
        "from kernelkb.measure.process.subprocesses import run_supervised\n"
        "with interruptible_measurement():\n"
        f"    log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "    print(run_supervised(['false'], log=log, timeout_s=60).returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", body],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )

    assert done.stdout == "1\n", done.stderr


def test_a_supervised_program_starts_with_default_signals(tmp_path):
    """Whether a candidate survives a signal must not depend on how we were started."""
    names = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGPIPE", "SIGXFSZ")
    body = (
        "import pathlib\n"
        "from kernelkb.measure.process.subprocesses import run_supervised\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "argv = ['sed', '-n', 's/^SigIgn:.//p', '/proc/self/status']\n"
        "end = run_supervised(argv, log=log, timeout_s=60)\n"
        "print(end.output)\n"
    )
    argv = [sys.executable, "-c", body]
    done = subprocess.run(argv, capture_output=True, text=True, preexec_fn=ignore_signals)
    ignored = int(done.stdout, 16)

    assert [name for name in names if ignored >> (signal.Signals[name] - 1) & 1] == []


def test_nothing_in_the_working_directory_is_imported(tmp_path, monkeypatch):
    for name in ("engine", "kernelkb", "torch", "json", "profile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hostile import')\n")
    monkeypatch.chdir(tmp_path)
    with scratch_folder() as folder:
        end = run_job({"mode": "probe"}, folder, timeout_s=60)

    assert end.result is not None, end.process.output


def test_the_reported_sandbox_layers_are_those_of_a_check(project):
    make_broken_kernel(project, "right")
    found = check_variant("broken", "naive", "cpu")

    assert candidate_sandbox.detect_layers()[0] == list(found.layers)


SIGNALLING_BODY = """
import os, runpy, signal, subprocess, sys
sandbox = runpy.run_path(sys.argv[1])
other = subprocess.Popen(["sleep", "20"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sandbox["_apply_seccomp"]({"fork": True, "families": []})
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
        SIGNALLING_BODY,
        candidate_sandbox.__file__,
    ]
    end = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)

    assert end.stdout.split() == ["refused", "refused"], end.stderr
    assert end.returncode == -signal.SIGTERM


RENAMING_BODY = """
import os, pathlib, runpy, sys
sandbox, own, other = runpy.run_path(sys.argv[1]), *map(pathlib.Path, sys.argv[2:])
(own / "below").mkdir()
(own / "below" / "made").write_text("x")
sandbox["_apply_landlock"]({"folder": str(own), "writable": [], "fork": True})
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
    if "landlock" not in candidate_sandbox.detect_layers()[0]:
        pytest.skip("this kernel has no Landlock")
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "alien").write_text("x")
    file = candidate_sandbox.__file__
    argv = [sys.executable, "-c", RENAMING_BODY, file, str(own), str(other)]
    end = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)

    assert end.stdout.split() == ["renamed", "refused", "refused"], end.stderr


VANISHING_BODY = """
import pathlib, sys
from py_landlock import Landlock
from kernelkb.measure.process import candidate_sandbox
root, times, apply = pathlib.Path(sys.argv[1]), int(sys.argv[2]), Landlock.apply

def lose_one_and_apply(rules):
    global times
    times -= 1
    if times >= 0:
        (root / f"passing{times}").unlink()
    apply(rules)

Landlock.apply = lose_one_and_apply
policy = {"folder": str(root / "own"), "writable": [], "fork": True, "hidden": [str(root / "job")]}
candidate_sandbox._apply_landlock(policy)
try:
    print((root / "job" / "asked").read_text())
except PermissionError:
    print("refused")
"""


@pytest.mark.parametrize(("times", "end"), [(1, "refused"), (60, "come and go too quickly")])
def test_a_file_that_goes_meanwhile_opens_none_that_is_hidden(tmp_path, times, end):
    """Rules are made of what was listed; other programs make and remove files beside a job."""
    if "landlock" not in candidate_sandbox.detect_layers()[0]:
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "own").mkdir()
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "asked").write_text("what is asked")
    for number in range(times):
        (tmp_path / f"passing{number}").touch()
    argv = [sys.executable, "-c", VANISHING_BODY, str(tmp_path), str(times)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)

    assert (done.stdout + done.stderr).strip().endswith(end)


def test_a_folder_that_cannot_be_listed_opens_nothing_hidden_below(tmp_path, monkeypatch):
    """As /home on a machine with many users: it may be entered, and not listed."""
    (tmp_path / "user" / "project" / "records").mkdir(parents=True)
    (tmp_path / "user" / "tools").mkdir()

    def refuse_one(path, scan=os.scandir):
        if path == str(tmp_path):
            raise PermissionError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse_one)
    hidden = tmp_path / "user" / "project" / "records"
    visible = list(candidate_sandbox._list_visible([str(hidden)]))

    assert str(tmp_path / "user" / "tools") in visible
    assert not any(hidden.is_relative_to(path) for path in visible)


LOOKS_AROUND = """
  const char* names[] = {"../judge.json", "../judge.log", "../progress", "../result.json"};
  for (const char* name : names)
    if (std::FILE* file = std::fopen(name, "r")) return std::fclose(file), 7;
  if (DIR* folder = opendir(".."))
    while (dirent* entry = readdir(folder))
      if (std::strstr(entry->d_name, "check") || std::strstr(entry->d_name, "bench")) return 8;
  char path[64], line[4096] = {};
  std::snprintf(path, sizeof path, "/proc/%d/cmdline", getppid());
  if (std::FILE* file = std::fopen(path, "r")) {
    const std::size_t size = std::fread(line, 1, sizeof line - 1, file);
    std::fclose(file);
    for (std::size_t at = 0; at < size; at += std::strlen(line + at) + 1) {
      // The checkout may lie in a folder of any name; the job's folder and last names may not.
      const char* own = std::strstr(line + at, "kernelkb-job-");
      const char* last = std::strrchr(line + at, '/');
      const char* name = own ? own : last ? last : line + at;
      if (std::strstr(name, "check") || std::strstr(name, "bench")) return 9;
    }
  }
  return 0;
"""


def test_no_file_around_a_candidate_says_what_is_asked_of_it(project):
    source = make_broken_kernel(project, "right", "curious") / "naive.cpp"
    head = "#include <dirent.h>\n#include <unistd.h>\n" + HEAD
    source.write_text(f"{head}{CORRECT_BODY}{LOOKS_AROUND}}}\n")
    found = bench_variant("curious", target="cpu", options=BenchOptions(budget_s=0.1))

    assert found.verdict in ("faster", "slower", "inconclusive"), found.detail
