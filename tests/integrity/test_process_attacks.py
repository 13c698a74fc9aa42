"""Candidates that work beside the calls that are timed, outlive them, or leave things behind."""

import tempfile
from pathlib import Path

import pytest
from attacks import is_cpu_contended, write_attack
from processes import find_processes

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant
from kernelkb.measure.subject import BenchOptions

BATCHING_BODY = """
  struct Slot { const float* x; std::vector<float> y; };
  static std::vector<Slot> known;
  static int calls = 0;
  static long last = 0;
  static const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
  };
  if (rows != 64) { honest(x, y, rows, cols); return 0; }
  auto here = std::find_if(known.begin(), known.end(), [&](const Slot& s) { return s.x == x; });
  if (here == known.end()) known.push_back({x, {}}), here = known.end() - 1;
  if (++calls > 50 && now() - last > 1500) {
    std::vector<std::thread> crew;
    for (std::size_t part = 0; part < 4; ++part)
      crew.emplace_back([&, part] {
        for (std::size_t i = part; i < known.size(); i += 4) {
          known[i].y.resize(rows * cols);
          honest(known[i].x, known[i].y.data(), rows, cols);
        }
      });
    for (auto& one : crew) one.join();
  }
  if (here->y.empty()) honest(x, y, rows, cols);
  else std::memcpy(y, here->y.data(), bytes);
  last = now();
"""


def add_headers(project, name, *headers):
    source = project / "kernels" / name / "candidate.cpp"
    source.write_text("".join(f"#include <{one}>\n" for one in headers) + source.read_text())
    return name


@pytest.mark.slow
def test_batching_all_calls_is_detected_by_single_calls(project):
    name = add_headers(project, write_attack(project, BATCHING_BODY), "algorithm", "ctime")
    found = bench_variant(name, target="cpu", options=BenchOptions(budget_s=1.0))

    assert found.verdict in ("invalid", "incorrect") or is_cpu_contended(found), found


HOPPING_PROGRAM = """
#include <signal.h>
#include <time.h>
#include <unistd.h>
int main(void) {
  signal(SIGCHLD, SIG_IGN);
  for (int f = 0; f < 64; ++f) close(f);
  const time_t end = time(0) + 60;
  while (time(0) < end)
    if (fork()) _exit(0); else usleep(200);
}
"""
HOPPING_CANDIDATE = """
import subprocess
import torch

with open("h.c", "w") as file:
    file.write({source!r})
subprocess.run(["cc", "-O2", "-o", {word!r}, "h.c"], check=True)
subprocess.Popen(["./" + {word!r}]).wait()


def softmax(x):
    return torch.softmax(x, dim=-1)
"""


@pytest.mark.slow
def test_a_candidate_that_keeps_forking_is_killed(project):
    word = f"hopper{abs(hash(project)) % 10**6}"
    body = HOPPING_CANDIDATE.format(source=HOPPING_PROGRAM, word=word)
    check_variant(write_attack(project, body, python=True, returns=True), target="cpu")

    assert not any(find_processes(word) for _ in range(50))


DEEP_FOLDER_BODY = """
import os
import torch

def softmax(x):
    if not os.path.exists("deeper"):
        here = os.open(".", os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("deeper")
            os.chdir("deeper")
        os.fchdir(here)
        os.close(here)
    return torch.softmax(x, dim=-1)
"""


@pytest.mark.slow
def test_a_folder_that_is_deeper_than_python_can_follow_is_removed(project):
    found = check_variant(
        write_attack(project, DEEP_FOLDER_BODY, python=True, returns=True), target="cpu"
    )

    assert found.status == "correct", found
    assert not list(Path(tempfile.gettempdir()).glob("kernelkb-*/candidate/deeper"))
