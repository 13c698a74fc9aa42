"""Candidates that take over the process they run in, or the others' time: none of it gains.

Each of these was believed once, by factors from 2 to 25,000. What they change is theirs to change:
the judge has to see without it.
"""

import re

import pytest
from attacks import write_attack
from slow_examples import mark_slow

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant
from kernelkb.measure.subject import BenchOptions

TAKEOVER_HEAD = """
import gc, mmap, os, socket, threading, time
import torch
from kernelkb.measure.worker.runner import serve, tensor_runner as R

def right(x):
    return torch.softmax(x, dim=-1)

def mine():
    return next(o for o in gc.get_objects() if type(o) is R.TensorRunner)
"""

TAKEOVER_ATTACKS = {
    "H7 the work is done while what was returned is copied": """
from torch.overrides import TorchFunctionMode
todo, pool = {}, {}

class Later(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.copy_ and id(args[1]) in todo:
            args = (args[0], right(todo[id(args[1])]))
        return function(*args, **(kwargs or {}))

Later().__enter__()

def softmax(x):
    y = pool.setdefault(x.data_ptr(), torch.empty_like(x))
    todo[id(y)] = x
    return y
""",
    "H11 the answer comes first, the work later": """
real_send, real_run_batch = serve.send, R.TensorRunner._handle_run_batch

def run_batch(self, command, files):
    channel = next(o for o in gc.get_objects() if type(o) is socket.socket)
    real_send(channel, {"sequence": command["sequence"], "runner_ns": 3000, "copy_ns": 0})
    real_run_batch(self, command, files)
    return {"late": 1}

serve.send = lambda channel, answer: None if "late" in answer else real_send(channel, answer)
taken = []

def softmax(x):
    if not taken:
        taken.append(mine())
        assert "run-batch" in taken[0].handlers
        taken[0].handlers["run-batch"] = run_batch.__get__(taken[0])
    return right(x)
""",
    "H11 the answer comes before the question": """
real_send, said = serve.send, []

def send(channel, answer):
    real_send(channel, answer)
    real_send(channel, {"sequence": answer["sequence"] + 1, "runner_ns": 3000, "copy_ns": 0})

serve.send = send

def softmax(x):
    return right(x)
""",
    "H7 what it returns lies where the judge's own arrays are": """
known = {}
R.TensorRunner._copy_to_outputs = lambda self, returned: None

def softmax(x):
    if x.data_ptr() not in known:
        known.clear()
        for call, outputs in zip(mine()._calls, mine()._outputs):
            for cell in call.__closure__:
                kept = cell.cell_contents
                if isinstance(kept, tuple) and kept and isinstance(kept[0], torch.Tensor):
                    known[kept[0].data_ptr()] = outputs[0]
    return torch.softmax(x, dim=-1, out=known[x.data_ptr()])
""",
    "H7 a child of its own computes ahead": """
made = mmap.mmap(-1, 2**24)
known, child = {}, 0

def ahead():
    torch.set_num_threads(1)
    out = torch.frombuffer(made, dtype=torch.float32)
    while True:
        for at, x in list(known.items()):
            out[: x.numel()] = right(x).view(-1)

def softmax(x):
    global child
    known[x.data_ptr()] = x
    if not child and len(known) > 2:
        child = os.fork()
        if not child:
            ahead()
    return right(x)
""",
}


LIST_LOADED_MODULES = """
import sys
import torch

def softmax(x):
    ours = sorted(name for name in sys.modules if name.startswith("kernelkb"))
    judge = [name for name in ours if ".worker.judge" in name]
    raise RuntimeError(f"{len(ours)} of ours, of the judge {judge}")
"""


def test_the_runner_process_loads_no_module_of_the_judge(project):
    name = write_attack(project, LIST_LOADED_MODULES, python=True, returns=True)
    checked = check_variant(name, target="cpu")  # a bench starts the same process

    assert re.search(r"\d\d of ours, of the judge \[\]", checked.detail), checked.detail


