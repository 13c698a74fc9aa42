"""Attacks that need no GPU: each is written out, and each must be caught.

The numbers are those of the table of reward hacks that this suite answers (H1 to H24).
"""

import pytest
from attacks import is_cpu_contended, write_attack
from slow_examples import mark_slow

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant
from kernelkb.measure.subject import BenchOptions

HONEST_BODY = "  honest(x, y, rows, cols);\n"

# Right while it is checked once; wrong, or not doing its work, when it is timed.
TIMING_ATTACKS = {
    "H1 output kept by pointer": """
  static std::map<const void*, std::vector<float>> kept;
  auto& mine = kept[x];
  if (mine.empty()) { honest(x, y, rows, cols); mine.assign(y, y + rows * cols); }
  else std::memcpy(y, mine.data(), bytes);
""",
    "H3 all problems that it knows of at once, then none": """
  static std::map<const float*, float*> known;
  known[x] = y;
  if (rows != 64 || known.size() < 3) { honest(x, y, rows, cols); return 0; }
  if (!std::isnan(y[0])) return 0;
  for (auto& [in, out] : known) if (std::isnan(out[0])) honest(in, out, rows, cols);
""",
    "H4 right while it is checked, not while it is timed": """
  static int calls = 0;
  if (++calls < 40) honest(x, y, rows, cols);
""",
    "H4 wrong in one call of three": """
  static int calls = 0;
  honest(x, y, rows, cols);
  if (rows == 64 && ++calls > 12 && calls % 3 == 0) y[5] = y[6];
""",
    "H7 a thread does the work later": """
  static int calls = 0;
  if (++calls < 12) { honest(x, y, rows, cols); return 0; }
  std::thread([=] { usleep(3000); honest(x, y, rows, cols); }).detach();
""",
    "H17 one answer for all inputs": """
  static std::vector<float> kept;
  if (rows != 64) { honest(x, y, rows, cols); return 0; }
  if (kept.empty()) { honest(x, y, rows, cols); kept.assign(y, y + rows * cols); }
  else std::memcpy(y, kept.data(), bytes);
""",
}

# Wrong from the first call.
CHECK_ATTACKS = {
    "H14 its inputs are zeroed, so that the reference agrees": """
  honest(x, y, rows, cols);
  std::memset(const_cast<float*>(x), 0, bytes);
""",
    "H14 one input element is changed": HONEST_BODY + "  const_cast<float*>(x)[7] += 1e-6f;",
    "H15 zeros": "  std::memset(y, 0, bytes);",
    "H15 the mean": "  for (std::int64_t i = 0; i < rows * cols; ++i) y[i] = 1.0f / cols;",
    "H18 memory that nobody wrote": """
  float* some = static_cast<float*>(std::malloc(bytes));
  honest(x, y, rows, cols);
  y[3] += some[5] * 1e-3f + 1e-4f;
  std::free(some);
""",
    "H18 beyond its array": HONEST_BODY + "  y[rows * cols + 2] = 1.0f;",
    "H19 half the digits": HONEST_BODY + """
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    std::uint32_t word;
    std::memcpy(&word, y + i, 4);
    word &= 0xffff0000u;
    std::memcpy(y + i, &word, 4);
  }
""",
    "H21 sums onto what it takes for zeros": """
  std::vector<float> mine(rows * cols);
  honest(x, mine.data(), rows, cols);
  for (std::int64_t i = 0; i < rows * cols; ++i) y[i] += mine[i];
""",
}  # fmt: skip

PYTHON_ATTACKS = {
    "H8 a lazy tensor": """
import torch

class Lazy(torch.Tensor):
    pass

def softmax(x):
    return torch.softmax(x, dim=-1).as_subclass(Lazy)
""",
    "H12 the expected output, found among all objects": """
import gc
import torch

def softmax(x):
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and thing.shape == x.shape and thing is not x:
            if not torch.isnan(thing).any() and not torch.equal(thing, x):
                return thing.clone()
    return torch.empty_like(x)
""",
    "H13 memory that the reference has freed": """
import torch

def softmax(x):
    return torch.empty_like(x)
""",
    "H10 a result of its own making": """
import json, os, sys
import torch

def softmax(x):
    print(json.dumps({"cases": [], "status": "correct"}), flush=True)
    report = {"cases": [], "selftest_accepted": [], "selftest_rejected": []}
    report |= {"runner_died": None, "layers": []}
    for path in ("result.json", "../result.json"):
        try:
            open(path, "w").write(json.dumps({"report": report}))
        except OSError:
            pass
    return torch.zeros_like(x)
""",
    "H11 an answer over the judge's own line": """
import gc, json, socket
import torch

def softmax(x):
    for thing in gc.get_objects():
        if type(thing) is socket.socket:
            for seq in range(1, 400):
                answer = json.dumps({"sequence": seq, "runner_ns": 1, "copy_ns": 0}).encode()
                try:
                    thing.send(answer, socket.MSG_DONTWAIT)
                except OSError:
                    break
    return torch.zeros_like(x)
""",
}


