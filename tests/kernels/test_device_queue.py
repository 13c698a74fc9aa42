"""The device queue: one measurement at a time on a device, in order of arrival."""

import contextlib
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.measure.process.device_queue import exclusive_device, queue_wait_s
from kernelkb.measure.subject import BenchOptions
from kernelkb.progress import OperationCancelled, ProgressEvent, cancel_on, progress_listener


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue folder that only this test uses."""
    folder = tmp_path / "queue"
    folder.mkdir()
    monkeypatch.setenv("KB_DEVICE_QUEUE", str(folder))
    return folder


def device_title():
    return "the device"


STARTED_PROCESSES = []


@pytest.fixture(autouse=True)
def kill_started_processes():
    """Kill the processes that a test started."""
    yield
    while STARTED_PROCESSES:
        process = STARTED_PROCESSES.pop()
        kill_process(process)
        process.stdout.close()


def start_process(body, *words):
    """Start a Python process that can lock devices."""
    head = (
        "import os, sys, time\nfrom kernelkb.measure.process.device_queue import exclusive_device\n"
    )
    argv = [sys.executable, "-c", head + textwrap.dedent(body), *map(str, words)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    STARTED_PROCESSES.append(process)
    return process


def start_holder(device="it"):
    """Start a process that holds the device."""
    process = start_process(HOLDER_PROGRAM, device)
    process.stdout.readline()
    return process


def kill_process(process):
    process.kill()
    process.wait()


def list_tickets(queue):
    return sorted(int(ticket.name) for ticket in queue.glob("*/*"))


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


CONTENDER_PROGRAM = """
marker, log = sys.argv[1:3]
for _ in range(20):
    with exclusive_device("it", str) as warning:
        assert warning is None, warning
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        time.sleep(0.002)
        os.unlink(marker)
with open(log, "a") as file:
    file.write("done\\n")
"""


def test_eight_processes_never_hold_the_same_device_at_once(queue, tmp_path):
    processes = [
        start_process(CONTENDER_PROGRAM, tmp_path / "marker", tmp_path / "log") for _ in range(8)
    ]
    codes = [process.wait(120) for process in processes]

    assert codes == [0] * 8
    assert (tmp_path / "log").read_text() == "done\n" * 8
    assert list_tickets(queue) == []


ORDER_PROGRAM = """
with exclusive_device("it", str):
    with open(sys.argv[2], "a") as file:
        file.write(sys.argv[1])
"""


def test_waiters_are_served_in_arrival_order(queue, tmp_path):
    log = tmp_path / "log"
    processes = []
    with exclusive_device("it", device_title):
        for letter in "abcdef":
            processes.append(start_process(ORDER_PROGRAM, letter, log))
            wait_until(lambda: len(list_tickets(queue)) == len(processes) + 1)
    for process in processes:
        process.wait(120)

    assert log.read_text() == "abcdef"


def test_another_device_does_not_wait(queue):
    with exclusive_device("one", device_title), exclusive_device("other", device_title) as warning:
        assert warning is None
    assert queue_wait_s() == 0


HOLDER_PROGRAM = """
with exclusive_device(sys.argv[1] if sys.argv[1:] else "it", str):
    print("holds", flush=True)
    time.sleep(600)
"""


def test_a_killed_holder_releases_the_device(queue):
    holder = start_holder()
    kill_process(holder)
    messages = []
    with progress_listener(messages.append), exclusive_device("it", device_title) as warning:
        assert warning is None

    assert messages == []
    assert list_tickets(queue) == []


def test_a_killed_waiter_leaves_the_queue(queue):
    holder = start_holder()
    waiter = start_process(HOLDER_PROGRAM)
    wait_until(lambda: len(list_tickets(queue)) == 2)
    events = []

    def listen(event):
        events.append(event)
        if len(events) == 1:
            waiter.kill()
        if len(events) == 2:
            holder.kill()

    with progress_listener(listen), exclusive_device("it", device_title):
        pass

    assert events == [
        ProgressEvent("waiting for the device: 2 before us", "waiting"),
        ProgressEvent("waiting for the device: 1 before us", "waiting"),
        ProgressEvent("the device is free"),
    ]


SURVIVOR_PROGRAM = """
import fcntl
marker = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    with exclusive_device("it", str) as warning:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(sys.argv[2], "a") as file:
            file.write("x")
        time.sleep(0.003)
        fcntl.flock(marker, fcntl.LOCK_UN)
