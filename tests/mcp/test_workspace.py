"""What a server reads, builds, runs and writes: nothing outside of its workspace."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from broken_kernels import make_broken_kernel
from http_server import SERVER_COMMAND
from mcp import Client, StdioServerParameters
from tool_calls import leave_workspace

from kernelkb.actions.kernels.measure_variant import build_variant
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.measure.process.candidate_sandbox import detect_layers
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig, enter_workspace

SECRET = "swordfish"  # noqa: S105 a word that no answer may hold
DATA = Path(__file__).parents[1] / "data"
BROKEN_ON_CPU = {"kernel": "broken", "target": "cpu"}


@pytest.fixture
def outside(tmp_path):
    """A folder beside the project with a secret in every file."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "report.csv").write_text(f'"ID","Kernel Name","{SECRET}"\n')
    (folder / "header.h").write_text(f"{SECRET} here;\n")
    (folder / "session.md").write_text(f"---\nsession: {SECRET}\n---\n")
    return folder


@pytest.fixture
def confined_project(project):
    """The project, with this process kept to it as a server is."""
    enter_workspace(ServerConfig())
    yield project
    leave_workspace()


def call_without_secret(name, **arguments):
    async def run():
        async with Client(build_server(ServerConfig(inline_s=600.0))) as client:
            return await client.call_tool(name, arguments)

    result = anyio.run(run)
    said = result.content[0].text
    assert SECRET not in said
    return result.is_error, said


def read_tree(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_workspace_error(result, text="--workspace DIR"):
    is_error, said = result
    return is_error and text in said and "\n" not in said


def test_a_report_of_the_project_is_read(confined_project):
    report = next(DATA.rglob("*raw*.csv"))
    shutil.copy(report, confined_project / "report.csv")
    is_error, said = call_without_secret("recommend_fix", profile="report.csv")

    assert not is_error, said


def test_a_pattern_that_never_ends_is_ended(confined_project):
    shutil.copy(next(DATA.rglob("*raw*.csv")), confined_project / "report.csv")
    result = call_without_secret(
        "recommend_fix", profile="report.csv", kernel=r"(\w*\W*)*\d\d\d\d\d\d$"
    )

    assert is_workspace_error(result, "remove nested repetitions")


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../outside/report.csv", "sessions/../../outside/report.csv", "//etc/passwd",
     "/proc/self/environ", "/dev/zero", "/dev/stdin", "~/../../etc/passwd", "link.csv", "chain.csv",
     "folder/report.csv", "folder", "/proc/self/fd/0", "/proc/self/root/etc/passwd"],
)  # fmt: skip
def test_a_report_outside_is_not_opened(confined_project, outside, path):
    (confined_project / "link.csv").symlink_to(outside / "report.csv")
    (confined_project / "chain.csv").symlink_to("link.csv")
    (confined_project / "folder").symlink_to(outside)
    result = call_without_secret("recommend_fix", profile=path)

    assert is_workspace_error(result) or is_workspace_error(result, "cannot read")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_pipe_device_or_folder_is_not_read_as_a_report(confined_project, kind):
    path = confined_project / "report.csv"
    {
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "folder": path.mkdir,
    }[kind]()
    result = call_without_secret("recommend_fix", profile="report.csv")

    says = {"device": "outside", "pipe": "not a regular file", "folder": "without timelines"}
    assert is_workspace_error(result, says[kind])


def test_a_folder_of_timelines_is_read_unless_one_of_them_is_outside(confined_project, outside):
    folder = confined_project / "ranks"
    folder.mkdir()
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "ts": 0, "dur": 5}
    (folder / "rank-0.json").write_text(json.dumps({"traceEvents": [kernel]}))
    _, text = call_without_secret("recommend_fix", profile="ranks")
    (folder / "rank-1.json").symlink_to(outside / "report.csv")

    assert "gemm" in text
    assert is_workspace_error(call_without_secret("recommend_fix", profile="ranks"))


@pytest.mark.slow
def test_a_huge_report_is_not_read(confined_project):
    with (confined_project / "report.csv").open("wb") as file:
        file.truncate(2**40)

    assert is_workspace_error(
        call_without_secret("recommend_fix", profile="report.csv"), "longer than 1024 MiB"
    )