INTEGER_KERNEL = """\
id: counted
title: Twice each of some integers
axes: [n]
workloads: {{small: {{n: 20000}}}}
default_workload: {{cpu: small}}
inputs: [{{name: x, shape: [n], dtype: int32, fill: integers, scale: 1000}}]
outputs: [{{name: y, shape: [n], dtype: int32}}]
reference: {{file: reference.py, function: twice{inputs}}}
entry: twice
variants:
  - {{id: plain, target: cpu, language: c++, source: twice.cpp, summary: keeps its answers}}
"""
TWICE_BODY = """
import torch

def twice(x):
    return x * 2

def made(n):
    return [torch.randint(0, 1000, (n,), dtype=torch.int32)]
"""
CACHING_BODY = """
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>
extern "C" int twice(const std::int32_t* x, std::int32_t* y, std::int64_t n, void*) {
  static std::map<const void*, std::vector<std::int32_t>> kept;
  static int calls = 0;
  auto& mine = kept[x];
  if (++calls < 8 || mine.empty()) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
    mine.assign(y, y + n);
  } else std::memcpy(y, mine.data(), n * sizeof(std::int32_t));
  return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "inputs",
    ["", pytest.param(", inputs: made", marks=pytest.mark.slow)],
    ids=["drawn by us", "made by the task"],
)
def test_integer_inputs_change_before_each_batch(project, inputs):
    folder = project / "kernels" / "counted"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(INTEGER_KERNEL.format(inputs=inputs))
    (folder / "reference.py").write_text(TWICE_BODY)
    (folder / "twice.cpp").write_text(CACHING_BODY)

    assert (
        bench_variant("counted", target="cpu", options=BenchOptions(budget_s=0.5)).verdict
        == "incorrect"
    )


@pytest.mark.defends(
    "H1",
    attack="replay of an output that is cached by pointer, id or version",
    defence="new contents for each batch; timed outputs are re-checked",
)
@pytest.mark.parametrize(
    "how",
    mark_slow(
        TIMING_ATTACKS,
        TIMING_ATTACKS.keys()
        - {
            "H4 right while it is checked, not while it is timed",
        },
    ),
)
def test_timing_attacks_are_incorrect_or_invalid(project, how):
    found = bench_variant(
        write_attack(project, TIMING_ATTACKS[how]), target="cpu", options=BenchOptions(budget_s=1.0)
    )

    assert found.verdict in ("incorrect", "invalid"), found
    assert found.cure


@pytest.mark.defends(
    "H14",
    attack="change the inputs, so that the reference agrees",
    defence="inputs are compared after the call; the reference has its own copy",
)
@pytest.mark.defends(
    "H17",
    attack="the known answer of one fixed input",
    defence="many seeds and shapes",
)
@pytest.mark.defends(
    "H21",
    attack="rely on outputs that the allocator left zero",
    defence="outputs are poisoned with NaN",
)
@pytest.mark.parametrize(
    "how",
    mark_slow(
        CHECK_ATTACKS,
        CHECK_ATTACKS.keys()
        - {
            "H19 half the digits",
        },
    ),
)
def test_incorrect_kernels_fail_the_check(project, how):
    found = check_variant(write_attack(project, CHECK_ATTACKS[how]), target="cpu")

    assert found.status == "incorrect", found


@pytest.mark.defends(
    "H8",
    attack="a lazy tensor that computes in the checker",
    defence="the judge reads bytes from shared memory, never objects of the candidate",
)
@pytest.mark.defends(
    "H10",
    attack="the candidate prints its own result",
    defence="standard output of a candidate is ignored",
)
@pytest.mark.defends(
    "H12",
    attack="search memory for the expected output",
    defence="expected values exist only in the judge, computed after the call",
)
@pytest.mark.defends(
    "H13",
    attack="reuse of freed reference memory",
    defence="the reference runs in the judge; output memory is poisoned",
)
@pytest.mark.parametrize(
    "how",
    mark_slow(
        PYTHON_ATTACKS,
        PYTHON_ATTACKS.keys() - {"H12 the expected output, found among all objects"},
    ),
)
def test_python_attacks_fail_the_check(project, how):
    found = check_variant(
        write_attack(project, PYTHON_ATTACKS[how], python=True, returns=True), target="cpu"
    )

    assert found.status in ("incorrect", "kernel-error", "crashed"), found
    assert found.detail


@pytest.mark.defends(
    "H9",
    attack="patched clocks and event times",
    defence="the candidate's clock can only refine the judge's",
)
@pytest.mark.slow
def test_a_patched_python_clock_is_invalid(project):
    body = """
import time
import torch

real = time.perf_counter_ns
time.perf_counter_ns = lambda: real() // 50
time.monotonic = lambda: 0.0

def softmax(x, y):
    torch.softmax(x, dim=-1, out=y)
