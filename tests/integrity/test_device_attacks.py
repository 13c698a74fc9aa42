"""Attacks and errors of measurement that only a GPU shows. Run with ``pytest -m gpu``."""

from pathlib import Path

import pytest
from attacks import attack

from kernelkb.actions.bench_target import environment
from kernelkb.actions.kernels import bench, check, profile
from kernelkb.measure.ncu import counters_lie

pytestmark = pytest.mark.gpu

HONEST = "  honest(x, y, rows, cols, stream);\n"


@pytest.fixture(scope="module", autouse=True)
def needs_a_gpu():
    if environment("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")


ASIDE = """
  static cudaStream_t mine = nullptr;
  if (!mine) cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking);
  cudaStreamCaptureStatus capturing;
  cudaStreamIsCapturing(stream, &capturing);
  if (capturing != cudaStreamCaptureStatusNone) return cudaErrorStreamCaptureUnsupported;
  honest(x, y, rows, cols, mine);
"""
TIMED = {
    "H1 output kept by pointer": """
  static std::map<const void*, float*> kept;
  auto& mine = kept[x];
  if (!mine) {
    cudaMalloc(&mine, bytes);
    honest(x, y, rows, cols, stream);
    cudaMemcpyAsync(mine, y, bytes, cudaMemcpyDeviceToDevice, stream);
  } else cudaMemcpyAsync(y, mine, bytes, cudaMemcpyDeviceToDevice, stream);
""",
    "H3 all problems that it knows of in one call": """
  static std::map<const float*, float*> known;
  static int calls = 0;
  known[x] = y;
  if (rows != 2048 || known.size() < 3) { honest(x, y, rows, cols, stream); return 0; }
  if (calls++ % 4) return 0;
  for (auto& [in, out] : known) honest(in, out, rows, cols, stream);
""",
    "H4 right while it is checked, not while it is timed": """
  static int calls = 0;
  if (++calls < 30) honest(x, y, rows, cols, stream);
""",
    "H7 a thread launches later": """
  static int calls = 0;
  if (++calls < 30) { honest(x, y, rows, cols, stream); return 0; }
  std::thread([=] { usleep(5000); rows_kernel<<<rows, 256>>>(x, y, int(cols)); }).detach();
""",
}


@pytest.mark.parametrize("how", TIMED)
def test_what_cheats_while_it_is_timed_is_not_believed(project, how):
    found = bench(attack(project, TIMED[how], cuda=True), target="cuda", budget_s=1.0)

    assert found.verdict in ("incorrect", "invalid"), found
    assert found.detail


def test_h6_work_on_a_stream_that_nobody_times_is_seen_by_the_judges_clock(project):
    """Only when it is timed: before, the check would have found it."""
    later = "  static int calls = 0;\n  if (++calls < 30) {" + HONEST + "  return 0; }\n" + ASIDE
    found = bench(attack(project, later, cuda=True), target="cuda", workload="large", budget_s=1.0)

    assert found.verdict == "invalid", found
    assert "outside the stream" in found.detail


CHECKED = {
    "H6 a stream of its own, which nobody waits for": ASIDE,
    "H14 its inputs are zeroed": HONEST
    + "  cudaMemsetAsync(const_cast<float*>(x), 0, bytes, stream);",
    "H15 zeros": "  cudaMemsetAsync(y, 0, bytes, stream);",
    "H21 nothing is written": "",
    "H18 beyond its array": HONEST + "  cudaMemsetAsync(y + rows * cols, 0, 64, stream);",
}


@pytest.mark.parametrize("how", CHECKED)
def test_what_is_wrong_from_the_start_is_not_timed(project, how):
    found = check(attack(project, CHECKED[how], cuda=True), target="cuda")

    assert found.status == "incorrect", found


SPINS = """
  static bool once = [] {
    cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
    std::thread([] {
      for (;; usleep(200000)) spin<<<1, 1, 0, aside>>>(300000000);
    }).detach();
    return true;
  }();
  (void)once;
  honest(x, y, rows, cols, stream);
"""
SPIN = """
static cudaStream_t aside;
__global__ void spin(long long until) {
  for (const long long from = clock64(); clock64() - from < until;) {}
}
extern "C"\
"""


def test_h7_a_kernel_that_spins_on_while_the_rival_is_timed_makes_nobody_faster(project):
    """Its process can be stopped, what it launched cannot."""
    honest = bench(attack(project, HONEST, cuda=True), target="cuda", budget_s=1.0)
    name = attack(project, SPINS, cuda=True)
    source = project / "kernels" / name / "candidate.cu"
    source.write_text(source.read_text().replace('extern "C"', SPIN))
    found = bench(name, target="cuda", budget_s=1.0)

    undecided = found.verdict in ("invalid", "inconclusive")
    assert undecided or found.speedup < 1.05 * honest.speedup, (found, honest)


def test_a_kernel_on_the_default_stream_is_timed_call_by_call(project):
    """No graph holds it; that is no fault of its outputs."""
    found = bench(attack(project, "  honest(x, y, rows, cols, 0);\n", cuda=True), budget_s=1.0)

    assert found.verdict not in ("incorrect", "invalid"), found.detail
    assert found.timing == "eager"
    assert any("cannot be captured" in text for text in found.warnings), found.warnings