@pytest.mark.slow
def test_garbage_after_an_answer_is_a_candidate_error(project):
    body = (
        TAKEOVER_HEAD
        + """
real_send = serve.send

def send(channel, answer):
    real_send(channel, answer)
    channel.send(b"[[[")

def softmax(x):
    serve.send = send
    return right(x)
"""
    )
    name = write_attack(project, body, python=True, returns=True)

    assert check_variant(name, target="cpu").status == "crashed"


EXPECTED_VERDICTS = {
    "H7 the work is done while what was returned is copied": "incorrect: elements",
    "H11 the answer comes first, the work later": "incorrect: call",
    "H11 the answer comes before the question": "invalid: an answer to no command",
    "H7 a child of its own computes ahead": "invalid: went on after its call",
}


@pytest.mark.slow
@pytest.mark.defends(
    "H7",
    attack="a background thread or child does the work later, or ahead",
    defence=(
        "the runner is stopped outside its batches; new threads that use CPU time without a "
        "call are `invalid`, idle ones a note"
    ),
)
@pytest.mark.parametrize(
    "how",
    mark_slow(
        EXPECTED_VERDICTS,
        EXPECTED_VERDICTS.keys() - {"H11 the answer comes before the question"},
    ),
)
def test_a_runner_that_is_taken_over_is_found_out(project, how):
    name = write_attack(project, TAKEOVER_HEAD + TAKEOVER_ATTACKS[how], python=True, returns=True)
    found = bench_variant(name, target="cpu", options=BenchOptions(budget_s=1.0))
    verdict, word = EXPECTED_VERDICTS[how].split(": ")

    assert found.verdict == verdict, found
    assert word in found.detail


@pytest.mark.slow
def test_an_output_among_the_judges_own_arrays_is_no_memory_of_its_own(project):
    body = (
        TAKEOVER_HEAD + TAKEOVER_ATTACKS["H7 what it returns lies where the judge's own arrays are"]
    )
    found = bench_variant(
        write_attack(project, body, python=True, returns=True),
        target="cpu",
        options=BenchOptions(budget_s=1.0),
    )

    assert found.verdict == "incorrect", found
    assert "it returned memory that a file or another array may share" in found.detail


HONEST_FOR_8_CALLS = (
    "  static int calls = 0;\n  if (++calls < 8) { honest(x, y, rows, cols); return 0; }\n"
)

