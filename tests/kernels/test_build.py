"""Builds are named after what went into them, and appear whole."""

import multiprocessing
import os
import shutil

import pytest
import yaml
from broken_kernels import make_broken_kernel
from planted_kernels import write_planted

from kernelkb.actions.kernels.measure_variant import build_configurations, build_variant
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.cli import main
from kernelkb.errors import BadValueError, EnvironmentGapError, UnknownNameError
from kernelkb.measure.build.compilers import make_compiler_commands
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.measurement import Machine


def test_the_second_build_comes_from_the_cache(project):
    make_broken_kernel(project, "right")
    first, second = build_variant("broken", target="cpu"), build_variant("broken", target="cpu")

    assert (first.status, second.status) == ("built", "cached")
    assert first.library == second.library


CHANGES = {
    "source": ("naive.cpp", "#include <cstdint>", "#include <cstdint>  // more"),
    "flags": ("kernel.yaml", "flags: []", "flags: [-DMORE]"),
    "header": ("near.h", "deep/most.h", "deep/./most.h"),
    "header of a header": ("deep/most.h", "1", "2"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_input_of_a_build_changes_its_key(project, what):
    folder = make_broken_kernel(project, "right")
    source = folder / "naive.cpp"
    source.write_text('#include "near.h"\n' + source.read_text())
    (folder / "deep").mkdir()
    (folder / "near.h").write_text('#pragma once\n#include "deep/most.h"\n')
    (folder / "deep" / "most.h").write_text("#define MOST 1\n")
    first = build_variant("broken", target="cpu")
    name, old, new = CHANGES[what]
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace(old, new, 1))
    second = build_variant("broken", target="cpu")

    assert first.error is None
    assert old in text
    assert second.directory != first.directory


def test_an_unused_header_does_not_change_the_build_key(project):
    folder = make_broken_kernel(project, "right")
    first = build_variant("broken", target="cpu")
    (folder / "other.h").write_text("#define OTHER\n")

    assert build_variant("broken", target="cpu").status == "cached"
    assert first.error is None


def test_a_macro_of_two_lines_writes_no_rule_for_ninja(project):
    make_broken_kernel(project, "right")

    with pytest.raises(BadValueError, match="one line of printable text"):
        build_configurations("broken", {"BLOCK": ["1\n  command = true"]}, target="cpu")


def test_configurations_are_built_side_by_side_and_one_that_fails_stops_no_other(project):
    folder = make_broken_kernel(project, "right")
    source = folder / "naive.cpp"
    source.write_text("#if BLOCK == 3\n#error three\n#endif\n" + source.read_text())
    builds = build_configurations("broken", {"BLOCK": ["1", "2", "3", "4"]}, target="cpu")

    assert [one.status for one in builds] == ["built", "built", "failed", "built"]
    assert [one.defines for one in builds] == [(f"BLOCK={n}",) for n in (1, 2, 3, 4)]
    assert "three" in builds[2].error
    assert len({one.library for one in builds}) == 4


@pytest.mark.defends(
    "M12",
    attack="a stale build lock blocks, or an old build is loaded",
    defence="builds are addressed by a hash of their inputs and appear by a rename",
)
def test_stale_build_locks_are_ignored(project):
    make_broken_kernel(project, "right")
    first = build_variant("broken", target="cpu")
    shutil.rmtree(first.directory)
    for name in ("lock", ".ninja_lock", ".building-dead"):
        (project / ".kb" / "build" / "broken" / name).mkdir()

    assert build_variant("broken", target="cpu").status == "built"


def test_a_compiler_error_is_a_result_with_its_place(project):
    make_broken_kernel(project, "does-not-compile")
    found = build_variant("broken", target="cpu")

    assert (found.status, found.library) == ("failed", None)
    assert found.error.startswith("naive.cpp:7:")
    assert found.cure == f"fix naive.cpp and build again; the whole log: {found.directory}.log"


def test_the_cure_of_an_error_names_the_flags_too_where_a_variant_has_some(project):
    folder = make_broken_kernel(project, "does-not-compile")
    text = (folder / "kernel.yaml").read_text()
    (folder / "kernel.yaml").write_text(text.replace("flags: []", "flags: [-DOLD]"))

    cure = build_variant("broken", target="cpu").cure

    assert cure.startswith("fix naive.cpp or flags in kernel.yaml and build again; ")


def test_the_cure_of_an_error_names_the_file_that_holds_it(project):
    folder = make_broken_kernel(project, "right")
    (folder / "own.h").write_text("int broken = ;\n")
    source = folder / "naive.cpp"
    source.write_text('#include "own.h"\n' + source.read_text())

    cure = build_variant("broken", target="cpu").cure

    assert cure.startswith("fix naive.cpp or own.h, where the compiler stopped, and build again; ")


def test_a_cure_is_found_by_the_lines_behind_an_error(project):
    if find_nvcc() is None:
        pytest.skip("no nvcc")
    disabled = "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"
    flags = f', flags: ["{disabled[0]}", "{disabled[1]}"]'
    folder = write_planted(project, "simt.cu", 0, language="cuda", target="cuda", extra=flags)
    own = (folder / "simt.cu").read_text()
    product = "__global__ void scale(half* x, half s) { x[threadIdx.x] = x[threadIdx.x] * s; }\n"
    (folder / "simt.cu").write_text(f"{own}\n#include <cuda_fp16.h>\n{product}")
    found = build_variant("planted", arch="9.0")

    assert found.status == "failed"
    assert found.cure.startswith("half-operators-disabled: "), found.cure


def test_a_failed_build_leaves_its_whole_log_and_nothing_else(project):
    make_broken_kernel(project, "does-not-compile")
    found = build_variant("broken", target="cpu")
    (log,) = (project / ".kb" / "build" / "broken").iterdir()

    assert str(log) == f"{found.directory}.log"
    assert "naive.cpp:7:" in log.read_text()


def test_a_build_names_the_standard_that_the_code_needs(project):
    folder = make_broken_kernel(project, "right")
    source = folder / "naive.cpp"
    source.write_text("#include <version>\nstd::span<float> rows;\n" + source.read_text())
    found = build_variant("broken", target="cpu")

    assert found.cure.startswith("cpp20-needed: Set `-std=c++20`")


def test_a_failed_link_shows_what_the_linker_said_first(project):
    folder = make_broken_kernel(project, "right")
    text = (folder / "kernel.yaml").read_text()
    (folder / "kernel.yaml").write_text(text.replace("flags: []", "flags: [-lnot_there]"))
    found = build_variant("broken", target="cpu")

    assert "cannot find -lnot_there" in found.error
    assert found.cure.startswith("linker-library-missing: ")


def test_a_library_that_lacks_a_function_is_not_built_and_says_where_that_is(project):
    folder = make_broken_kernel(project, "right")
    source = folder / "naive.cpp"
    declared = "struct Grid { void fit(int n); };\nvoid kb_use(Grid* g) { g->fit(4); }\n"
    source.write_text(declared + source.read_text())
    (folder / "grid.cpp").write_text("struct Grid { void fit(int n); };\nvoid Grid::fit(int) {}\n")
    built = build_variant("broken", target="cpu")

    assert built.status == "failed"
    assert built.error.startswith("undefined reference to `Grid::fit(int)', which grid.cpp:2 ")


def test_only_the_git_ignored_build_folder_is_written(project):
    make_broken_kernel(project, "right")
    build_variant("broken", target="cpu")

    assert {p.name for p in project.iterdir()} == {".kb", "kernels", "sessions"}
    assert (project / ".kb" / ".gitignore").read_text() == "*\n"


def test_a_missing_compiler_is_named_with_the_cure(project, monkeypatch):
    monkeypatch.setenv("CXX", "/nonexistent/g++")

    with pytest.raises(EnvironmentGapError, match=r"not found at /nonexistent/g\+\+; install a"):
        build_variant("row_softmax", target="cpu")


def test_an_interpreter_without_torch_is_named_with_the_cure(project, monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\"; exit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("KB_PYTHON", str(python))

    with pytest.raises(EnvironmentGapError, match=r"cannot import torch.*set KB_PYTHON"):
        build_variant("row_softmax", target="cpu")


def build_in_process(folder, cache):
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = cache
    return build_variant("broken", target="cpu").library


@pytest.mark.slow
def test_builders_at_the_same_time_get_the_same_library(project, tmp_path):
    make_broken_kernel(project, "right")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        libraries = pool.starmap(build_in_process, [(str(project), str(tmp_path / "c"))] * 2)

    assert len(set(libraries)) == 1
    assert len(list((project / ".kb" / "build" / "broken").iterdir())) == 1


def test_a_path_with_spaces_is_no_obstacle(project, monkeypatch):
    make_broken_kernel(project, "right")
    odd = project.parent / "a project: with $pecial names"
    shutil.move(project, odd)
    monkeypatch.chdir(odd)

    assert build_variant("broken", target="cpu").error is None


@pytest.fixture
def gpu_kernel_project(project):
    """A kernel without a CPU variant, called ``vadd``."""
    path = make_broken_kernel(project, "right", "vadd") / "kernel.yaml"
    found = yaml.safe_load(path.read_text())
    found["variants"] = [one for one in found["variants"] if one["target"] == "cuda"]
    path.write_text(yaml.safe_dump(found))
    return project


needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")


@needs_nvcc
@pytest.mark.parametrize("arch", ["8.9", "sm_90"])
def test_an_architecture_and_nvcc_are_enough_to_compile_for_a_gpu(gpu_kernel_project, arch):
    found = build_variant("vadd", arch=arch)

    assert (found.status, found.target) == ("built", "cuda"), found.error
    assert found.resources
    assert f"sm_{arch[-3:].replace('.', '').replace('_', '')}" in found.command


@needs_nvcc
def test_configurations_can_be_compiled_for_an_architecture(gpu_kernel_project):
    builds = build_configurations("vadd", {"BLOCK": ["1", "2"]}, arch="8.9")

    assert [one.status for one in builds] == ["built", "built"]


@needs_nvcc
def test_without_a_gpu_the_cure_names_a_command_that_works(gpu_kernel_project, capsys):
    if validate_machine("cuda").machine is not None:
        pytest.skip("there is a GPU")
    code = main(["build", "vadd"])

    said = capsys.readouterr().err
    assert code == 2
    assert "--target cpu" not in said
    assert "`kb build vadd --arch 9.0` compiles without a GPU" in said
    assert main(["build", "vadd", "--variant", "warp"]) == 2
    assert "`kb build vadd --variant warp --arch 9.0` compiles" in capsys.readouterr().err


def test_the_cpu_is_offered_where_there_is_a_variant_for_it(project, monkeypatch):
    make_broken_kernel(project, "right")
    monkeypatch.setenv("CUDA_HOME", "/nonexistent")

    with pytest.raises(EnvironmentGapError, match=r"or use --target cpu$"):
        build_variant("broken", target="cuda")
    with pytest.raises(EnvironmentGapError) as caught:
        build_variant("broken", "warp")
    assert "--target cpu" not in str(caught.value)


def test_an_architecture_without_nvcc_says_how_to_get_one(gpu_kernel_project, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/nonexistent")

    with pytest.raises(EnvironmentGapError, match="nvcc: not found at /nonexistent; install"):
        build_variant("vadd", arch="9.0")


def test_an_architecture_has_to_exist_and_to_be_a_gpus(project):
    with pytest.raises(UnknownNameError, match="kb show architectures"):
        build_variant("row_softmax", arch="sm_3")
    with pytest.raises(BadValueError, match="--arch names a GPU architecture"):
        build_variant("row_softmax", target="cpu", arch="9.0")


@pytest.mark.parametrize(
    ("release", "defines", "splits"),
    [("12.1", [], False), ("12.2", [], True), ("13.0", [], True), ("13.0", ["BLOCK=1"], False)],
)
def test_nvcc_optimises_kernels_side_by_side_where_it_can_and_nothing_else_does(
    release, defines, splits
):
    variant = Variant(id="one", target="cuda", language="cuda", source="one.cu", summary="one")
    commands = make_compiler_commands(variant, make_machine(release), "g++", defines)
    assert ("--split-compile" in commands.device) == splits


def test_half_operators_of_an_extension_are_torchs_unless_its_flags_say_otherwise():
    fields = {"target": "cuda", "language": "cuda", "summary": "one", "binding": "torch-extension"}
    flags = ["-U__CUDA_NO_HALF_OPERATORS__"]
    variant = Variant(id="one", source="one.cu", flags=flags, **fields)
    device = make_compiler_commands(variant, make_machine("13.0"), "g++", []).device

    assert "-D__CUDA_NO_HALF_CONVERSIONS__" in device
    assert device.index("-D__CUDA_NO_HALF_OPERATORS__") < device.index(*flags)


def test_libraries_follow_the_source_that_needs_them():
    fields = {"target": "cuda", "language": "cuda", "summary": "one", "source": "one.cu"}
    variant = Variant(id="one", flags=["-DFAST", "-lcublas", "-L/opt/more"], **fields)
    commands = make_compiler_commands(variant, make_machine("13.0"), "g++", [])

    assert commands.libraries == ["-lcublas", "-L/opt/more"]
    assert "-DFAST" in commands.device
    assert "-lcublas" not in commands.device


def test_host_code_beside_a_kernel_is_compiled_without_the_options_of_nvcc():
    flags = ["-rdc=true", "--expt-relaxed-constexpr", "-Xptxas", "-v", "-DN=4", "--std=c++20"]
    variant = Variant(
        id="mine", target="cuda", language="cuda", source="k.cu", flags=flags, summary="k"
    )
    commands = make_compiler_commands(variant, make_machine("13.0"), "g++", ())

    assert {*flags} <= {*commands.device}
    assert {*flags} & {*commands.host} == {"-DN=4", "--std=c++20"}


def make_machine(release):
    return Machine(
        target="cuda",
        title="a GPU",
        core_count=4,
        cache_bytes=1,
        simd_lanes_count=1,
        cc="9.0",
        compiler="/opt/cuda/bin/nvcc",
        compiler_version=f"Cuda compilation tools, release {release}, V{release}.1",
        python="python3",
        torch="2.11",
    )


def test_host_code_beside_a_kernel_finds_the_headers_of_cuda(tmp_path):
    fields = {"target": "cuda", "language": "cuda", "summary": "one", "source": "one.cu"}
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cuda_runtime.h").touch()
    machine = make_machine("13.0").model_copy(update={"compiler": str(tmp_path / "bin/nvcc")})
    commands = make_compiler_commands(Variant(id="one", **fields), machine, "g++", [])

    assert commands.host[-1] == f"-I{tmp_path}/include"
    assert commands.host[-1] not in commands.device