@pytest.mark.parametrize("path", ["\0", "a\0b", "\udcff", "x" * 5000, "", "."])
def test_a_name_that_no_file_has_is_a_plain_error(confined_project, path):
    is_error, said = call_without_secret("recommend_fix", profile=path)

    assert is_error
    assert "\n" not in said
    assert said != "Error executing tool recommend_fix"


def test_a_kernel_folder_that_is_a_link_is_not_followed(confined_project, outside):
    make_broken_kernel(confined_project, "right").rename(outside / "broken")
    (confined_project / "kernels" / "broken").symlink_to(outside / "broken")

    assert is_workspace_error(call_without_secret("build_kernel", **BROKEN_ON_CPU))


def test_kernels_that_is_a_link_is_not_followed(confined_project, outside):
    make_broken_kernel(confined_project, "right")
    (confined_project / "kernels").rename(outside / "kernels")
    (confined_project / "kernels").symlink_to(outside / "kernels")

    assert is_workspace_error(call_without_secret("build_kernel", **BROKEN_ON_CPU))


@pytest.mark.parametrize("name", ["naive.cpp", "reference.py", "kernel.yaml"])
@pytest.mark.parametrize("kind", ["link", "pipe", "/proc/self/environ", "huge"])
def test_a_file_of_a_kernel_stays_inside(confined_project, outside, name, kind):
    file = make_broken_kernel(confined_project, "right") / name
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "huge":
        with file.open("wb") as opened:
            opened.truncate(2**40)
    else:
        file.symlink_to(outside / "header.h" if kind == "link" else kind)
    words = {"pipe": "not a regular file", "huge": "longer than"}

    assert is_workspace_error(
        call_without_secret("build_kernel", **BROKEN_ON_CPU), words.get(kind, "--workspace DIR")
    )


@pytest.mark.parametrize("source", ["../outside/x.cpp", "/etc/passwd", "..", "a/b.cpp"])
def test_a_source_is_a_name_and_no_path(confined_project, source):
    file = make_broken_kernel(confined_project, "right") / "kernel.yaml"
    file.write_text(file.read_text().replace("source: naive.cpp", f"source: {source}"))

    assert is_workspace_error(call_without_secret("build_kernel", **BROKEN_ON_CPU), "source")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_knowledge_of_the_project_stays_inside(confined_project, outside, kind):
    (confined_project / "knowledge" / "patterns").mkdir(parents=True)
    file = confined_project / "knowledge" / "patterns" / "own.yaml"
    os.mkfifo(file) if kind == "pipe" else file.symlink_to(outside / "header.h")
    words = {"pipe": "not a regular file", "link": "--workspace DIR"}

    assert is_workspace_error(call_without_secret("recommend_fix", speedup=0.3), words[kind])


@pytest.mark.parametrize("there", [True, False])
def test_a_session_that_is_a_link_is_not_written_to(confined_project, outside, there):
    before = read_tree(outside)
    (confined_project / "sessions" / "mine.md").symlink_to(
        outside / ("session.md" if there else "new.md")
    )
    result = call_without_secret("session", action="log", goal="x", id="mine")

    assert is_workspace_error(result)
    assert read_tree(outside) == before


@pytest.mark.parametrize("name", ["sessions", ".kb"])
def test_a_sessions_or_kb_folder_that_is_a_link_is_not_written_to(confined_project, outside, name):
    make_broken_kernel(confined_project, "right")
    shutil.rmtree(confined_project / name, ignore_errors=True)
    (confined_project / name).symlink_to(outside)
    before = read_tree(outside)
    tool = (
        ("session", {"action": "log", "goal": "x"})
        if name == "sessions"
        else ("build_kernel", BROKEN_ON_CPU)
    )

    assert is_workspace_error(call_without_secret(tool[0], **tool[1]))
    assert read_tree(outside) == before


def test_a_candidate_that_crashes_is_built_again_inside(confined_project):
    make_broken_kernel(confined_project, "segfault")
    is_error, said = call_without_secret("bench_kernel", **BROKEN_ON_CPU)

    assert not is_error, said
    assert "naive.cpp:7" in said


