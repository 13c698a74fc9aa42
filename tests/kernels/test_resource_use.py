"""The memory of candidate and baseline, by real processes; and the judge's own time."""

import shutil
from pathlib import Path

import pytest
from broken_kernels import BODIES, CORRECT_BODY, make_broken_kernel

from kernelkb.actions.history.measurements import list_measurements
from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.measure.subject import BenchOptions

MIB = 2**20
TOUCH_64_MIB = """\
  char* scratch = (char*)std::malloc(64 << 20);
  for (long i = 0; i < 64 << 20; i += 4096) ((volatile char*)scratch)[i] = 1;
"""
WRONG_IN_THE_LAST_ARENA = """\
  static unsigned long seen = 0, arenas = 0, calls = 0;
  unsigned long from, to, number, inode = 0;
  char line[4096];
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  while (maps && std::fgets(line, sizeof line, maps))
    if (std::sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &number) == 3)
      if (from <= (unsigned long)x && (unsigned long)x < to) inode = number;
  if (maps) std::fclose(maps);
  arenas += inode != seen;
  seen = inode;
  if (++calls > 60 && arenas == 3) std::memset(y, 0, rows * cols * 4);
  return 0;"""
SCALE = Path(__file__).parents[2] / "benchmarks" / "bindings" / "scale"
TORCH_SCRATCH = """\
import torch


def twice(x, y):
    scratch = torch.ones(16 * 2**20)
    torch.mul(x, scratch[0] * 2, out=y)
"""


def bench_body(project, monkeypatch, body):
    monkeypatch.setitem(BODIES, "scratch", body)
    make_broken_kernel(project, "scratch")
    found = bench_variant("broken", "naive", "cpu", "small", options=BenchOptions(budget_s=0.1))

    assert found.resource_use, found.detail
    return found


def memory_warnings(found):
    return [line for line in found.warnings if "of memory" in line]


@pytest.mark.slow
def test_a_call_that_allocates_64_mib_in_c_is_seen_and_warned_of(project, monkeypatch):
    body = TOUCH_64_MIB + CORRECT_BODY + "  std::free(scratch); return 0;"
    found = bench_body(project, monkeypatch, body)
    use = found.resource_use

    assert 63 * MIB < use.peak_bytes < 72 * MIB
    assert use.baseline_peak_bytes < 8 * MIB
    assert use.held_bytes < 8 * MIB
    assert memory_warnings(found)


@pytest.mark.slow
def test_a_workspace_that_is_kept_between_calls_counts_as_held(project, monkeypatch):
    body = (
        "  static char* kept = nullptr;\n  if (!kept) {\n" + TOUCH_64_MIB + "  kept = scratch; }\n"
    )
    found = bench_body(project, monkeypatch, body + CORRECT_BODY + "  return 0;")
    use = found.resource_use

    assert use.peak_bytes < 8 * MIB
    assert 63 * MIB < use.held_bytes < 72 * MIB
    assert memory_warnings(found)


@pytest.mark.slow
def test_a_kernel_that_is_wrong_only_after_the_timed_calls_is_incorrect(project, monkeypatch):
    """Such as one that does less work to take less memory where memory is measured."""
    monkeypatch.setitem(BODIES, "scratch", CORRECT_BODY + WRONG_IN_THE_LAST_ARENA)
    make_broken_kernel(project, "scratch")
    found = bench_variant("broken", "naive", "cpu", "small", options=BenchOptions(budget_s=0.1))

    assert found.verdict == "incorrect"
    assert "after the timed ones" in found.detail


@pytest.mark.slow
def test_a_torch_candidate_that_allocates_64_mib_is_seen(project, monkeypatch):
    folder = project / "kernels" / "scale"
    shutil.copytree(SCALE, folder)
    (folder / "script.py").write_text(TORCH_SCRATCH)
    found = bench_variant("scale", "script", "cpu", options=BenchOptions(budget_s=0.1))

    assert found.resource_use, found.detail
    use = found.resource_use
    assert 60 * MIB < use.peak_bytes - use.baseline_peak_bytes < 72 * MIB


@pytest.mark.slow
def test_without_scratch_memory_nothing_is_warned_of_and_the_record_holds_it(project, monkeypatch):
    found = bench_body(project, monkeypatch, BODIES["right"])
    assert found.resource_use.peak_bytes < 2 * MIB
    assert not memory_warnings(found)

    recorded = list_measurements("broken")[0]

    assert recorded.resource_use == found.resource_use
    steps = found.resource_use.step_seconds
    assert {"start", "load", "baselines", "timing", "checks", "memory"} <= steps.keys()
    assert sum(steps.values()) <= found.seconds + 0.1
