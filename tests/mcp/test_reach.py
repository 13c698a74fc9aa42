"""What an agent needs beside its own kernels' loop: logs, limits, set-up, comparisons, tasks."""

import json
import os
import re
import sys
from pathlib import Path

import anyio
import pytest
from broken_kernels import CORRECT_BODY, HEAD, make_broken_kernel
from mcp import Client, StdioServerParameters
from measurements import make_bench
from task_checks import make_module, make_task
from tool_calls import call_tool, leave_workspace

from kernelkb.cli import main
from kernelkb.commands import COMMANDS, spell_command
from kernelkb.record.measurements.store import open_store
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import TOOLSETS, ServerConfig, enter_workspace
from kernelkb_mcp.views.next_call import format_call_for_command

DATA = Path(__file__).parents[1] / "data" / "ncu"
SNAPSHOT = json.loads((DATA.parent / "mcp_tools.json").read_text())
SCHEMAS = {tool["name"]: tool["inputSchema"] for tool in SNAPSHOT}
LINK_LOG = "ld: add.o: in function `main':\nadd.cu: undefined reference to `launch(float*)'\n"
SERVER = ["-c", "from kernelkb_mcp.start import main; main()"]
HALF = "return 0.5 * x"
LAUNCH = {"gpu": "h100-sxm", "threads": 256, "registers": 96}
OTHERS = {
    "read_entry": {"id": "attempts/no_such"},
    "tune_kernel": {"kernel": "no_such"},
    "session": {"kernel": "no_such", "goal": "x"},
    "recommend_fix": {"kernel": "no_such", "speedup": 0.3},
    "build_kernel": {"kernel": "no_such", "variant": "mine", "add_from": "naive"},
}


@pytest.fixture
def kb_json(capsys):
    """Run ``kb … --json`` and return what it printed."""

    def run(*words):
        main([*words, "--json"])
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def confined_folder(project):
    """A project whose server reads nothing outside of it."""
    enter_workspace(ServerConfig())
    yield project
    leave_workspace()


def read_tree(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_source(project):
    """Write a kernel in C++ that ``kb init`` reads without a question."""
    (project / "src").mkdir()
    (project / "src" / "twice.cpp").write_text(
        'extern "C" int twice(const float* x, float* y, long n, void* stream) {\n'
        "  for (long i = 0; i < n; ++i) y[i] = 2 * x[i];\n  return 0;\n}\n"
    )
    return "src/twice.cpp"


def test_a_log_is_diagnosed_as_text_and_as_a_file(project, kb_json):
    (project / "build.log").write_text(LINK_LOG)
    told = kb_json("diagnose", "build.log")["symptoms"]
    as_text = call_tool("recommend_fix", log=LINK_LOG).structured_content
    as_file = call_tool("recommend_fix", log="build.log").structured_content

    assert as_text["symptoms"] == as_file["symptoms"] == told
    assert told[0]["cure"] in as_text["summary"]
    assert as_text["next"][0] == f"read_entry(id={told[0]['symptom']!r})"
    assert as_text["kernels"] == []


def test_an_unknown_log_has_no_symptom(project):
    log = "step 1\nerror: the flux is out of tune\n"
    answer = call_tool("recommend_fix", log=log).structured_content

    assert answer["symptoms"] == []
    assert answer["log"]["first_error"]["said"] == "error: the flux is out of tune"
    assert "error: the flux is out of tune" in answer["summary"]
    assert answer["next"] == []  # a log is not to be believed: its words stand in no call
    assert "search_knowledge" in answer["needs"]


def test_the_call_for_a_command_is_one_that_the_server_takes():
    """The snapshot of the tools' schemas is held to the server by another test."""
    calls = [format_call_for_command(spell_command(command)) for command in COMMANDS]
    reached = [call.partition("(") for call in calls if not call.startswith("in a shell: ")]

    assert len(reached) >= 18
    for tool, _, given in reached:
        assert set(re.findall(r"(\w+)=", given)) <= set(SCHEMAS[tool]["properties"])


def test_a_command_is_found_with_the_call_that_does_the_same(project):
    found = call_tool("search_knowledge", query="compare two reports", kind="command")

    assert "read_entry(id='A..B')" in found.structured_content["needs"]


def test_a_long_log_is_cut_to_what_a_client_shows(project):
    line = "add.cu: undefined reference to `{}'\n"
    result = call_tool("recommend_fix", log="".join(line.format("x" * 200) for _ in range(500)))

    assert len(result.content[0].text.encode()) <= 8000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"log": "no.log"}, ["cannot read no.log", "the text itself"]),
        ({"log": LINK_LOG, "speedup": 0.3}, ["log and speedup", "one at a time"]),
        ({"log": LINK_LOG, "gpu": "h100-smx"}, ["'h100-sxm'"]),
        ({"profile": '"ID","Process ID"\n"0","17"\n'}, ["is no report", "give a .ncu-rep file"]),
        ({"profile": "==PROF== Disconnected from process 17\n"}, ["is no report"]),
    ],
)
def test_what_recommend_fix_cannot_read_is_refused_with_the_cure(project, arguments, words):
    result = call_tool("recommend_fix", **arguments)

    assert result.is_error
    assert [word for word in words if word not in result.content[0].text] == []
    assert "\n" not in result.content[0].text


