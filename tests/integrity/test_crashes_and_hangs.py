"""A candidate that ends in the middle of being timed: a status, a cure, and the next one works."""

import pytest
from attacks import write_attack
from slow_examples import mark_slow

from kernelkb.actions.kernels.measure_variant import bench_built, bench_variant, build_prepared
from kernelkb.actions.project.bench_target import prepare
from kernelkb.measure.subject import BenchOptions

HONEST_BODY = "  honest(x, y, rows, cols);\n"
HONEST_CUDA = "  honest(x, y, rows, cols, stream);\n"
FAIL_AFTER_60_CALLS = "  static int calls = 0;\n  if (++calls > 60) {{ {} }}\n"

CPU_FAILURES = {
    "aborts": ("std::abort();", "SIGABRT"),
    "is killed": ("kill(getpid(), SIGKILL);", "SIGKILL"),
    "reads nothing": ("return *static_cast<volatile int*>(nullptr);", "SIGSEGV"),
    "never returns": ("for (volatile long n = 0;; n = n + 1) {}", "did not finish within"),
    "leaves": ("std::exit(0);", "ended the process with status 0"),
    "reports an error": ("return 7;", "returned 7"),
}

# After an endless kernel only the end of its process frees the GPU.
GPU_FAILURES = {
    "is killed": ("kill(getpid(), SIGKILL);", "SIGKILL"),
    "reads nothing": ("rows_kernel<<<rows, 256, 0, stream>>>(nullptr, y, int(cols));", "CUDA"),
    "never returns": ("endless<<<1, 1, 0, stream>>>(y);", "did not finish within"),
    "takes all memory": (
        "void* p; for (std::size_t n = 1ull << 34; n > 1024; n /= 2)"
        " while (!cudaMalloc(&p, n)) {} return cudaErrorMemoryAllocation;",
        "returned 2",
    ),
}
ENDLESS_KERNEL = "__global__ void endless(volatile float* y) { while (y[0] != 12345.0f) {} }\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", mark_slow(CPU_FAILURES, CPU_FAILURES.keys() - {"aborts"}))
def test_an_end_while_it_is_timed_is_a_status(project, how):
    what, word = CPU_FAILURES[how]
    name = write_attack(project, FAIL_AFTER_60_CALLS.format(what) + HONEST_BODY)
    place = prepare(name, target="cpu")
    found = bench_built(place, build_prepared(place), "small", options=BenchOptions(budget_s=1.0))

    assert found.verdict == "invalid"
    assert word in found.detail
    assert found.cure


@pytest.mark.gpu
@pytest.mark.parametrize("how", GPU_FAILURES)
def test_the_gpu_is_usable_after_a_candidate_crashes(project, how):
    what, word = GPU_FAILURES[how]
    name = write_attack(project, FAIL_AFTER_60_CALLS.format(what) + HONEST_CUDA, cuda=True)
    source = project / "kernels" / name / "candidate.cu"
    text = (
        source.read_text()
        .replace('extern "C"', f'{ENDLESS_KERNEL}extern "C"')
        .replace("#include <map>", "#include <map>\n#include <signal.h>")
    )
    source.write_text(text)
    place = prepare(name, target="cuda")
    found = bench_built(place, build_prepared(place), "middle", options=BenchOptions(budget_s=1.0))
    after = bench_variant(
        "row_softmax", "warp", "cuda", "medium", options=BenchOptions(budget_s=0.5)
    )

    assert found.verdict == "invalid", found
    assert word in found.detail
    assert after.verdict not in ("incorrect", "invalid"), after.detail
