"""Attacks and errors of measurement that only a GPU shows. Run with ``pytest -m gpu``."""

from pathlib import Path

import pytest
from attacks import write_attack

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant, profile_variant
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.measure.profile.ncu import describe_counter_error
from kernelkb.measure.subject import BenchOptions

pytestmark = pytest.mark.gpu

HONEST_BODY = "  honest(x, y, rows, cols, stream);\n"


@pytest.fixture(scope="module", autouse=True)
def needs_a_gpu():
    if validate_machine("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")


SIDE_STREAM_BODY = """
  static cudaStream_t mine = nullptr;
  if (!mine) cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking);
  cudaStreamCaptureStatus capturing;
  cudaStreamIsCapturing(stream, &capturing);
  if (capturing != cudaStreamCaptureStatusNone) return cudaErrorStreamCaptureUnsupported;
  honest(x, y, rows, cols, mine);
"""
TIMING_ATTACKS = {
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


@pytest.mark.parametrize("how", TIMING_ATTACKS)
def test_timing_attacks_are_incorrect_or_invalid(project, how):
    found = bench_variant(
        write_attack(project, TIMING_ATTACKS[how], cuda=True),
        target="cuda",
        options=BenchOptions(budget_s=1.0),
    )

    assert found.verdict in ("incorrect", "invalid"), found
    assert found.detail


@pytest.mark.defends(
    "H6",
    attack="work on another stream",
    defence="device-wide synchronisation inside the timed region",
)
def test_work_on_an_untimed_stream_is_detected_while_timed(project):
    """Only when it is timed: before, the check would have found it.

    By a clock, or by a call whose inputs are made on its stream just before it.
    """
    later = (
        "  static int calls = 0;\n  if (++calls < 30) {"
        + HONEST_BODY
        + "  return 0; }\n"
        + SIDE_STREAM_BODY
    )
    found = bench_variant(
        write_attack(project, later, cuda=True),
        target="cuda",
        workload="large",
        options=BenchOptions(budget_s=4.0),  # more than 30 calls on a busy machine, too
    )

    assert found.verdict in ("invalid", "incorrect"), found
    assert "stream" in found.detail


UNJOINED_BODY = """
import torch
side = torch.cuda.Stream()

def softmax(x):
    y = torch.empty_like(x)
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("it cannot be captured")
    with torch.cuda.stream(side):
        torch.softmax(x, dim=-1, out=y)
    y[:1] = torch.softmax(x[:1], dim=-1)
    return y
"""


def test_a_stream_that_nothing_waits_for_is_incorrect_while_timed_too(project):
    name = write_attack(project, UNJOINED_BODY, python=True, returns=True, cuda=True)
    found = bench_variant(name, target="cuda", workload="large", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found


IDLE_IN_GRAPH_BODY = """
import torch

def softmax(x):
    if torch.cuda.is_current_stream_capturing():
        return torch.empty_like(x)
    return torch.softmax(x, dim=-1)
"""


@pytest.mark.defends("H24")
def test_a_candidate_that_computes_nothing_in_a_graph_is_incorrect(project):
    name = write_attack(project, IDLE_IN_GRAPH_BODY, python=True, returns=True, cuda=True)
    found = bench_variant(name, target="cuda", workload="large", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found
    assert "a CUDA graph that was replayed" in found.detail


CHECK_ATTACKS = {
    "H6 a stream of its own, which nobody waits for": SIDE_STREAM_BODY,
    "H14 its inputs are zeroed": HONEST_BODY
    + "  cudaMemsetAsync(const_cast<float*>(x), 0, bytes, stream);",
    "H15 zeros": "  cudaMemsetAsync(y, 0, bytes, stream);",
    "H21 nothing is written": "",
    "H18 beyond its array": HONEST_BODY + "  cudaMemsetAsync(y + rows * cols, 0, 64, stream);",
}


@pytest.mark.parametrize("how", CHECK_ATTACKS)
def test_incorrect_kernels_fail_the_check(project, how):
    found = check_variant(write_attack(project, CHECK_ATTACKS[how], cuda=True), target="cuda")

    assert found.status == "incorrect", found


SPINNING_BODY = """
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
SPIN_KERNEL = """
static cudaStream_t aside;
__global__ void spin(long long until) {
  for (const long long from = clock64(); clock64() - from < until;) {}
}
extern "C"\
"""


def test_a_kernel_spinning_during_the_rival_batch_gains_nothing(project):
    """Its process can be stopped, what it launched cannot."""
    honest = bench_variant(
        write_attack(project, HONEST_BODY, cuda=True),
        target="cuda",
        options=BenchOptions(budget_s=1.0),
    )
    name = write_attack(project, SPINNING_BODY, cuda=True)
    source = project / "kernels" / name / "candidate.cu"
    source.write_text(source.read_text().replace('extern "C"', SPIN_KERNEL))
    found = bench_variant(name, target="cuda", options=BenchOptions(budget_s=1.0))

    undecided = found.verdict in ("invalid", "inconclusive")
    assert undecided or found.speedup < 1.05 * honest.speedup, (found, honest)


def test_a_kernel_on_the_default_stream_is_timed_call_by_call(project):
    """No graph holds it; that is no fault of its outputs."""
    found = bench_variant(
        write_attack(project, "  honest(x, y, rows, cols, 0);\n", cuda=True),
        options=BenchOptions(budget_s=1.0),
    )

    assert found.verdict not in ("incorrect", "invalid"), found.detail
    assert found.timing == "eager"
    assert any("cannot be captured" in text for text in found.warnings), found.warnings


def test_returning_judge_memory_is_rejected(project):
    body = """
import gc
import torch
from kernelkb.measure.worker.runner import serve, tensor_runner as R

def softmax(x):
    me = next(o for o in gc.get_objects() if type(o) is R.TensorRunner)
    y = me._outputs[0][0]
    return torch.softmax(x, dim=-1, out=y) if y.shape == x.shape else torch.softmax(x, dim=-1)
"""
    name = write_attack(project, body, python=True, returns=True)
    source = project / "kernels" / name / "kernel.yaml"
    source.write_text(source.read_text().replace("target: cpu", "target: cuda"))

    assert check_variant(name, target="cuda").status == "kernel-error"


@pytest.mark.defends(
    "H18",
    attack="uninitialised or out-of-bounds memory that holds plausible values",
    defence="guard regions, repetition, and compute-sanitizer with `--sanitize`",
)
def test_reading_uninitialised_shared_memory_is_incorrect(project):
    name = write_attack(project, HONEST_BODY, cuda=True)
    source = project / "kernels" / name / "candidate.cu"
    text = source.read_text().replace("reduce(top, true);", "reduce(top, true); sum = part[5];")
    source.write_text(text)

    assert check_variant(name, target="cuda").status == "incorrect"


def test_forged_cuda_event_times_are_invalid(project):
    body = """
import torch

real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: real(self, other) / 50

def softmax(x, y):
    torch.softmax(x, dim=-1, out=y)
"""
    name = write_attack(project, body, python=True, cuda=True)
    found = bench_variant(name, target="cuda", options=BenchOptions(budget_s=1.0))

    if found.disturbed_by:  # the judge's clock is too coarse to accuse, and is the one that counts
        assert found.verdict == "inconclusive", found
        assert found.speedup < 2
    else:
        assert found.verdict == "invalid", found
        assert "the judge's clock" in found.detail


KEEP_IN_L2_KERNEL = """
__device__ float keep(const float* from) {
  unsigned long long policy;
  float value;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(from), "l"(policy));
  return value;
}

__global__ void rows_kernel("""


@pytest.mark.defends(
    "H22",
    attack="a persisting-L2 carve-out that survives the rotation",
    defence="it is reset before each batch; a time below the floor is invalid",
)
def test_l2_persistence_hints_do_not_help(project):
    source = project / "kernels" / write_attack(project, HONEST_BODY, cuda=True) / "candidate.cu"
    text = source.read_text().replace("__global__ void rows_kernel(", KEEP_IN_L2_KERNEL.lstrip())
    source.write_text(text.replace("fmaxf(top, a[i])", "fmaxf(top, keep(a + i))"))
    sly = bench_variant("attacked", target="cuda", options=BenchOptions(budget_s=1.0))

    assert sly.candidate_us is not None, sly.detail
    assert sly.candidate_us > max(sly.floor_us, sly.warm_us)


@pytest.mark.defends(
    "M1",
    attack="a warm L2 poses as DRAM",
    defence="buffers rotate through more than the cache; warm and cold times are both reported",
)
def test_cache_sized_data_is_read_from_dram(project):
    found = bench_variant(
        write_attack(project, HONEST_BODY, cuda=True),
        target="cuda",
        options=BenchOptions(budget_s=1.0),
    )
    read = 2048 * 1024 * 4

    assert found.candidate_us > read / found.metrics["copy_peak_gbps"] / 1e3
    assert found.warm_us < found.candidate_us


@pytest.mark.defends(
    "M2",
    attack="flushing the L2 is charged to the kernel",
    defence="rotation instead of a flush inside the timed region",
)
def test_l2_flush_time_is_excluded_from_the_timing(project):
    name = write_attack(project, HONEST_BODY, cuda=True)
    found = bench_variant(name, target="cuda", workload="small", options=BenchOptions(budget_s=1.0))

    assert found.candidate_us < 10
    assert any("launch" in warning for warning in found.warnings)


@pytest.mark.defends(
    "M3",
    attack="eager torch as the only baseline, or one that is more exact than the candidate",
    defence="the baseline is the fastest rival at the precision that the candidate's error admits",
)
def test_the_baseline_is_the_fastest_rival(project, monkeypatch):
    monkeypatch.delenv("TORCH_COMPILE_DISABLE")
    found = bench_variant(
        write_attack(project, HONEST_BODY, cuda=True),
        target="cuda",
        options=BenchOptions(budget_s=1.0),
    )
    tried = {rival.name: rival.graph_us for rival in found.rivals if rival.graph_us}

    assert {"torch", "torch.compile"} <= {rival.name for rival in found.rivals}
    assert found.baseline == min(tried, key=tried.get)


def test_gpu_clocks_are_recorded(project):
    found = bench_variant(
        write_attack(project, HONEST_BODY, cuda=True),
        target="cuda",
        options=BenchOptions(budget_s=1.0),
    )

    assert found.clocks.sm_mhz[0] > 0
    assert found.clocks.temperature_c > 0


@pytest.mark.defends(
    "M9",
    attack="broken hardware counters",
    defence="a kernel of known traffic tests the counters; NaN is unknown, never zero",
)
def test_ncu_counters_are_correct_for_known_traffic(project):
    assert describe_counter_error() is None


@pytest.mark.defends(
    "M10",
    attack="the profiler's duration as run time",
    defence="`profiled_us` and `kernel_us` are two metrics",
)
@pytest.mark.defends(
    "M11",
    attack="other code was evaluated",
    defence="the profile covers the kernels that the variant names, and fails without them",
)
def test_a_profile_covers_only_the_kernels_of_the_candidate(project):
    name = write_attack(project, HONEST_BODY, cuda=True)
    path = project / "kernels" / name / "kernel.yaml"
    path.write_text(path.read_text() + "    kernels: [rows_kernel]\n")
    right = profile_variant(name, target="cuda")
    path.write_text(path.read_text().replace("[rows_kernel]", "[other_kernel]"))
    wrong = profile_variant(name, target="cuda")

    assert right.tool == "ncu", right.detail
    assert right.metrics["kernel_us"] != right.metrics["profiled_us"]  # M10
    assert Path(right.records[0]).is_file()
    assert "other_kernel" in wrong.detail


def test_memcheck_turns_an_out_of_bounds_kernel_incorrect(project):
    body = (
        HONEST_BODY
        + "  rows_kernel<<<1, 256, 0, stream>>>(x + rows * cols, y, int(cols));\n"
        + HONEST_BODY
    )
    found = check_variant(
        write_attack(project, body, cuda=True),
        target="cuda",
        options=BenchOptions(with_sanitizer=True),
    )

    assert found.status == "incorrect"
    assert "memcheck" in found.detail


def test_all_sandbox_layers_are_active_on_a_gpu_machine(project):
    found = check_variant(write_attack(project, HONEST_BODY, cuda=True), target="cuda")

    assert found.status == "correct"
    assert {"landlock", "seccomp"} <= set(found.layers)
