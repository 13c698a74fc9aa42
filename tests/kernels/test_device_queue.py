"""Who measures on a device is alone with it, and the others wait in order."""

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

from kernelkb.actions.kernels import bench_variant
from kernelkb.measure.process.device_queue import exclusive_device, queue_wait_s
from kernelkb.measure.process.progress import progress_listener
from kernelkb.measure.process.subprocesses import OperationCancelled, cancel_on


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue of this test's own."""
    folder = tmp_path / "turns"
    folder.mkdir()
    monkeypatch.setenv("KB_TURNS", str(folder))
    return folder


def device_title():
    return "the device"


STARTED_PROCESSES = []


@pytest.fixture(autouse=True)
def kill_started_processes():
    """End what a test started."""
    yield
    while STARTED_PROCESSES:
        one = STARTED_PROCESSES.pop()
        kill_process(one)
        one.stdout.close()


def start_process(body, *words):
    """Start a Python process that may take turns."""
    head = (
        "import os, sys, time\nfrom kernelkb.measure.process.device_queue import exclusive_device\n"
    )
    argv = [sys.executable, "-c", head + textwrap.dedent(body), *map(str, words)]
    one = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    STARTED_PROCESSES.append(one)
    return one


def start_holder(device="it"):
    """Start a process that has the turn."""
    one = start_process(HOLDER_PROGRAM, device)
    one.stdout.readline()
    return one


def kill_process(one):
    one.kill()
    one.wait()


def list_tickets(queue):
    return sorted(int(one.name) for one in queue.glob("*/*"))


def wait_until(true, seconds=30):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


MANY_PROGRAM = """
marker, log = sys.argv[1:3]
for _ in range(20):
    with exclusive_device("it", str) as why:
        assert why is None, why
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        time.sleep(0.002)
        os.unlink(marker)
with open(log, "a") as file:
    file.write("done\\n")
"""


def test_of_eight_processes_never_two_have_the_same_device(queue, tmp_path):
    crowd = [start_process(MANY_PROGRAM, tmp_path / "marker", tmp_path / "log") for _ in range(8)]
    codes = [one.wait(120) for one in crowd]

    assert codes == [0] * 8
    assert (tmp_path / "log").read_text() == "done\n" * 8
    assert list_tickets(queue) == []


IN_ORDER_PROGRAM = """
with exclusive_device("it", str):
    with open(sys.argv[2], "a") as file:
        file.write(sys.argv[1])
"""


def test_waiters_are_served_in_arrival_order(queue, tmp_path):
    log = tmp_path / "log"
    crowd = []
    with exclusive_device("it", device_title):
        for letter in "abcdef":
            crowd.append(start_process(IN_ORDER_PROGRAM, letter, log))
            wait_until(lambda: len(list_tickets(queue)) == len(crowd) + 1)
    for one in crowd:
        one.wait(30)

    assert log.read_text() == "abcdef"


def test_another_device_does_not_wait(queue):
    with exclusive_device("one", device_title), exclusive_device("other", device_title) as why:
        assert why is None
    assert queue_wait_s() == 0


HOLDER_PROGRAM = """
with exclusive_device(sys.argv[1] if sys.argv[1:] else "it", str):
    print("holds", flush=True)
    time.sleep(60)
"""


def test_a_holder_that_is_killed_holds_nothing(queue):
    holder = start_holder()
    kill_process(holder)
    heard = []
    with progress_listener(heard.append), exclusive_device("it", device_title) as why:
        assert why is None

    assert heard == []
    assert list_tickets(queue) == []


def test_a_killed_waiter_leaves_the_queue(queue):
    holder = start_holder()
    waiter = start_process(HOLDER_PROGRAM)
    wait_until(lambda: len(list_tickets(queue)) == 2)
    heard = []

    def listen(now):
        heard.append(now)
        if len(heard) == 1:
            waiter.kill()
        if len(heard) == 2:
            holder.kill()

    with progress_listener(listen), exclusive_device("it", device_title):
        pass

    assert heard == [
        "waiting for the device: 2 before us",
        "waiting for the device: 1 before us",
        "the device is free",
    ]


SURVIVOR_PROGRAM = """
import fcntl
marker = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    with exclusive_device("it", str) as why:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(sys.argv[2], "a") as file:
            file.write("x")
        time.sleep(0.003)
        fcntl.flock(marker, fcntl.LOCK_UN)
"""


def test_processes_that_are_killed_at_random_never_let_two_in(queue, tmp_path):
    """The marker is a lock as well: a process that is killed cannot leave it behind."""
    draw, log = random.Random(7), tmp_path / "log"
    log.touch()
    crowd = [start_process(SURVIVOR_PROGRAM, tmp_path / "marker", log) for _ in range(4)]
    failed = 0
    for _ in range(20):
        before = log.stat().st_size
        wait_until(lambda before=before: log.stat().st_size > before)
        at = draw.randrange(4)
        failed += crowd[at].poll() is not None
        kill_process(crowd[at])
        crowd[at] = start_process(SURVIVOR_PROGRAM, tmp_path / "marker", log)
    failed += sum(one.poll() is not None for one in crowd)
    for one in crowd:
        one.kill()
        one.wait()
    with exclusive_device("it", device_title) as why:
        pass

    assert failed == 0
    assert why is None
    assert list_tickets(queue) == []


