"""One kernel in every language and with every binding; each is built, judged and timed."""

import shutil
from pathlib import Path

import pytest

from kernelkb.actions.bench_target import validate_machine
from kernelkb.actions.building import build_variant
from kernelkb.actions.kernels import bench_variant

SCALE = Path(__file__).parents[2] / "benchmarks" / "bindings" / "scale"


@pytest.fixture(scope="module")
def bindings_project(tmp_path_factory):
    """A project with the kernel; what is built in it serves all tests of this file."""
    root = tmp_path_factory.mktemp("bindings")
    shutil.copytree(SCALE, root / "kernels" / "scale")
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize(
    "variant",
    # "extension" compiles for a minute: it includes all of torch's headers.
    ["script", *(pytest.param(name, marks=pytest.mark.slow) for name in ("packed", "extension"))],
)
def test_every_binding_is_checked_and_timed_on_a_cpu(bindings_project, monkeypatch, variant):
    monkeypatch.chdir(bindings_project)
    found = bench_variant("scale", variant, "cpu", budget_s=0.3)

    assert found.verdict not in ("incorrect", "invalid"), found.detail
    assert found.candidate_us


def test_a_binding_is_not_rebuilt(bindings_project, monkeypatch):
    monkeypatch.chdir(bindings_project)
    build_variant("scale", "packed", "cpu")

    assert build_variant("scale", "packed", "cpu").status == "cached"


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["packed", "extension", "triton"])
def test_every_binding_is_checked_and_timed_on_a_gpu(bindings_project, monkeypatch, variant):
    monkeypatch.chdir(bindings_project)
    if validate_machine("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    found = bench_variant("scale", variant, "cuda", budget_s=0.5)

    assert found.verdict not in ("incorrect", "invalid"), found.detail
    assert found.timing == "graph"