def test_a_log_outside_of_the_workspace_is_not_read(confined_folder, tmp_path):
    (tmp_path / "secret.log").write_text(LINK_LOG)
    result = call_tool("recommend_fix", log="../secret.log")

    assert "outside of the workspace" in result.content[0].text


def test_occupancy_and_roofline_match_the_cli(kb_json):
    work = {"gpu": "h100-sxm", "bytes": "1GiB", "flop": 1e9, "dtype": "fp32", "kernel_us": 900}
    launch = {**LAUNCH, "smem": "128x64x2", "grid": 1000}
    limits = call_tool("calculate_limits", **{**launch, **work})
    words = ["--threads", "256", "--registers", "96", "--dynamic-smem", "128x64x2", "--grid"]
    found = limits.structured_content

    assert found["occupancy"] == kb_json("occupancy", "--gpu", "h100-sxm", *words, "1000")
    assert found["roofline"] == kb_json(
        "roofline", "--gpu", "h100-sxm", "--bytes", "1GiB", "--flop", "1e9", "--dtype", "fp32",
        "--us", "900",
    )  # fmt: skip
    assert "blocks per SM" in found["summary"]
    assert "at least" in found["summary"]


def test_an_architecture_has_an_occupancy_without_a_gpu():
    found = call_tool("calculate_limits", gpu="sm_89", threads=128, registers=168)

    assert found.structured_content["occupancy"]["architecture"] == "8.9"
    assert found.structured_content["roofline"] is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"gpu": "h100-sxm"}, "threads and registers"),
        ({"gpu": "h100-sxm", "threads": 256}, "registers is absent"),
        ({"gpu": "h100-sxm", "bytes": "many"}, "many"),
        ({"gpu": "h100-sxm", "threads": 4096, "registers": 8}, "1024"),
    ],
)
def test_impossible_limits_are_refused(arguments, text):
    result = call_tool("calculate_limits", **arguments)

    assert result.is_error
    assert text in result.content[0].text


def test_a_source_is_set_up_as_the_kernel_that_it_is_called(project):
    path = write_source(project)
    made = call_tool("build_kernel", kernel="double_it", file=path, target="cpu")
    setup = made.structured_content["setup"]

    assert setup["kernel"] == "double_it"
    assert (project / "kernels" / "double_it" / "kernel.yaml").is_file()
    assert "double_it" in made.structured_content["next"][0]


def test_a_source_with_two_kernels_asks_for_one(project):
    body = "{ for (long i = 0; i < n; ++i) y[i] = 2 * x[i]; return 0; }\n"
    names = ("twice", "double_it")
    (project / "two.cpp").write_text(
        "".join(
            f'extern "C" int {n}(const float* x, float* y, long n, void*) {body}' for n in names
        )
    )
    asked = call_tool("build_kernel", kernel="mine", file="two.cpp", target="cpu")
    made = call_tool("build_kernel", kernel="mine", file="two.cpp#double_it", target="cpu")

    assert "file=two.cpp#twice" in asked.content[0].text
    assert made.structured_content["setup"]["kernel"] == "mine"