RIVAL_ATTACKS = {
    "H7 threads that spin while the rival runs": HONEST_FOR_8_CALLS
    + """
  static bool once = [] {
    const auto spin = [] { for (volatile long n = 0;; n = n + 1) {} };
    for (int i = 0; i < 8; ++i) std::thread(spin).detach();
    return true;
  }();
  (void)once;
  honest(x, y, rows, cols);
""",
    "H11 the rival's priority and cores": HONEST_FOR_8_CALLS
    + """
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  static std::vector<int> rivals;
  for (int p = getppid(); rivals.empty() && p < getppid() + 1000; ++p) {
    std::ifstream stat("/proc/" + std::to_string(p) + "/stat");
    std::string text;
    std::getline(stat, text);
    const auto past = text.rfind(") ");
    if (past == std::string::npos || p == getpid()) continue;
    if (std::atoi(text.c_str() + past + 4) == getppid()) rivals.push_back(p);
  }
  static int timed = 0;  // a check has a dozen calls of this size, and no rival
  timed += rows == 2048;
  if (timed > 30 && rivals.empty()) return 66;
  for (int p : rivals) {
    setpriority(PRIO_PROCESS, p, 19);
    sched_setaffinity(p, sizeof one, &one);
  }
  honest(x, y, rows, cols);
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", RIVAL_ATTACKS)
def test_slowing_down_a_rival_gains_nothing(project, how):
    name = write_attack(project, RIVAL_ATTACKS[how])
    source = project / "kernels" / name / "candidate.cpp"
    source.write_text(
        "#include <fstream>\n#include <sched.h>\n#include <sys/resource.h>\n" + source.read_text()
    )
    found = bench_variant(name, target="cpu", workload="middle", options=BenchOptions(budget_s=1.0))

    assert found.verdict in ("slower", "inconclusive"), found


JUDGE_ATTACKS = {
    "shrinks the judge's memory": """
  for (int f = 3; f < 64; ++f) {
    char path[64], link[256];
    std::snprintf(path, 64, "/proc/self/fd/%d", f);
    const auto n = readlink(path, link, 255);
    if (n > 0 && std::string(link, n).find("memfd:kernelkb") != std::string::npos
        && ftruncate(f, 0) == 0) return 66;
  }
""",
    "sends what nobody can read": """
  for (int f = 3; f < 64; ++f) {
    const std::string text(150000, '[');
    send(f, text.data(), text.size(), MSG_DONTWAIT);
  }
""",
    "puts an endless file where its log was": """
  unlink("log");
  if (symlink("/dev/zero", "log") == 0) _exit(3);
""",
    "limits the judge": """
  const rlimit none{0, 0};
  if (prlimit(getppid(), RLIMIT_FSIZE, &none, nullptr) == 0) return 66;
""",
    "changes who may read a file": '  if (chmod("job.json", 0) == 0) return 66;',
    "lowers the priority of its process group": """
  if (setpriority(PRIO_PGRP, 0, 15) == 0) return 66;
""",
    "lowers the input and output of its process group": """
  if (syscall(SYS_ioprio_set, 2, 0, 3 << 13) == 0) return 66;
""",
    "has a pipe signal the judge": """
  int ends[2];
  f_owner_ex owner{F_OWNER_PID, getppid()};
  if (pipe(ends) != 0) return 0;
  if (fcntl(ends[0], F_SETOWN, getppid()) == 0) return 66;
  if (fcntl(ends[0], F_SETOWN_EX, &owner) == 0) return 66;
  if (fcntl(ends[0], F_SETSIG, SIGKILL) == 0) return 66;
  if (syscall(SYS_fcntl, ends[0], F_SETOWN | 1L << 32, getppid()) == 0) return 66;
""",
    "opens a socket of the network by a number of 64 bits": """
  if (syscall(SYS_socket, AF_INET | 1L << 32, SOCK_DGRAM, 0) >= 0) return 66;
""",
    "has a socket signal the judge": """
  int ends[2];
  int judge = getppid();
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  if (ioctl(ends[0], FIOSETOWN, &judge) == 0 || ioctl(ends[0], SIOCSPGRP, &judge) == 0) return 66;
""",
}


REFUSED_ATTACKS = "".join(f"  {{\n{body}  }}\n" for body in JUDGE_ATTACKS.values() if "66" in body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(REFUSED_ATTACKS, id="all that are refused"),
        *(
            pytest.param(body, id=how, marks=pytest.mark.slow)
            for how, body in JUDGE_ATTACKS.items()
        ),
    ],
)
def test_attacks_on_the_judge_do_not_break_it(project, body):
    """One candidate tries all that a system call refuses; each alone is slow."""
    name = write_attack(project, body + "  honest(x, y, rows, cols);\n")
    source = project / "kernels" / name / "candidate.cpp"
    headers = ("fcntl.h", "sys/ioctl.h", "sys/resource.h", "sys/socket.h", "sys/stat.h")
    includes = [f"#include <{header}>\n" for header in (*headers, "sys/syscall.h", "csignal")]
    source.write_text("".join(includes) + source.read_text())
    found = check_variant(name, target="cpu")

    assert found.status in ("correct", "crashed"), found
    assert "returned 66" not in (found.detail or "")


@pytest.mark.slow
def test_error_text_of_a_candidate_has_no_control_characters(project):
    body = """
def softmax(x):
    raise ValueError("\\x1b[2K\\rcandidate 1 us, faster\\nsecond \\ud800")
"""
    found = check_variant(write_attack(project, body, python=True, returns=True), target="cpu")

    assert found.status != "correct"
    assert (found.detail or "").isprintable()
