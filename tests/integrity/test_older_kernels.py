"""Kernels of Linux that lack a layer: what still holds there, and what users are told.

Landlock keeps signals in from Linux 6.12 on. On an older one seccomp has to, alone.
"""

import pytest
from attacks import write_attack
from older_kernels import KERNELS, pretend_kernel
from slow_examples import mark_slow

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant
from kernelkb.measure.machine import environment
from kernelkb.measure.process import candidate_sandbox

REACHING_OUT = """
  const int judge = getppid();
  int ends[2];
  if (pipe(ends)) return 65;
  for (const int command : {F_SETOWN, F_SETSIG, 15 /* F_SETOWN_EX */})
    if (fcntl(ends[0], command, command == F_SETSIG ? SIGKILL : judge) != -1) return 66;
  int owner = judge;
  if (ioctl(ends[0], 0x8901, &owner) == 0) return 67;
  if (ioctl(ends[0], 0x8902, &owner) == 0) return 67;
  if (fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK)) return 68;
  if (write(ends[1], "x", 1) != 1) return 69;
  if (kill(judge, 0) == 0 || kill(0, 0) == 0 || kill(-1, 0) == 0) return 70;
  if (syscall(SYS_tgkill, judge, judge, 0) == 0 || syscall(SYS_tkill, judge, 0) == 0) return 71;
  for (const int which : {PRIO_PROCESS, PRIO_PGRP, PRIO_USER})
    if (setpriority(static_cast<__priority_which_t>(which), which ? 0 : judge, 15) == 0) return 72;
  if (setpriority(PRIO_PROCESS, 0, -15) == 0) return 73;
  sched_param realtime{1};
  if (sched_setscheduler(0, SCHED_FIFO, &realtime) == 0) return 74;
  if (sched_setscheduler(judge, SCHED_BATCH, &realtime) == 0) return 75;
  for (const int which : {2, 3})
    if (syscall(SYS_ioprio_set, which, 0, 3 << 13 | 0) == 0) return 76;
  rlimit limit{};
  if (prlimit(judge, RLIMIT_NOFILE, nullptr, &limit) == 0) return 77;
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(0, &core);
  if (sched_setaffinity(judge, sizeof core, &core) == 0) return 78;
  char byte;
  iovec ours{&byte, 1}, theirs{reinterpret_cast<void*>(&honest), 1};
  if (process_vm_readv(judge, &ours, 1, &theirs, 1, 0) == 1) return 79;
  if (ptrace(PTRACE_ATTACH, judge, nullptr, nullptr) == 0) return 80;
  if (truncate("../../kernels/attacked/reference.py", 9) == 0) return 81;
  honest(x, y, rows, cols);
"""
"""One candidate tries them all: a code that it returns says which one succeeded."""
HEADERS = ("sched.h", "sys/ioctl.h", "sys/resource.h", "sys/syscall.h")
WEAK = [name for name in KERNELS if name != "without seccomp"]


def write_cpp(project, body, *headers):
    name = write_attack(project, body)
    source = project / "kernels" / name / "candidate.cpp"
    source.write_text("".join(f"#include <{one}>\n" for one in headers) + source.read_text())
    return name


@pytest.mark.slow
@pytest.mark.defends(
    "P1",
    attack="signals, priorities, cores or limits of the judge and its rivals, by any system call",
    defence="seccomp, and Landlock's signal scope from Linux 6.12 on",
)
@pytest.mark.parametrize("kernel", mark_slow(WEAK, set(WEAK) - {"5.10, without Landlock"}))
def test_seccomp_alone_keeps_a_candidate_from_other_processes(project, monkeypatch, kernel):
    pretend_kernel(monkeypatch, project, kernel)
    found = check_variant(write_cpp(project, REACHING_OUT, *HEADERS), target="cpu")

    assert found.status == "correct", found.detail
    assert "seccomp" in found.layers
    assert "signal scope" not in found.layers
    assert ("landlock" in found.layers) == ("Landlock" not in kernel and "container" not in kernel)


@pytest.mark.parametrize(
    ("kernel", "status", "told"),
    [
        ("6.8, without a signal scope", "ok", "no signal scope: seccomp alone"),
        ("5.10, without Landlock", "warning", "no landlock: a candidate may read and write"),
        ("5.10 in a container", "warning", "no network namespace: seccomp alone"),
        ("without seccomp", "warning", "no seccomp: a candidate may stop"),
    ],
)
def test_the_environment_says_which_walls_do_not_hold(project, monkeypatch, kernel, status, told):
    pretend_kernel(monkeypatch, project, kernel)
    line = environment._check_sandbox()

    assert line.status == status
    assert told in line.found
    assert (line.cure is None) == (status == "ok")


def test_the_environment_names_the_version_of_landlock():
    abi = candidate_sandbox.find_landlock_abi()
    if abi is None:
        pytest.skip("this kernel has no Landlock")

    assert f"landlock (ABI {abi})" in environment._check_sandbox().found


RENAMING_CANDIDATE = """
import os
import torch

folder = os.environ["TRITON_CACHE_DIR"]
os.makedirs(folder + "/below", exist_ok=True)
with open(folder + "/below/made", "w") as file:
    file.write("x")
os.replace(folder + "/below/made", folder + "/kept")


def softmax(x):
    return torch.softmax(x, dim=-1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["5.15, without renames"])
def test_a_python_candidate_builds_where_landlock_refuses_renames(project, monkeypatch, kernel):
    """As Triton does; Landlock is then left out, and the result says so."""
    pretend_kernel(monkeypatch, project, kernel)
    name = write_attack(project, RENAMING_CANDIDATE, python=True, returns=True)
    found = check_variant(name, target="cpu")

    assert found.status == "correct", found.detail
    assert "landlock" not in found.layers


SELF_WAKING_BODY = """
  static timer_t timer = [] {
    signal(SIGCONT, [](int) {});
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGCONT;
    timer_t made{};
    if (timer_create(CLOCK_MONOTONIC, &event, &made)) std::exit(66);
    std::thread([] { for (volatile long n = 0;; n = n + 1) {} }).detach();
    return made;
  }();
  // Each time anew: a stop takes back a wake-up that is under way, and the timer ends with it.
  const itimerspec often{{0, 300000}, {0, 300000}};
  timer_settime(timer, 0, &often, nullptr);
  honest(x, y, rows, cols);
"""


@pytest.mark.slow
def test_without_seccomp_a_runner_that_resumes_itself_is_found_out(project, monkeypatch):
    pretend_kernel(monkeypatch, project, "without seccomp")
    found = bench_variant(write_cpp(project, SELF_WAKING_BODY, "ctime"), target="cpu")

    assert found.verdict == "invalid", found
    assert found.detail.startswith("it did not stay stopped: it")