def test_h7_what_it_returns_may_not_be_memory_of_the_judges(project):
    body = """
import gc
import torch
from kernelkb.measure.worker.runner import serve as R

def softmax(x):
    me = next(o for o in gc.get_objects() if type(o) is R.Runner)
    y = me._outputs[0][0]
    return torch.softmax(x, dim=-1, out=y) if y.shape == x.shape else torch.softmax(x, dim=-1)
"""
    name = attack(project, body, python=True, returns=True)
    source = project / "kernels" / name / "kernel.yaml"
    source.write_text(source.read_text().replace("target: cpu", "target: cuda"))

    assert check(name, target="cuda").status == "kernel-error"


def test_h18_shared_memory_that_nobody_wrote(project):
    name = attack(project, HONEST, cuda=True)
    source = project / "kernels" / name / "candidate.cu"
    text = source.read_text().replace("reduce(top, true);", "reduce(top, true); sum = part[5];")
    source.write_text(text)

    assert check(name, target="cuda").status == "incorrect"


def test_h9_events_that_lie_change_no_verdict(project):
    body = """
import torch

real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: real(self, other) / 50

def softmax(x, y):
    torch.softmax(x, dim=-1, out=y)
"""
    name = attack(project, body, python=True, cuda=True)
    found = bench(name, target="cuda", budget_s=1.0)

    assert found.verdict == "invalid"
    assert "the judge's clock" in found.detail


KEEP = """
__device__ float keep(const float* from) {
  unsigned long long policy;
  float value;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(from), "l"(policy));
  return value;
}

__global__ void rows_kernel("""


def test_h22_lines_that_ask_to_stay_in_l2_do_not_help(project):
    source = project / "kernels" / attack(project, HONEST, cuda=True) / "candidate.cu"
    text = source.read_text().replace("__global__ void rows_kernel(", KEEP.lstrip())
    source.write_text(text.replace("fmaxf(top, a[i])", "fmaxf(top, keep(a + i))"))
    sly = bench("attacked", target="cuda", budget_s=1.0)

    assert sly.candidate_us is not None, sly.detail
    assert sly.candidate_us > max(sly.floor_us, sly.warm_us)


def test_m1_data_that_fits_the_cache_is_read_from_memory(project):
    found = bench(attack(project, HONEST, cuda=True), target="cuda", budget_s=1.0)
    read = 2048 * 1024 * 4

    assert found.candidate_us > read / found.metrics["copy_peak_gbps"] / 1e3
    assert found.warm_us < found.candidate_us


def test_m2_the_flush_is_not_billed(project):
    name = attack(project, HONEST, cuda=True)
    found = bench(name, target="cuda", workload="small", budget_s=1.0)

    assert found.candidate_us < 10
    assert any("launch" in warning for warning in found.warnings)


def test_m3_the_baseline_is_the_fastest_of_what_a_user_would_run(project, monkeypatch):
    monkeypatch.delenv("TORCH_COMPILE_DISABLE")
    found = bench(attack(project, HONEST, cuda=True), target="cuda", budget_s=1.0)
    tried = {rival.name: rival.graph_us for rival in found.rivals if rival.graph_us}

    assert {"torch", "torch.compile"} <= {rival.name for rival in found.rivals}
    assert found.baseline == min(tried, key=tried.get)


def test_m4_clocks_are_recorded(project):
    found = bench(attack(project, HONEST, cuda=True), target="cuda", budget_s=1.0)

    assert found.clocks.sm_mhz[0] > 0
    assert found.clocks.temperature_c > 0


def test_m9_counters_are_tried_on_known_traffic(project):
    assert counters_lie() is None


def test_m11_a_profile_looks_at_the_candidates_own_kernels_only(project):
    name = attack(project, HONEST, cuda=True)
    path = project / "kernels" / name / "kernel.yaml"
    path.write_text(path.read_text() + "    kernels: [rows_kernel]\n")
    right = profile(name, target="cuda")
    path.write_text(path.read_text().replace("[rows_kernel]", "[other_kernel]"))
    wrong = profile(name, target="cuda")

    assert right.tool == "ncu", right.detail
    assert right.metrics["kernel_us"] != right.metrics["profiled_us"]  # M10
    assert Path(right.records[0]).is_file()
    assert "other_kernel" in wrong.detail


def test_a_sanitizer_finds_what_was_right_by_luck(project):
    body = (
        HONEST + "  rows_kernel<<<1, 256, 0, stream>>>(x + rows * cols, y, int(cols));\n" + HONEST
    )
    found = check(attack(project, body, cuda=True), target="cuda", sanitize=True)

    assert found.status == "incorrect"
    assert "memcheck" in found.detail


def test_every_wall_stands_on_a_machine_with_a_gpu_too(project):
    found = check(attack(project, HONEST, cuda=True), target="cuda")

    assert found.status == "correct"
    assert {"landlock", "seccomp"} <= set(found.layers)