def test_a_variant_is_added_as_a_copy_and_then_benched_against_it(project):
    make_broken_kernel(project, "right")
    which = {"kernel": "broken", "variant": "two-rows", "target": "cpu"}
    made = call_tool("build_kernel", **which, add_from="naive").structured_content
    built = call_tool("build_kernel", **which).structured_content

    assert made["build"] is None
    assert (project / made["setup"]["path"]).read_text() == f"{HEAD}{CORRECT_BODY}  return 0;\n}}\n"
    assert made["next"][1].startswith("bench_kernel(kernel='broken', variant='two-rows'")
    assert "against='naive'" in made["next"][1]
    assert built["build"]["error"] is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kernel": "src/twice.cpp"}, "build_kernel(kernel='twice', file='src/twice.cpp')"),
        ({"kernel": "twice", "file": "__global__ void f() {}\n"}, "give a path"),
        ({"kernel": "twice", "file": "no.cu"}, "no.cu"),
        ({"kernel": "broken", "add_from": "naive"}, "variant is the name of the new one"),
        ({"kernel": "broken", "variant": "b", "add_from": "nave"}, "'naive'"),
        ({"kernel": "a", "file": "a.cu", "restore": "best"}, "file and restore"),
        ({"kernel": "a", "file": "a.cu", "change": "x"}, "leave one of them out"),
        ({"kernel": "a", "say": ["--from ./app"]}, "give file, too"),
    ],
)
def test_a_beginning_that_cannot_be_is_refused_and_writes_nothing(project, arguments, text):
    make_broken_kernel(project, "right")
    before = read_tree(project)
    result = call_tool("build_kernel", **arguments)

    assert result.is_error
    assert text in result.content[0].text
    assert read_tree(project) == before


def test_a_program_is_run_for_a_draft_only_where_the_server_was_started_for_that(project):
    (project / "ops.py").write_text("import torch\n\n\ndef double(x):\n    return x * 2 + 1\n")
    (project / "app.py").write_text(
        "import ops, torch\nfor _ in range(3):\n    ops.double(torch.ones(4, 6))\n"
    )
    which = {"kernel": "double", "file": "ops.py#double", "target": "cpu"}
    say = [f"--from {sys.executable} app.py"]
    refused = call_tool("build_kernel", **which, say=say).structured_content

    async def run():
        config = ServerConfig(inline_s=600, run_programs=True)
        async with Client(build_server(config)) as client:
            return await client.call_tool("build_kernel", {**which, "say": say})

    assert "this server runs no programs" in refused["summary"]
    assert refused["next"][0].startswith("in a shell: kb init --from ")
    assert not (project / "kernels").exists()
    made = anyio.run(run).structured_content
    assert made["setup"]["to_fill"] == []
    assert "observed-1: {" in (project / "kernels/double/kernel.yaml").read_text()


def test_a_source_outside_of_the_workspace_is_not_set_up(confined_folder, tmp_path):
    write_source(tmp_path)
    result = call_tool("build_kernel", kernel="mine", file="../src/twice.cpp")

    assert "outside of the workspace" in result.content[0].text
    assert not (confined_folder / "kernels").exists()


@pytest.mark.slow
def test_an_architecture_is_built_without_a_gpu(project):
    which = {"kernel": "row_softmax", "variant": "warp", "target": "cuda", "arch": "9.0"}
    built = call_tool("build_kernel", **which).structured_content["build"]

    assert built["error"] is None
    assert built["target"] == "cuda"


def test_two_measurements_are_compared(project, kb_json):
    with open_store(project) as store:
        records = [make_bench(us=20.0), make_bench("vectorized", us=10.0, hours=1)]
        store.add(records)
    a, b = (record.id[:8] for record in records)
    found = call_tool("read_entry", id=f"{a}..{b}").structured_content
    named = call_tool("read_entry", id="row_softmax/naive..vectorized").structured_content

    assert found["entry"] == named["entry"] == kb_json("compare", a, b)
    assert found["entry"]["ratio"] == pytest.approx(2.0, rel=0.02)
    assert found["summary"].startswith("b is 2")
    assert found["next"] == [f"recommend_fix(run={records[1].id[:12]!r})"]