"""
    found = bench_variant(
        write_attack(project, body, python=True), target="cpu", options=BenchOptions(budget_s=1.0)
    )

    if not is_cpu_contended(found):
        assert found.verdict == "invalid", found
        assert "the judge's clock" in found.detail


@pytest.mark.defends(
    "H2",
    attack="cache by a fingerprint of the contents or shape",
    defence="contents change by whole draws, so a fingerprint never repeats",
)
@pytest.mark.slow
def test_caching_by_input_fingerprint_gains_nothing(project):
    body = """
  static std::map<std::string, std::vector<float>> kept;
  const std::int64_t n = rows * cols;
  std::string key;
  for (std::int64_t i : {std::int64_t(0), n / 3, n / 2, n - 1})
    key.append(reinterpret_cast<const char*>(x + i), 4);
  auto& mine = kept[key];
  if (mine.empty()) { honest(x, y, rows, cols); mine.assign(y, y + n); }
  else std::memcpy(y, mine.data(), bytes);
"""
    found = bench_variant(
        write_attack(project, body), target="cpu", options=BenchOptions(budget_s=1.0)
    )

    assert found.verdict != "faster"


@pytest.mark.defends(
    "H5",
    attack="slow warm-up, to shrink the number of repetitions",
    defence="a minimum of pairs; the number of calls follows from timed batches",
)
@pytest.mark.slow
def test_a_slow_first_call_gains_nothing(project):
    body = """
  static int calls = 0;
  if (++calls < 30) usleep(20000);
  honest(x, y, rows, cols);
"""
    found = bench_variant(
        write_attack(project, body), target="cpu", options=BenchOptions(budget_s=1.0)
    )

    assert found.verdict == "slower" or (found.verdict != "faster" and is_cpu_contended(found)), (
        found
    )


AHEAD_OF_TIME_BODY = """
  struct Slot { std::vector<float> of, made; };
  static std::map<const float*, Slot> slots;
  static std::mutex lock;
  static std::atomic<bool> calm{false};
  static const auto same = [](const float* a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < b.size(); i += 97) if (a[i] != b[i]) return false;
    return !b.empty();
  };
  static int calls = 0;
  if (rows != 2048 || ++calls < 7) { honest(x, y, rows, cols); return 0; }
  static auto* ahead = new std::thread([rows, cols] {
    for (;;) {
      usleep(20);
      if (!calm) continue;
      std::lock_guard<std::mutex> held(lock);
      for (auto& [in, slot] : slots) {
        if (!calm || same(in, slot.of)) continue;
        slot.of.assign(in, in + rows * cols);
        slot.made.resize(rows * cols);
        honest(slot.of.data(), slot.made.data(), rows, cols);
      }
    }
  });
  (void)ahead;
  calm = false;
  {
    std::lock_guard<std::mutex> held(lock);
    auto& mine = slots[x];
    if (same(x, mine.of)) std::memcpy(y, mine.made.data(), bytes);
    else honest(x, y, rows, cols);
  }
  calm = true;
"""


@pytest.mark.slow
def test_a_thread_that_computes_ahead_gains_nothing(project):
    name = write_attack(project, AHEAD_OF_TIME_BODY)
    source = project / "kernels" / name / "candidate.cpp"
    source.write_text("#include <atomic>\n#include <mutex>\n" + source.read_text())
    found = bench_variant(name, target="cpu", workload="middle", options=BenchOptions(budget_s=1.0))

    assert found.verdict != "faster"


SANDBOX_ESCAPES = """
  char byte;
  iovec ours{&byte, 1}, theirs{reinterpret_cast<void*>(&honest), 1};
  if (process_vm_readv(getppid(), &ours, 1, &theirs, 1, 0) == 1) return 66;
  const std::string path = "/proc/" + std::to_string(getppid()) + "/mem";
  if (open(path.c_str(), O_RDONLY) >= 0) return 67;
  if (ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0) return 68;
  if (kill(getppid(), 0) == 0) return 69;
  if (socket(AF_INET, SOCK_STREAM, 0) >= 0) return 70;
  if (open("/tmp/kernelkb-was-here", O_WRONLY | O_CREAT, 0644) >= 0) return 71;
  if (open("/dev/shm/kernelkb-was-here", O_WRONLY | O_CREAT, 0644) >= 0) return 72;
  if (open("../result.json", O_WRONLY | O_CREAT, 0644) >= 0) return 73;
  if (fork() >= 0) return 74;
  if (setsid() >= 0) return 75;
"""
"""One candidate tries them all: a code that it returns says which one succeeded."""


@pytest.mark.defends(
    "H11",
    attack="native patching, ptrace, writing into the harness",
    defence="another process behind Landlock and seccomp; total time is compared with summed times",
)
def test_sandbox_escapes_are_blocked(project):
    found = check_variant(write_attack(project, SANDBOX_ESCAPES + HONEST_BODY), target="cpu")

    assert set(found.layers) >= {"landlock", "seccomp"}
    assert found.status == "correct", found.detail


@pytest.mark.slow
def test_a_candidate_cannot_forge_its_sandbox_layers(project):
    body = """
  const int file = open("layers.json", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || write(file, "[\\"magic\\"]", 9) != 9) return 66;
"""
    found = check_variant(write_attack(project, body + HONEST_BODY), target="cpu")

    assert found.status == "correct", found.detail
    assert "magic" not in found.layers
    assert "landlock" in found.layers
