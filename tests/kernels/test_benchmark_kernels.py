"""The kernels that the profiling benchmark measures: one weakness each, and right for all that."""

import re
import subprocess
from pathlib import Path

import pytest

from kernelkb.actions.kernels.measure_variant import bench_prepared
from kernelkb.actions.project.bench_target import prepare_loaded
from kernelkb.errors import EnvironmentGapError
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.measure.subject import BenchOptions

KERNEL_FILES = sorted((Path(__file__).parents[2] / "benchmarks" / "kinds").glob("*/kernel.yaml"))
KERNEL_NAMES = [path.parent.name for path in KERNEL_FILES]


def test_benchmark_kernels_exist():
    assert len(KERNEL_FILES) >= 6


@pytest.mark.parametrize("path", KERNEL_FILES, ids=KERNEL_NAMES)
def test_a_kind_loads_and_names_its_own_kernels(path):
    source = load_kernel_folder(path.parent)
    (variant,) = source.kernel.variants
    text = (path.parent / variant.source).read_text()

    assert source.kernel.default_workload["cuda"] in source.kernel.workloads
    assert variant.kernels
    assert all(re.search(rf"\b{name}\(", text) for name in variant.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("path", KERNEL_FILES, ids=KERNEL_NAMES)
def test_a_kind_compiles_without_a_warning(path, tmp_path):
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("no nvcc")
    words = [nvcc, "-gencode", "arch=compute_90,code=sm_90", "-std=c++17", "-Xcompiler", "-Wall"]
    library = str(tmp_path / "kernel.o")
    done = subprocess.run(
        [*words, "-c", "-o", library, str(path.parent / "naive.cu")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.gpu
@pytest.mark.parametrize("path", KERNEL_FILES, ids=KERNEL_NAMES)
def test_a_benchmark_kernel_is_correct(path, project):
    try:
        place = prepare_loaded(load_kernel_folder(path.parent), None, "cuda")
    except EnvironmentGapError as gap:
        pytest.skip(str(gap))
    found = bench_prepared(
        place._replace(project=project),
        "small",
        options=BenchOptions(timeout_s=120.0, budget_s=0.5),
    )

    assert found.verdict not in ("incorrect", "invalid"), found.detail
