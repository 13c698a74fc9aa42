"""Compiler flags that a server takes from a kernel.yaml, and those that it does not."""

import pytest
from broken_kernels import make_broken_kernel
from tool_calls import leave_workspace

from kernelkb.actions.project.bench_target import prepare
from kernelkb.errors import BadValueError, KnowledgeError
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.build.build import build_all
from kernelkb.safety.compiler_flags import find_disallowed_flag
from kernelkb.safety.workspace import set_workspace

ALLOWED_FLAGS = [
    "-O3", "-Ofast", "-std=c++20", "-std=gnu++17", "-DTILE=64", "-DNAME", '-DTEXT="a b"',
    "-UNDEBUG", "-Wall", "-Wno-unused-variable", "-Werror=shadow", "-w", "-g", "-ffast-math",
    "-fno-math-errno",
    "-funroll-loops", "-ffp-contract=fast", "-fvisibility=hidden", "-march=native", "-mavx2",
    "-mprefer-vector-width=512", "-pthread", "-lcublas", "--use_fast_math", "-use_fast_math",
    "-maxrregcount=64", "--maxrregcount=64", "-lineinfo", "--fmad=false", "-Xptxas=-v,-O3",
    "--ptxas-options=-dlcm=ca", "-gencode=arch=compute_90a,code=sm_90a", "-arch=sm_80",
    "-gencode=arch=compute_80,code=[sm_80,compute_80]", "--expt-relaxed-constexpr",
    "--expt-extended-lambda", "--extra-device-vectorization", "-I.", "-Iinclude", "-rdc=true",
]  # fmt: skip
FORBIDDEN_FLAGS = [
    "-fplugin=/tmp/x.so", "-fplugin=x", "-fplugin-arg-x-y=z", "-wrapper", "-wrapper=sh", "-B/tmp",
    "-B.", "-specs=x", "--specs=x", "@file", "-@file", "-o", "-ox", "-o/tmp/x", "-include",
    "-include/etc/passwd", "-imacros", "-Xcompiler", "-Xcompiler=-fplugin=x", "--compiler-bindir",
    "--compiler-bindir=/tmp", "-ccbin", "-ccbin=/tmp/evil", "-ccbin/tmp", "-dlink", "--device-link",
    "-dlto", "-I/etc", "-I../../outside", "-I/", "-I", "-isystem/etc", "-iquote/etc", "-idirafter/",
    "-Wl,-rpath,/tmp", "-Wa,-I/etc", "-Wp,-MD,/tmp/x", "-Wl,-o,/tmp/x", "-Xlinker", "-Xassembler",
    "-Xptxas=-o,/tmp/x", "-Xptxas=-v,@file", "-save-temps", "-save-temps=obj", "--keep",
    "--keep-dir=/tmp", "-fdump-tree-all", "-fdump-rtl-all=/tmp/x", "-fprofile-use=/etc/passwd",
    "-fprofile-generate=/tmp", "-fopt-info-vec=/tmp/x", "-fuse-ld=/tmp/ld", "-flto", "-L/tmp",
    "-l:../../x.so", "-l/etc/x", "--sysroot=/tmp", "-isysroot/tmp", "-MF/tmp/x", "-MD", "-E", "-S",
    "-x", "-xassembler", "-T/tmp/x.ld", "--options-file=/tmp/x", "-optf=/tmp/x", "--run", "-run",
    "-run-args=x", "--dryrun", "-time=/tmp/x", "-odir=/tmp", "--output-file=/tmp/x", "-mllvm",
    "-mllvm=-load=x", "-load=x", "-Xclang", "-fmodule-file=x", "-fmodules-cache-path=/tmp",
    "-fsanitize-ignorelist=/etc/passwd", "-fcallgraph-info", "-fauto-profile=/etc/x", "-pipe;sh",
    "-DX=1\nrule evil", "-DX=\x1b[31m", "-O3\n", "-O3 -o/tmp/x", "--nvlink-options=x", "-Xnvlink=x",
    "--fatbin-options=x", "-ldir=/tmp", "--libdevice-directory=/tmp", "-target-dir=/tmp", "-",
    "--", "-std=c++17 -o x", "-Winvalid,x", "-D", "-U", "-D$(x)", "-MQ", "-fdiagnostics-format=x",
    "-aux-info=/tmp/x", "-dumpdir", "-dumpbase=/tmp/x", "-imultilib", "-no-integrated-cpp", "-Q",
]  # fmt: skip


@pytest.fixture(autouse=True)
def confine_to_project(project):
    (project / "include").mkdir()
    set_workspace([project])
    yield
    leave_workspace()


@pytest.mark.parametrize("define", ["BLOCK=1\nrule evil", "1BAD", "X=\x1b[0m", "", "X\0"])
def test_a_macro_of_a_configuration_is_looked_at_too(project, define):
    make_broken_kernel(project, "right")
    place = prepare("broken", "naive", "cpu")
    with pytest.raises(BadValueError, match=r"is not (allowed on a server|one line)"):
        build_all(place.subject, place.build_root, [[define]])


@pytest.mark.parametrize("flag", ALLOWED_FLAGS)
def test_a_flag_that_changes_the_code_is_taken(project, flag):
    assert find_disallowed_flag([flag], str(project)) is None


@pytest.mark.parametrize("flag", FORBIDDEN_FLAGS)
def test_a_flag_that_reads_writes_or_starts_something_is_not(project, flag):
    assert find_disallowed_flag(["-O3", flag], str(project))[0] == 1


def test_ptxas_flags_are_checked(project):
    assert find_disallowed_flag(["-Xptxas", "-v", "-Xptxas", "-O3"], str(project)) is None
    assert find_disallowed_flag(["-Xptxas", "-o"], str(project))[0] == 1
    assert find_disallowed_flag(["-O3", "-Xptxas"], str(project))[0] == 1


def test_folders_of_headers_may_not_be_links_out(project, tmp_path):
    (project / "out").symlink_to(tmp_path)

    assert "outside of the workspace" in find_disallowed_flag(["-Iout"], str(project))[1]


FLAGS = "flags: [-O2, -fplugin=x.so]"


def make_kernel_with_plugin_flag(project):
    file = make_broken_kernel(project, "right") / "kernel.yaml"
    file.write_text(file.read_text().replace("flags: []", FLAGS, 1))


def test_a_kernel_with_such_a_flag_is_refused_at_its_line(project):
    make_kernel_with_plugin_flag(project)
    with pytest.raises(
        KnowledgeError, match=r"kernel.yaml:\d+:\d+: .*'-fplugin=x.so' is not"
    ) as no:
        load_kernel("broken", project)

    assert "--use_fast_math" in str(no.value)


def test_the_cli_allows_every_flag(project):
    leave_workspace()
    make_kernel_with_plugin_flag(project)

    assert load_kernel("broken", project).kernel.variants[0].flags == ("-O2", "-fplugin=x.so")
