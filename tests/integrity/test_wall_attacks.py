"""Candidates that look for a way past the walls: system calls, names, locks, processes, memory."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from attacks import write_attack
from processes import find_processes

from kernelkb.actions.kernels.measure_variant import bench_variant, build_prepared, check_variant
from kernelkb.actions.project.bench_target import prepare
from kernelkb.errors import KbError
from kernelkb.measure.bench.bench import make_job
from kernelkb.measure.job_specs import make_candidate_spec
from kernelkb.measure.process import candidate_sandbox
from kernelkb.measure.process.worker_jobs import keep_own_cores
from kernelkb.measure.subject import BenchOptions
from kernelkb.measure.worker.judge.procfs import ProcessPauser, share_core

HONEST_BODY = "  honest(x, y, rows, cols);\n"

REFUSED_CALLS = {
    "System V memory": ("shmget", 0, 4096, 0o1600),
    "System V memory of another": ("shmat", 0, 0, 0),
    "System V semaphores": ("semget", 0, 1, 0o1600),
    "System V messages": ("msgget", 0, 0o1600),
    "a message queue": ("mq_open", "NAME", os.O_CREAT | os.O_RDWR, 0o600, 0),
    "the end of a message queue": ("mq_unlink", "NAME"),
    "an interval timer": ("timer_create", 1, 0, "BUFFER"),
    "a key": ("add_key", "NAME", "NAME", "NAME", 1, -2),
    "a key of another": ("request_key", "NAME", "NAME", 0, 0),
    "a keyring": ("keyctl", 0, -2, 1),
    "faults that it handles": ("userfaultfd", 1),
    "hidden memory": (447, 0),
    "a ring": (425, 4, "BUFFER"),
    "entering a ring": (426, -1, 0, 0, 0, 0, 0),
    "reading by itself": ("io_setup", 1, "BUFFER"),
    "pages of shared memory": ("fallocate", -1, 3, 0, 4096),
    "pages of its shared memory": ("madvise", 0, 4096, 9),
    "counters": ("perf_event_open", "BUFFER", 0, -1, -1, 0),
    "memory of another": ("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0),
    "advice for another": (440, -1, 0, 0, 4, 0),
    "memory of one that ends": (448, -1, 0),
    "a descriptor of another": (438, -1, 0, 0),
    "a signal by descriptor": (424, -1, 0, 0, 0),
    "comparing with another": ("kcmp", os.getpid(), os.getpid(), 0, 0, 0),
    "a personality": ("personality", 0x0040000),
    "quotas": ("quotactl", -1, 0, 0, 0),
    "quotas by descriptor": (443, -1, -1, 0, 0),
    "a lease": ("fcntl", 1, 1024, 0),
    "news of a folder": ("fcntl", 1, 1026, 0),
    "the owner of a file": ("fcntl", 1, 8, 0),
    "its orphans": ("prctl", 36, 1, 0, 0, 0),
    "hiding from the judge": ("prctl", 4, 0, 0, 0, 0),
    "a child of the judge": ("clone", 0x8000 | signal.SIGCHLD, 0, 0, 0, 0),
    "a user namespace": ("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "priorities of another": ("setpriority", 0, os.getpid(), 15),
    "I/O priorities of another": ("ioprio_set", 1, os.getpid(), 3 << 13),
    "limits of another": ("prlimit64", os.getpid(), 7, 0, "BUFFER"),
    "scheduling of another": ("sched_setattr", os.getpid(), "BUFFER", 0),
    "cores of the judge": ("sched_setaffinity", os.getpid(), 8, "BUFFER"),
    "attributes of a file": ("ioctl", 0, 0x40086602, "BUFFER"),
    "a mount by descriptor": (428, -100, "NAME", 1),
}
"""What is reached for → a system call by name, or by its number where libseccomp may not know it.

Arguments that another error would greet than the EPERM of the filter.
"""
RAW_CALLS_PROGRAM = """
import ctypes, errno, json, runpy, sys
import pyseccomp
sandbox = runpy.run_path(sys.argv[1])
calls, allowed, fork = json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4] == "forks"
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(b"\\1" * 7 + b"\\0", 4096)
texts = {"NAME": b"kernelkb-was-here", "BUFFER": buffer}