def test_an_include_of_a_file_outside_is_refused_before_anything_compiles(
    confined_project, outside
):
    source = make_broken_kernel(confined_project, "right") / "naive.cpp"
    source.write_text(f'#include "{outside}/header.h"\n' + source.read_text())

    assert is_workspace_error(call_without_secret("build_kernel", **BROKEN_ON_CPU))


needs_landlock = pytest.mark.skipif(
    "landlock" not in detect_layers()[0], reason="this kernel has no Landlock"
)
ESCAPING_INCLUDES = {
    "macro": '#define X "{}"\n#include X\n',
    "incbin": 'asm(".incbin \\"{}\\"");\n',
    "environment": '#define X "/proc/self/environ"\n#include X\n',
    "embed": 'asm(".include \\"{}\\"");\n',
}


@needs_landlock
@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("how", ESCAPING_INCLUDES)
def test_a_compiler_reads_nothing_outside(confined_project, outside, monkeypatch, target, how):
    if target == "cuda" and find_nvcc() is None:
        pytest.skip("no nvcc")
    monkeypatch.setenv("SOME_SECRET", SECRET)
    source = make_broken_kernel(confined_project, "right") / (
        "naive.cpp" if target == "cpu" else "naive.cu"
    )
    text = source.read_text()
    source.write_text(ESCAPING_INCLUDES[how].format(outside / "header.h") + text)
    built = build_variant("broken", "naive", target, arch="9.0" if target == "cuda" else None)

    assert built.status == "failed"
    assert SECRET not in built.error
    assert re.search("ermission denied|can't open|not found", built.error), built.error


@needs_landlock
def test_a_compiler_reads_headers_of_the_project(confined_project):
    source = make_broken_kernel(confined_project, "right") / "naive.cpp"
    (confined_project / "headers").mkdir()
    (confined_project / "headers" / "own.h").write_text("#define OWN 1\n")
    source.write_text('#define X "../../headers/own.h"\n#include X\n' + source.read_text())

    assert build_variant("broken", "naive", "cpu").error is None


def call_over_stdio(project, words, name, **arguments):
    async def talk():
        parameters = StdioServerParameters(
            command=sys.executable,
            args=[*SERVER_COMMAND[1:], *words],
            cwd=project,
            env=dict(os.environ),
        )
        async with Client(parameters) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(talk)


@pytest.mark.parametrize("allowed", [False, True])
def test_a_second_folder_is_allowed_by_name(project, outside, allowed):
    shutil.copy(next(DATA.rglob("*raw*.csv")), outside / "report.csv")
    words = ["--workspace", ".", *(["--workspace", str(outside)] if allowed else [])]
    result = call_over_stdio(project, words, "recommend_fix", profile=str(outside / "report.csv"))

    assert result.is_error is not allowed


def test_the_cli_is_not_confined_to_the_workspace(project, outside):
    shutil.copy(next(DATA.rglob("*raw*.csv")), outside / "report.csv")
    done = subprocess.run(
        [sys.executable, "-m", "kernelkb.cli", "recommend", "--profile", "../outside/report.csv"],
        cwd=project, capture_output=True, text=True,
    )  # fmt: skip

    assert "outside of the workspace" not in done.stdout + done.stderr


def test_a_project_that_is_the_whole_file_system_is_no_workspace(monkeypatch):
    monkeypatch.chdir("/")
    enter_workspace(ServerConfig())
    try:
        result = call_without_secret("recommend_fix", profile="/etc/passwd")
    finally:
        leave_workspace()

    assert is_workspace_error(result)


@pytest.mark.slow
def test_a_database_that_is_a_link_is_neither_read_nor_written(confined_project, outside):
    make_broken_kernel(confined_project, "right")
    (confined_project / ".kb").mkdir(exist_ok=True)
    (confined_project / ".kb" / "measurements.db").symlink_to(outside / "other.db")
    _, said = call_without_secret("bench_kernel", **BROKEN_ON_CPU, workload="tiny")

    assert not (outside / "other.db").exists()
    assert "outside of the workspace" in said
