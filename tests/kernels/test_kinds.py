"""The kernels that the profiling benchmark measures: one weakness each, and right for all that."""

import re
import subprocess
from pathlib import Path

import pytest

from kernelkb.actions.bench_target import prepared
from kernelkb.actions.kernels import bench_place
from kernelkb.errors import EnvironmentGapError
from kernelkb.loading.kernels import load_folder
from kernelkb.measure.machine.tools import find_nvcc

KINDS = sorted((Path(__file__).parents[2] / "benchmarks" / "kinds").glob("*/kernel.yaml"))
NAMES = [path.parent.name for path in KINDS]


def test_there_are_kinds():
    assert len(KINDS) >= 6


@pytest.mark.parametrize("path", KINDS, ids=NAMES)
def test_a_kind_loads_and_names_its_own_kernels(path):
    source = load_folder(path.parent)
    (variant,) = source.kernel.variants
    text = (path.parent / variant.source).read_text()

    assert source.kernel.default_workload["cuda"] in source.kernel.workloads
    assert variant.kernels
    assert all(re.search(rf"\b{name}\(", text) for name in variant.kernels)


@pytest.mark.parametrize("path", KINDS, ids=NAMES)
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
@pytest.mark.parametrize("path", KINDS, ids=NAMES)
def test_a_kind_is_right(path, project):
    try:
        place = prepared(load_folder(path.parent), None, "cuda")
    except EnvironmentGapError as gap:
        pytest.skip(str(gap))
    found = bench_place(place._replace(project=project), "small", 120.0, 0.5)

    assert found.verdict not in ("incorrect", "invalid"), found.detail