def call(name, *arguments):
    number = name if isinstance(name, int) else pyseccomp.resolve_syscall(0, name)
    values = [texts[a] if isinstance(a, str) else ctypes.c_long(a) for a in arguments]
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *values)
    return "done" if done != -1 else errno.errorcode[ctypes.get_errno()]

sandbox["_apply_seccomp"]({"fork": fork, "families": []})
print(json.dumps([{k: call(*v) for k, v in some.items()} for some in (calls, allowed)]))
"""
ALLOWED_CALLS = {
    "its own cores": ("sched_setaffinity", 0, 8, "BUFFER"),
    "its own priority": ("setpriority", 0, 0, 5),
    "its own limits": ("prlimit64", 0, 7, 0, "BUFFER"),
    "its personality": ("personality", 0xFFFFFFFF),
    "its name": ("prctl", 15, "NAME", 0, 0, 0),
    "barriers": ("membarrier", 0, 0, 0),
    "a memory file": ("memfd_create", "NAME", 0),
    "advice on its own memory": ("madvise", 0, 0, 4),
    "a timer to read": ("timerfd_create", 1, 0),
}


@pytest.mark.defends(
    "P2",
    attack="state that outlives a process: shared memory, queues, semaphores, keys, leases",
    defence="seccomp",
)
@pytest.mark.parametrize("kind", ["forks", "computes"])
def test_each_system_call_that_reaches_beyond_the_process_is_refused(kind):
    argv = [sys.executable, "-c", RAW_CALLS_PROGRAM, candidate_sandbox.__file__]
    argv += [json.dumps(REFUSED_CALLS), json.dumps(ALLOWED_CALLS), kind]
    end = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert end.returncode == 0, end.stderr
    refused, allowed = json.loads(end.stdout)

    assert {what for what, error in refused.items() if error != "EPERM"} == set()
    assert {what for what, error in allowed.items() if error != "done"} == set()


FORKING_CANDIDATE = """
import ctypes, errno, os, subprocess, threading
import torch

libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(435, 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS  # clone3
assert subprocess.run(["sh", "-c", "(echo built)"], capture_output=True).stdout == b"built\\n"
pid = os.fork()
if pid == 0:
    os._exit(3)
assert os.waitpid(pid, 0)[1] == 3 << 8
cores = os.sched_getaffinity(0)
bound = threading.Thread(target=lambda: os.sched_setaffinity(threading.get_native_id(), cores))
bound.start()
bound.join()


def softmax(x):
    return torch.softmax(x, dim=-1)
"""


@pytest.mark.slow
def test_a_python_candidate_starts_compilers_without_clone3(project):
    name = write_attack(project, FORKING_CANDIDATE, python=True, returns=True)
    found = check_variant(name, target="cpu")

    assert found.status == "correct", found.detail


OPENMP_BODY = """
  int narrow = 0, all = 0;
  #pragma omp parallel reduction(+ : narrow, all)
  {
    cpu_set_t own;
    sched_getaffinity(0, sizeof own, &own);
    narrow += CPU_COUNT(&own) == 1;
    all += 1;
  }
  if (narrow != all) return 66;
  honest(x, y, rows, cols);
"""


@pytest.mark.slow
def test_openmp_binds_its_threads_to_cores_inside_the_sandbox(project):
    name = write_attack(project, OPENMP_BODY)
    folder = project / "kernels" / name
    for file, old, new in (
        ("kernel.yaml", "[-pthread]", "[-pthread, -fopenmp]"),
        ("candidate.cpp", "#include <cmath>", "#include <cmath>\n#include <sched.h>"),
    ):
        (folder / file).write_text((folder / file).read_text().replace(old, new))
    found = check_variant(name, target="cpu")

    assert found.status == "correct", found.detail


LOCKING_BODY = """
  const std::string project = "@PROJECT@";
  for (const char* file : {"/sessions/2026-01-01-notes.md", "/.kb/measurements.db-shm"}) {
    const int opened = open((project + file).c_str(), O_RDONLY);
    if (opened >= 0) return 66;
  }
  if (open((project + "/kernels/attacked/kernel.yaml").c_str(), O_RDONLY) < 0) return 67;
  if (open((project + "/notes.txt").c_str(), O_RDONLY) < 0) return 68;
  honest(x, y, rows, cols);
"""


@pytest.mark.slow
@pytest.mark.defends(
    "P5",
    attack="a lock on the project's records",
    defence="they cannot be opened",
)
def test_records_of_the_project_cannot_be_opened_and_so_not_locked(project):
    (project / ".kb").mkdir()
    for file in ("sessions/2026-01-01-notes.md", ".kb/measurements.db-shm", "notes.txt"):
        (project / file).write_text("x")
    (project / "link").symlink_to(project / ".kb")
    body = LOCKING_BODY.replace("@PROJECT@", str(project))
    found = check_variant(write_attack(project, body), target="cpu")

    assert found.status == "correct", found.detail


ODD_NAME_BODY = """
  prctl(PR_SET_NAME, "\\xff) \\xfe");
  honest(x, y, rows, cols);
"""


def write_with(project, body, header):
    name = write_attack(project, body)
    source = project / "kernels" / name / "candidate.cpp"
    source.write_text(f"#include <{header}>\n{source.read_text()}")
    return name


@pytest.mark.slow
def test_a_process_whose_name_is_no_text_is_judged_like_others(project):
    name = write_with(project, ODD_NAME_BODY, "sys/prctl.h")

    assert bench_variant(name, target="cpu").verdict not in ("invalid", "incorrect")


@pytest.mark.slow
def test_an_end_by_a_signal_without_a_name_is_told(project):
    body = "  raise(SIGRTMIN + 1);\n" + HONEST_BODY
    found = check_variant(write_attack(project, body), target="cpu")

    assert found.status == "crashed"
    assert found.detail.startswith(f"it died of signal {signal.SIGRTMIN + 1}")


HIDDEN_NAME_CANDIDATE = """
import ctypes, os, subprocess, sys
import torch

work = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\\\xff'); print(flush=True)\\n"
work += "while True: pass"
child = subprocess.Popen([sys.executable, "-c", work, "{word}"], stdout=subprocess.PIPE)
child.stdout.readline()


def softmax(x):
    return torch.softmax(x, dim=-1)
"""
ABANDONING_CANDIDATE = """
import os, subprocess, sys
import torch

subprocess.run(["sh", "-c", "(trap '' TERM; exec sh -c 'while :; do :; done' {word}) & true"])


def softmax(x):
    return torch.softmax(x, dim=-1)
"""
HOPPING_CANDIDATE = """
import os, time
import torch

if os.fork() == 0:
    for f in range(64):
        try:
            os.close(f)
        except OSError:
            pass
    end = time.time() + 60
    while time.time() < end:
        if os.fork():
            os._exit(0)


def softmax(x):
    return torch.softmax(x, dim=-1)
"""


@pytest.mark.slow
@pytest.mark.defends(
    "P4",
    attack=(
        "a process that works on beside the rival, under a new pid each moment or a name that"
        " is no text"
    ),
    defence="orphans become the judge's children, which it looks for before anything else is timed",
)
@pytest.mark.parametrize(
    "body",
    [
        HIDDEN_NAME_CANDIDATE,
        pytest.param(HOPPING_CANDIDATE, marks=pytest.mark.slow),
        pytest.param(ABANDONING_CANDIDATE, marks=pytest.mark.slow),
    ],
    ids=["a child whose name is no text", "a process that forks on and on", "an orphan"],
)
def test_a_process_that_works_beside_the_candidate_is_found_before_it_is_timed(project, body):
    word = f"{abs(hash(project)) % 10**6}"
    name = write_attack(project, body.replace("{word}", word), python=True, returns=True)
    found = bench_variant(name, target="cpu")

    assert found.verdict == "invalid", found
    assert found.detail == "a process that it started went on after its call"
    assert not find_processes(f" {word}")


BASELINE = """
import os, signal
import torch

count = 0


def softmax(x):
    return torch.softmax(x, dim=-1)


def vendor(x):
    global count
    count += 1
    if count > {calls}:
        os.kill(os.getpid(), signal.{signal})
    return torch.softmax(x, dim=-1)
"""


@pytest.mark.defends(
    "P3",
    attack="a baseline that is killed, so that a slower one is the rival",
    defence="the bench is `invalid`",
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "end"), [(2, "SIGKILL"), pytest.param(0, "SIGBUS", marks=pytest.mark.slow)]
)
def test_a_baseline_that_a_signal_ends_makes_the_bench_invalid(project, calls, end):
    """Left out, it would leave a slower one to compare with."""
    name = write_attack(project, HONEST_BODY)
    folder = project / "kernels" / name
    (folder / "reference.py").write_text(BASELINE.format(calls=calls, signal=end))
    with (folder / "kernel.yaml").open("a") as file:
        file.write("baselines:\n  - {name: vendor, file: reference.py, function: vendor}\n")
    found = bench_variant(name, target="cpu")

    assert found.verdict == "invalid", found
    assert found.detail == (
        f"a baseline was killed while the candidate was loaded; vendor: it died of {end}"
    )
    assert found.cure


@pytest.mark.slow
def test_a_killed_judge_is_told_as_such(project):
    name = write_attack(project, HONEST_BODY)
    reference = project / "kernels" / name / "reference.py"
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    reference.write_text(kill + reference.read_text())

    with pytest.raises(KbError, match=r"^the judge of attacked was killed .*\(SIGKILL\)"):
        check_variant(name, target="cpu")


READABLE_PROGRAM = """
import ctypes, os, signal, sys
from kernelkb.measure.worker.judge.procfs import is_memory_readable
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
libc = ctypes.CDLL(None)
for dumpable in (1, 0):
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        libc.prctl(4, dumpable)
        os.write(done, b"x")
        signal.pause()
    os.read(ready, 1)
    print(is_memory_readable(child), flush=True)
    os.kill(child, signal.SIGKILL)
"""


def test_a_child_that_hides_its_memory_is_told_from_a_machine_that_forbids_to_read():
    argv = [sys.executable, "-c", READABLE_PROGRAM]
    end = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)

    assert end.stdout.split() == ["True", "False"], end.stderr


HIDDEN_MEMORY_PROGRAM = """
import json, sys
from pathlib import Path
from kernelkb.measure.worker.judge import procfs
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, UnsupportedHost

def refuse(*_):
    raise UnsupportedHost("this machine does not let a process read its child's memory")

runner = RunnerProcess("candidate", json.loads(sys.stdin.read()), "cpu", Path(sys.argv[1]))
try:
    runner.wait_ready()
    procfs.read_memory = refuse
    runner.read_memory([(0, 1)])
except RunnerDied as error:
    print(error)
finally:
    runner.close()
"""


@pytest.mark.defends(
    "P7",
    attack="hiding its memory, so that the machine is blamed",
    defence=(
        "seccomp; and memory that could be read before the code was loaded is the candidate's fault"
    ),
)
def test_a_runner_that_hides_its_memory_is_blamed_and_not_the_machine(project, tmp_path):
    """Where seccomp is absent, so that it can hide.

    The judge counts and kills what its session holds, so it is a session of its own.
    """
    place = prepare(write_attack(project, HONEST_BODY), target="cpu")
    spec = json.dumps(make_candidate_spec(place.subject, build_prepared(place)))
    end = subprocess.run(
        [sys.executable, "-c", HIDDEN_MEMORY_PROGRAM, str(tmp_path)],
        input=spec,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        start_new_session=True,
    )

    assert "it hid its memory" in end.stdout, end.stderr


WOKEN_PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied

runner = RunnerProcess("candidate", json.loads(sys.stdin.read()), "cpu", Path(sys.argv[1]))
runner.wait_ready()
os.kill(runner.pid, signal.SIGCONT)
time.sleep(0.2)
for _ in range(2):
    try:
        runner.ask({"command": "ready"}, 10)
    except RunnerDied as error:
        print(error)
runner.close()
"""


@pytest.mark.slow
def test_why_a_runner_was_killed_is_told_again_where_the_first_time_was_passed_over(
    project, tmp_path
):
    """As where buffers are released: what a runner answers there does not matter."""
    place = prepare(write_attack(project, HONEST_BODY), target="cpu")
    spec = json.dumps(make_candidate_spec(place.subject, build_prepared(place)))
    argv = [sys.executable, "-c", WOKEN_PROGRAM, str(tmp_path)]
    end = subprocess.run(
        argv, input=spec, capture_output=True, text=True, timeout=120, start_new_session=True
    )
    first, second = end.stdout.splitlines()

    assert first.startswith("it did not stay stopped"), end.stderr
    assert second == first


TIMED_PROGRAM = """
import json, sys
from pathlib import Path
from kernelkb.measure.worker.judge import runner_process
from kernelkb.measure.worker.judge.case_buffers import CaseBuffers
from kernelkb.measure.worker.main import run_judge
from kernelkb.measure.worker.judge.runner_process import LimitWatch
from kernelkb.measure.worker.judge.runner_process import RunnerProcess

events = []
runner_process._WATCH_INTERVAL_S = 0.0

def note(owner, name, word):
    method = getattr(owner, name)
    def note_and_call(self, *arguments, **options):
        given = arguments[0]["command"] if word == "ask" else word
        events.append(given)
        return method(self, *arguments, **options)
    setattr(owner, name, note_and_call)

note(RunnerProcess, "ask", "ask")
note(LimitWatch, "find_exceeded", "watch")
note(CaseBuffers, "sync_and_copy", "end")
job = json.loads(sys.stdin.read())
result = run_judge(job, Path(sys.argv[1]))
print(json.dumps([sorted(result), events]))
"""


@pytest.mark.slow
def test_limits_are_not_looked_for_while_the_clock_runs(project, tmp_path):
    """Reading all of /proc took 10 ms, on top of a call of 10 ms: of the candidate only."""
    place = prepare(write_attack(project, HONEST_BODY), target="cpu")
    workload = next(iter(place.subject.kernel_folder.kernel.workloads))
    job = make_job(place.subject, build_prepared(place), workload, BenchOptions(budget_s=0.2))
    end = subprocess.run(
        [sys.executable, "-c", TIMED_PROGRAM, str(tmp_path)],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        start_new_session=True,
    )
    result, events = json.loads(end.stdout)
    before_end = [events[at - 1] for at, event in enumerate(events) if event == "end"]

    assert result == ["times"], end.stderr
    assert len(before_end) > 30
    # The others took over 50 ms on a busy machine, and are watched meanwhile.
    assert before_end.count("run-batch") > len(before_end) / 2
    assert events.count("watch") > len(before_end)


@pytest.fixture
def thread():
    """The thread id of a thread that waits."""
    started, end = threading.Event(), threading.Event()
    ids = []

    def wait():
        ids.append(threading.get_native_id())
        started.set()
        end.wait()

    worker = threading.Thread(target=wait)
    worker.start()
    started.wait()
    yield ids[0]
    end.set()
    worker.join()


def skip_on_one_core():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core only")


@pytest.mark.defends(
    "P6",
    attack="other cores for the judge or for `kb`",
    defence="each restores its own",
)
def test_the_judge_takes_back_its_cores_when_a_runner_stops(thread):
    skip_on_one_core()
    before = os.sched_getaffinity(thread)
    child = subprocess.Popen(["sleep", "60"])
    try:
        pauser = ProcessPauser(child)
        pauser.pause()
        assert pauser.activity_while_stopped() is None
        pauser.resume()
        os.sched_setaffinity(thread, {min(before)})
        pauser.pause()
    finally:
        child.kill()
        child.wait()

    assert os.sched_getaffinity(thread) == before


def test_a_job_leaves_the_engine_its_cores(thread):
    skip_on_one_core()
    before = os.sched_getaffinity(thread)
    outer, inner = keep_own_cores(), keep_own_cores()
    outer.__enter__()
    os.sched_setaffinity(thread, {min(before)})
    inner.__enter__()
    outer.__exit__(None, None, None)
    after_first = os.sched_getaffinity(thread)
    os.sched_setaffinity(thread, {max(before)})
    inner.__exit__(None, None, None)

    assert (after_first, os.sched_getaffinity(thread)) == (before, before)


@pytest.mark.parametrize("is_bound", [True, False])
def test_the_judge_waits_on_the_core_of_the_thread_that_answers(is_bound):
    skip_on_one_core()
    before = os.sched_getaffinity(0)
    child = subprocess.Popen(["sleep", "60"])
    try:
        if is_bound:
            os.sched_setaffinity(child.pid, {max(before)})
        with share_core(child.pid):
            inside = os.sched_getaffinity(0)
    finally:
        child.kill()
        child.wait()
    with share_core(child.pid):
        without_a_process = os.sched_getaffinity(0)

    assert inside == ({max(before)} if is_bound else before)
    assert without_a_process == os.sched_getaffinity(0) == before
