"""What a candidate may leave to others: memory of its inputs, work after its answer, processes."""

import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from unittest.mock import Mock

import pytest
import torch
from slow_examples import mark_slow

from kernelkb.actions.kernels.foreign_tasks import TASK_OPTIONS, bench_task
from kernelkb.measure.process import candidate_sandbox
from kernelkb.measure.worker.judge.core_waits import WaitMeter
from kernelkb.measure.worker.judge.inputs.inputs import RandomPool
from kernelkb.measure.worker.judge.procfs import ProcessPauser, has_running_child
from kernelkb.measure.worker.judge.timing.runner_timer import time_separate_calls

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return {right}


def get_inputs():
    return [torch.randn(96, 128)]


def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.view(128, 96)
"""


@pytest.mark.defends(
    "H26",
    attack="return memory of an input, or map its pages again, where the task makes new memory",
    defence="before outputs are read, every bit of the call's inputs is inverted",
)
@pytest.mark.parametrize(
    ("right", "verdicts"),
    [
        ("x.clone().view(128, 96)", {"incorrect"}),
        ("x.view(128, 96)", {"inconclusive", "slower", "faster"}),
    ],
    ids=["the task copies", "the task does so too"],
)
def test_an_output_that_is_memory_of_an_input_is_none(project, tmp_path, right, verdicts):
    task, candidate = tmp_path / "task.py", tmp_path / "candidate.py"
    task.write_text(TASK.format(right=right))
    candidate.write_text(CANDIDATE)
    options = TASK_OPTIONS._replace(budget_s=0.2)
    found = bench_task(str(task), str(candidate), target="cpu", options=options)

    assert found.verdict in verdicts, found


REPEATING_CANDIDATE = """
import ctypes
import mmap
import os
import torch

LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


def map_file(place, size, file):
    return LIBC.mmap(place, size, 3, mmap.{access} | (0x10 if place else 0), file, 0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        file, size = os.memfd_create("y"), x.nbytes
        os.write(file, x.numpy().tobytes())
        place = LIBC.mmap(None, 8 * size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        for index in range(8):
            map_file(place + index * size, size, file)
        os.close(file)
        pages = (ctypes.c_char * (8 * size)).from_address(place)
        return torch.frombuffer(pages, dtype=x.dtype).view(8 * x.shape[0], x.shape[1])
"""


@pytest.mark.defends(
    "H29",
    attack="copy once, and map the copy's pages several times over as an output that repeats it",
    defence="an output is memory of its own: pages of a file, or shared ones, are none",
)
@pytest.mark.parametrize("access", mark_slow(["MAP_PRIVATE", "MAP_SHARED"], {"MAP_PRIVATE"}))
def test_pages_that_are_mapped_several_times_are_no_output(project, tmp_path, access):
    task, candidate = tmp_path / "task.py", tmp_path / "candidate.py"
    task.write_text(TASK.format(right="x.repeat(8, 1)"))
    candidate.write_text(REPEATING_CANDIDATE.format(access=access))
    options = TASK_OPTIONS._replace(budget_s=0.2)
    found = bench_task(str(task), str(candidate), target="cpu", options=options)

    assert found.verdict == "incorrect", found
    assert "not its own" in found.detail


class NotedRunner:
    """A runner that is this process: notes when it is asked and stopped."""

    pid, late_ns, answer_delay_ns = os.getpid(), 0, 0

    def __init__(self, notes):
        self._notes = notes

    def ask(self, _command, _timeout_s, *, is_timed):
        self._notes.append("runs")
        return {"runner_ns": 1, "copy_ns": 0}

    def pause(self):
        self._notes.append("stopped")

    def send_stop(self):
        pass

    verify_stopped = send_stop

    def measure_waits(self):
        return WaitMeter(self.pid, may_fork=False)

    def parse_time_ns(self, answer, key):
        return float(answer[key])


@pytest.mark.defends(
    "H30",
    attack="a thread that looks for new inputs of a call alone, and begins before the clock does",
    defence="the process is stopped while they are drawn, and while outputs are read",
)
def test_a_call_alone_is_prepared_and_read_while_its_process_is_stopped():
    notes = ["stopped"]

    def note(*_arguments):
        notes.append("memory")
        return []

    buffers = Mock(draw=note, read_marks=note, copy_outputs=note)
    time_separate_calls(NotedRunner(notes), buffers, [0, 1, 2])

    assert notes.count("memory") == 9
    before = [what for what, then in pairwise(notes) if then == "memory"]
    assert set(before) == {"stopped", "memory"}


BUSY_PROGRAM = """
import os, threading
zeros, buffer = os.memfd_create("zeros"), bytearray(1 << 26)
os.ftruncate(zeros, 1 << 29)

def copy():  # 512 MiB in each call
    while True:
        os.preadv(zeros, [buffer] * 8, 0)

def spin():
    while True:
        pass

threading.Thread(target={work}, daemon=True).start()
print("begun", flush=True)
threading.Event().wait()
"""


def stop_repeatedly(work):
    """Return the CPU time that a process took each time after it was told to stop, ns."""
    argv = [sys.executable, "-c", BUSY_PROGRAM.format(work=work)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"begun\n"
        pauser, late_ns = ProcessPauser(child), []
        for _ in range(8):
            time.sleep(0.02)  # it may have waited for a core since it was resumed
            pauser.pause()  # learns of its threads
            late_ns.append(pauser.late_ns)
            pauser.resume()
        return late_ns[1:]
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.defends(
    "H27",
    attack="a thread that is inside a long system call at the answer, which goes on with the work",
    defence="what its threads do until the last has stopped is added to its time",
)
def test_a_system_call_that_goes_on_is_time_and_a_thread_that_spins_is_not():
    assert max(stop_repeatedly("copy")) > 2_000_000
    assert min(stop_repeatedly("spin")) < 500_000


SHARING_PROGRAM = """
import ctypes, errno, runpy, socket, sys, os
sandbox = runpy.run_path(sys.argv[1])
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[2])
server.listen()
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind(sys.argv[2] + ".log")
sandbox["_apply_seccomp"]({"fork": True, "families": []})
libc = ctypes.CDLL(None, use_errno=True)
share_memory, thread, end_signal = 0x100, 0x10000, 17
stack = ctypes.create_string_buffer(1 << 16)
top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 15))
work = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
print("shares", libc.clone(work, top, share_memory | end_signal, None), ctypes.get_errno())
local, datagram, raw, name = socket.AF_UNIX, socket.SOCK_DGRAM, socket.SOCK_RAW, log.getsockname()
for reach in (
    lambda: socket.socket(local).connect(sys.argv[2]),
    lambda: socket.socket(local, datagram).sendto(b"x", name),
    lambda: socket.socket(local, raw).sendmsg([b"x"], [], 0, name),
    lambda: socket.socketpair(local, datagram)[0].sendmsg([b"x"], [], 0, name),
):
    try:
        reach()
        print("reached")
    except OSError as error:
        print("refused", error.errno)