"""


def test_random_kills_never_let_two_processes_in(queue, tmp_path):
    """The marker is a flock too, so a killed process cannot leave it behind."""
    draw, log = random.Random(7), tmp_path / "log"
    log.touch()
    processes = [start_process(SURVIVOR_PROGRAM, tmp_path / "marker", log) for _ in range(4)]
    failed = 0
    for _ in range(20):
        before = log.stat().st_size
        wait_until(lambda before=before: log.stat().st_size > before)
        at = draw.randrange(4)
        failed += processes[at].poll() is not None
        kill_process(processes[at])
        processes[at] = start_process(SURVIVOR_PROGRAM, tmp_path / "marker", log)
    failed += sum(process.poll() is not None for process in processes)
    for process in processes:
        process.kill()
        process.wait()
    with exclusive_device("it", device_title) as warning:
        pass

    assert failed == 0
    assert warning is None
    assert list_tickets(queue) == []


def test_a_cancelled_call_stops_waiting(queue):
    holder = start_holder()
    stop = threading.Event()
    with (
        cancel_on(stop),
        progress_listener(lambda _: stop.set()),
        pytest.raises(OperationCancelled),
        exclusive_device("it", device_title),
    ):
        pytest.fail("it did not wait for the holder")
    left = list_tickets(queue)
    kill_process(holder)

    assert len(left) == 1


def test_two_threads_of_a_process_are_serialised(queue):
    inside, most = [], []

    def work():
        for _ in range(10):
            with exclusive_device("it", device_title):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1] * 30


def test_a_nested_device_lock_is_the_same_lock(queue):
    with exclusive_device("it", device_title), exclusive_device("it", device_title):
        tickets = len(list_tickets(queue))

    assert tickets == 1
    assert list_tickets(queue) == []


def test_leaving_a_nested_lock_keeps_the_outer_one(queue):
    with exclusive_device("it", device_title):
        with exclusive_device("it", device_title):
            pass
        tickets = len(list_tickets(queue))

    assert tickets == 1


def test_a_forked_child_does_not_hold_the_device_lock(queue):
    forks = """
    with exclusive_device("it", str):
        if os.fork() == 0:
            os.write(1, b"forked\\n")  # one write: the parent writes to the same pipe
            time.sleep(60)
        os.write(1, b"holds\\n")
        time.sleep(60)
    """
    holder = start_process(forks)
    lines = {holder.stdout.readline(), holder.stdout.readline()}
    kill_process(holder)
    messages = []
    with progress_listener(messages.append), exclusive_device("it", device_title):
        pass
    child = [p for p in Path("/proc").glob("[0-9]*") if is_running_body(p, forks)]
    for process in child:
        os.kill(int(process.name), 9)

    assert lines == {"forked\n", "holds\n"}
    assert len(child) == 1
    assert messages == []


def is_running_body(process, body):
    with contextlib.suppress(OSError):
        return textwrap.dedent(body).encode() in (process / "cmdline").read_bytes()
    return False


def test_an_unusable_queue_folder_gives_a_warning_and_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KB_DEVICE_QUEUE", str(tmp_path / "file"))
    messages = []
    with progress_listener(messages.append), exclusive_device("it", device_title) as warning:
        pass

    assert "others may have measured at the same time" in warning
    assert warning.endswith("set KB_DEVICE_QUEUE to a folder that can be written")
    assert messages == [ProgressEvent(warning, "notice")]


@pytest.mark.slow
def test_a_bench_without_the_device_lock_gives_a_warning(project, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KB_DEVICE_QUEUE", str(tmp_path / "file"))
    timed = bench_variant(
        "row_softmax", "vectorized", "cpu", "tiny", options=BenchOptions(budget_s=0.2)
    )

    assert timed.speedup
    assert any("KB_DEVICE_QUEUE" in warning for warning in timed.warnings)


@pytest.mark.parametrize("variable", ["KB_DEVICE_QUEUE", "KB_TURNS"])
def test_queueing_can_be_switched_off(queue, monkeypatch, variable):
    monkeypatch.delenv("KB_DEVICE_QUEUE")
    monkeypatch.setenv(variable, "off")
    with exclusive_device("it", device_title) as warning:
        tickets = list_tickets(queue)

    assert warning is None
    assert tickets == []


def test_the_old_variable_still_names_the_queue_folder(tmp_path, monkeypatch):
    """``KB_TURNS`` is read for one release; the folder keeps its older name."""
    monkeypatch.delenv("KB_DEVICE_QUEUE")
    monkeypatch.setenv("KB_TURNS", str(tmp_path))
    with exclusive_device("it", device_title):
        tickets = list(tmp_path.glob("kernelkb-turns-it/*"))

    assert len(tickets) == 1


def test_the_new_variable_wins_over_the_old_one(queue, tmp_path, monkeypatch):
    monkeypatch.setenv("KB_TURNS", str(tmp_path / "other"))
    with exclusive_device("it", device_title):
        tickets = list_tickets(queue)

    assert len(tickets) == 1
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_tickets_of_another_user_count_like_our_own(queue):
    queue.chmod(0o1777)
    for above in queue.parents:
        if above == Path("/tmp"):
            break
        above.chmod(above.stat().st_mode | 0o011)
    other = "os.setuid(65534)\n"
    with exclusive_device("it", device_title):
        pass  # root creates the folder
    holder = start_process(other + HOLDER_PROGRAM.lstrip())
    holder.stdout.readline()
    waiter = start_process(other + HOLDER_PROGRAM.lstrip())
    wait_until(lambda: len(list_tickets(queue)) == 2)
    kill_process(holder)
    messages = []

    def listen(event):
        messages.append(event.text)
        waiter.kill()

    with progress_listener(listen), exclusive_device("it", device_title) as warning:
        pass

    assert warning is None
    assert messages[0] == "waiting for the device: 1 before us"


def test_queue_wait_is_not_counted_in_a_steps_time(queue, project):
    from kernelkb.actions.history.record_result import StepRunner
    from kernelkb.model.records.session import Step

    holder = start_holder()
    release = threading.Timer(1.5, holder.kill)

    def work():
        with exclusive_device("it", device_title):
            return queue_wait_s()

    def release_once(_event):
        if not release.ident:
            release.start()

    steps = StepRunner()
    with progress_listener(release_once):
        waited = steps.run(
            "check", None, work, lambda _, run: Step(**run, status="ok", found="it went")
        )

    assert waited > 1
    assert steps.records[0].seconds < waited


@pytest.mark.parametrize(
    "command",
    ["bench", *(pytest.param(one, marks=pytest.mark.slow) for one in ("profile", "triage"))],
)
def test_a_command_reports_its_place_in_the_device_queue(queue, project, command):
    holder = start_holder("cpu")
    argv = [sys.executable, "-c", "from kernelkb.cli import main; main()", command, "row_softmax"]
    child = subprocess.Popen(
        [*argv, "--target", "cpu"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    line = child.stderr.readline()
    kill_process(child)
    child.stderr.close()

    assert holder.poll() is None
    assert line == "kb: waiting for the CPU: 1 before us\n"
