"""One kernel in every language and with every binding; each is built, judged and timed."""

import shutil
from pathlib import Path

import pytest
from slow_examples import mark_slow
from tests.support.machine_code import unpack_report

from kernelkb.actions.kernels.measure_variant import analyse_build, bench_variant, build_variant
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.measure.profile.profile import static_metrics
from kernelkb.measure.subject import BenchOptions
from kernelkb.profiles.machine_code import iter_cubins

SCALE = Path(__file__).parents[2] / "benchmarks" / "bindings" / "scale"


@pytest.fixture(scope="module")
def bindings_project(tmp_path_factory):
    """A project with the kernel; what is built in it serves all tests of this file."""
    root = tmp_path_factory.mktemp("bindings")
    shutil.copytree(SCALE, root / "kernels" / "scale")
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    # "extension" compiles for a minute: it includes all of torch's headers.
    mark_slow(["script", "packed", "extension"], ["packed", "extension"]),
)
def test_every_binding_is_checked_and_timed_on_a_cpu(bindings_project, monkeypatch, variant):
    monkeypatch.chdir(bindings_project)
    found = bench_variant("scale", variant, "cpu", options=BenchOptions(budget_s=0.3))

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
    found = bench_variant("scale", variant, "cuda", options=BenchOptions(budget_s=0.5))

    assert found.verdict not in ("incorrect", "invalid"), found.detail
    assert found.timing == "graph"


@pytest.mark.slow
def test_of_a_kernel_that_is_compiled_when_it_runs_the_code_is_read_then(
    bindings_project, monkeypatch, tmp_path
):
    """The code of another kernel stands for what Triton writes on a GPU."""
    monkeypatch.chdir(bindings_project)
    built = build_variant("scale", "triton", "cuda", "9.0")
    before = analyse_build(built)
    report = unpack_report(tmp_path, "h100-sxm", "dependent-load-chain")
    folder = Path(built.directory, "AB3D")
    folder.mkdir(parents=True)
    for at, image in enumerate(iter_cubins(report.read_bytes())):
        (folder / f"scale_{at}.cubin").write_bytes(image)

    assert before["kernels"] == []
    assert before["reason"].startswith("it is compiled when it is called")
    assert static_metrics(built)["dependent_load"] == 1
    assert any(fact["places"] for one in analyse_build(built)["kernels"] for fact in one["facts"])


@pytest.mark.gpu
def test_the_code_that_triton_compiled_has_lines_of_python(bindings_project, monkeypatch):
    monkeypatch.chdir(bindings_project)
    if validate_machine("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    found = bench_variant("scale", "triton", "cuda", options=BenchOptions(budget_s=0.5))
    (kernel, *_) = analyse_build(build_variant("scale", "triton", "cuda"))["kernels"]

    assert found.metrics["mma_opcode_count"] == 0
    assert any(
        place["file"].endswith(".py") and place["text"]
        for fact in kernel["facts"]
        for place in fact["places"]
    )