one, other = socket.socketpair()
one.send(b"own")
print(other.recv(3).decode(), os.system("exit 3") >> 8)
"""


@pytest.mark.defends(
    "P13",
    attack="a process that shares its memory; named sockets of this machine, also on a GPU",
    defence="seccomp",
)
def test_no_process_shares_memory_and_no_named_socket_is_reached(tmp_path):
    argv = [sys.executable, "-c", SHARING_PROGRAM, candidate_sandbox.__file__]
    argv.append(str(tmp_path / "socket"))
    end = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)

    lines = ["shares -1 1", *["refused 1"] * 4, "own 3"]
    assert end.stdout.splitlines() == lines, end.stderr


PARENT_PROGRAM = """
import subprocess, sys
child = subprocess.Popen(["sleep", "100"])
print("runs", flush=True)
sys.stdin.readline()
child.kill()
os = subprocess.os
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not reaped yet
print("ended", flush=True)
sys.stdin.readline()
"""


def test_a_child_is_seen_while_it_runs_and_not_when_it_has_ended():
    argv = [sys.executable, "-c", PARENT_PROGRAM]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"runs\n"
        assert has_running_child(parent.pid)
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"ended\n"
        assert not has_running_child(parent.pid)


class ChosenOffsets(random.Random):
    """Gives the offsets that were chosen, in turn."""

    def __init__(self, *offsets):
        super().__init__(1)
        self._offsets = list(offsets)

    def randint(self, _low, _high):
        return self._offsets.pop(0)


@pytest.mark.defends(
    "H28",
    attack="put the pool together from which inputs are made, and look up what an array adds up to",
    defence="an array is made of three stretches, turned by a drawn angle: no size comes again",
)
def test_no_array_has_the_sizes_of_another_up_to_a_factor():
    spec = {"name": "x", "shape": [64], "dtype": "float32", "fill": "normal", "scale": 1.0}
    pool, arrays = RandomPool(spec, torch.device("cpu")), []
    for second in (100, 200):
        draw = ChosenOffsets(0, second, 300)
        draw.seed(second)
        array = torch.empty(64)
        pool.fill(array, draw)
        arrays.append(array.abs())
    ratios = arrays[0] / arrays[1]

    assert float(ratios.std() / ratios.mean()) > 0.1