def test_two_reports_are_compared(kb_json):
    path = os.path.relpath(DATA / "reports" / "four_launches_raw.csv")
    sides = [f"{path}#{launch}" for launch in (0, 1)]
    first = call_tool("read_entry", id="..".join(sides)).structured_content
    told = kb_json("compare", *sides)

    assert list(told)[: len(first["entry"])] == list(first["entry"])
    assert first["entry"]["kernels"][0]["ratio"] == told["kernels"][0]["ratio"]
    assert first["next"][-1] == f"recommend_fix(profile={path!r})"


@pytest.mark.parametrize("name", ["dead..beef", "a.ncu-rep..b.ncu-rep", "no_such/a..b"])
def test_what_cannot_be_compared_is_named(project, name):
    result = call_tool("read_entry", id=name)

    assert result.is_error
    assert "\n" not in result.content[0].text
    assert list(project.rglob("*")) == [project / "sessions"]


@pytest.mark.slow
def test_a_task_is_benched_with_its_candidate(project):
    (project / "task.py").write_text(make_task(HALF, "[torch.rand(64, 64)]"))
    (project / "mine.py").write_text(make_module("ModelNew", "return 0.25 * x"))
    two = {"task": "task.py", "candidate": "mine.py"}
    found = call_tool("bench_kernel", **two, target="cpu").structured_content

    assert found["bench"]["verdict"] == "incorrect"
    assert found["next"][1] == "bench_kernel(task='task.py', candidate='mine.py')"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"task": "task.py"}, "name a kernel, or give task and candidate"),
        ({"kernel": "broken", "task": "a.py", "candidate": "b.py"}, "name a kernel, or give"),
        ({"task": "a.py", "candidate": "b.py", "variant": "x"}, "variant is for a kernel"),
        ({"task": "a.py", "candidate": "class ModelNew:\n  pass\n"}, "give a path"),
    ],
)
def test_half_a_task_is_refused(project, arguments, text):
    assert text in call_tool("bench_kernel", **arguments).content[0].text


@pytest.mark.parametrize("tool", [*TOOLSETS["measure"][:4], *OTHERS])
def test_an_unknown_kernel_creates_nothing(project, tool):
    result = call_tool(tool, **OTHERS.get(tool, {"kernel": "no_such"}))

    assert result.is_error or tool == "recommend_fix"
    assert list(project.rglob("*")) == [project / "sessions"]


def test_a_kernel_may_be_called_by_its_folder(project):
    make_broken_kernel(project, "does-not-compile")
    built = call_tool("build_kernel", kernel="kernels/broken", target="cpu").structured_content

    assert built["build"]["kernel"] == "broken"


@pytest.mark.slow
def test_the_whole_reach_works_over_stdio(project):
    """From a source to a closed session with a real server, each call as a result names it."""
    write_source(project)
    server = StdioServerParameters(
        command=sys.executable, args=SERVER, cwd=project, env=dict(os.environ)
    )

    async def run():
        async with Client(server) as client:
            results = [
                await client.call_tool(name, arguments)
                for name, arguments in (
                    ("session", {"goal": "twice as fast"}),
                    ("calculate_limits", LAUNCH),
                    ("recommend_fix", {"log": LINK_LOG}),
                    ("build_kernel", {"kernel": "twice", "file": "src/twice.cpp"}),
                    ("read_entry", {"id": "twice"}),
                    ("session", {"action": "close", "went_right": ["it was reached"]}),
                )
            ]
            return [(one.is_error, one.structured_content) for one in results]

    answers = anyio.run(run)

    assert [one[0] for one in answers] == [False] * 6
    assert answers[-1][1]["session"] == answers[0][1]["session"]
    assert "closes: true" in Path(answers[-1][1]["file"]).read_text()