def test_a_call_that_is_cancelled_waits_no_longer(queue):
    holder = start_holder()
    stop = threading.Event()
    with (
        cancel_on(stop),
        progress_listener(lambda _: stop.set()),
        pytest.raises(OperationCancelled),
        exclusive_device("it", device_title),
    ):
        pytest.fail("there was somebody before it")
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

    crowd = [threading.Thread(target=work) for _ in range(3)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()

    assert most == [1] * 30


def test_a_nested_device_lock_is_the_same_lock(queue):
    with exclusive_device("it", device_title), exclusive_device("it", device_title):
        held = len(list_tickets(queue))

    assert held == 1
    assert list_tickets(queue) == []


def test_leaving_a_nested_lock_keeps_the_outer_one(queue):
    with exclusive_device("it", device_title):
        with exclusive_device("it", device_title):
            pass
        held = len(list_tickets(queue))

    assert held == 1


def test_a_forked_child_does_not_hold_the_device_lock(queue):
    forks = """
    with exclusive_device("it", str):
        if os.fork() == 0:
            print("forked", flush=True)
            time.sleep(60)
        print("holds", flush=True)
        time.sleep(60)
    """
    holder = start_process(forks)
    said = {holder.stdout.readline(), holder.stdout.readline()}
    kill_process(holder)
    heard = []
    with progress_listener(heard.append), exclusive_device("it", device_title):
        pass
    child = [p for p in Path("/proc").glob("[0-9]*") if is_running_body(p, forks)]
    for one in child:
        os.kill(int(one.name), 9)

    assert said == {"forked\n", "holds\n"}
    assert len(child) == 1
    assert heard == []


def is_running_body(process, body):
    with contextlib.suppress(OSError):
        return textwrap.dedent(body).encode() in (process / "cmdline").read_bytes()
    return False


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KB_TURNS", str(tmp_path / "file"))
    heard = []
    with progress_listener(heard.append), exclusive_device("it", device_title) as why:
        pass

    assert "others may have measured at the same time" in why
    assert why.endswith("set KB_TURNS to a folder that can be written")
    assert heard == [why]


def test_a_bench_without_the_device_lock_gives_a_warning(project, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KB_TURNS", str(tmp_path / "file"))
    timed = bench_variant("row_softmax", "vectorized", "cpu", "tiny", budget_s=0.2)

    assert timed.speedup
    assert any("KB_TURNS" in warning for warning in timed.warnings)


def test_queueing_can_be_switched_off(queue, monkeypatch):
    monkeypatch.setenv("KB_TURNS", "off")
    with exclusive_device("it", device_title) as why:
        held = list_tickets(queue)

    assert why is None
    assert held == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_tickets_of_another_user_count_like_our_own(queue):
    queue.chmod(0o1777)
    for above in queue.parents:
        if above == Path("/tmp"):
            break
        above.chmod(above.stat().st_mode | 0o011)
    other = "os.setuid(65534)\n"
    with exclusive_device("it", device_title):
        pass  # the folder is root's from now on
    holder = start_process(other + HOLDER_PROGRAM.lstrip())
    holder.stdout.readline()
    waiter = start_process(other + HOLDER_PROGRAM.lstrip())
    wait_until(lambda: len(list_tickets(queue)) == 2)
    kill_process(holder)
    heard = []

    def listen(now):
        heard.append(now)
        waiter.kill()

    with progress_listener(listen), exclusive_device("it", device_title) as why:
        pass

    assert why is None
    assert heard[0] == "waiting for the device: 1 before us"


def test_to_wait_is_no_part_of_the_time_that_a_step_took(queue, project):
    from kernelkb.actions.steps import StepOutcome, StepRunner

    holder = start_holder()
    threading.Timer(2.0, holder.kill).start()

    def work():
        with exclusive_device("it", device_title):
            return queue_wait_s()

    steps = StepRunner()
    waited = steps.run("check", None, work, lambda _: StepOutcome("ok", "it went"))

    assert waited > 1
    assert steps.records[0].seconds < waited


@pytest.mark.parametrize("command", ["bench", "profile", "triage"])
def test_a_command_reports_its_place_in_the_device_queue(queue, project, command):
    holder = start_holder("cpu")
    argv = [sys.executable, "-c", "from kernelkb.cli import main; main()", command, "row_softmax"]
    child = subprocess.Popen(
        [*argv, "--target", "cpu"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    said = child.stderr.readline()
    kill_process(child)
    child.stderr.close()

    assert holder.poll() is None
    assert said == "kb: waiting for the CPU: 1 before us\n"
