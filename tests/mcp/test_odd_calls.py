"""What every tool says to odd arguments, files and kernels: one line with a cure, or an answer."""

import json

import pytest
from anyio.from_thread import start_blocking_portal
from literal_next import check_steps
from mcp import Client
from odd_calls import make_odd_project
from simple_kernels import write_kernel
from tool_calls import leave_workspace

from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig, enter_workspace

REPORT = '"ID","Kernel Name"\n"0","k"\n'
BAD = "bad arguments for "
FILL_IN = "replace FILL_IN, which kb init left for you"
OUTSIDE = "outside of the workspace"
REFUSED = [
    ("search_knowledge", {}, f"{BAD}search_knowledge: query: "),
    ("search_knowledge", {"query": "x", "limit": 10**400}, "limit: "),
    ("search_knowledge", {"query": "x", "kind": "核"}, "no kind '核'; it is one of 'bottleneck'"),
    ("read_entry", {"id": ""}, "id is empty; read_entry(id='bottlenecks') lists"),
    ("read_entry", {"id": "größe"}, "search_knowledge("),
    ("read_entry", {"id": "bottlenecks", "cursor": "99999"}, "is beyond the end; read_entry("),
    ("read_entry", {"id": "environment/gpu"}, "no target 'gpu'; environment"),
    ("read_entry", {"id": "attempts/no_such"}, "read_entry(id='kernels') lists them"),
    ("read_entry", {"id": "/etc/a.csv..short.csv"}, "no file /etc/a.csv"),
    ("recommend_fix", {"speedup": []}, "speedup: input should be a valid number or"),
    ("recommend_fix", {"occupancy": 40}, "write 0.40 or 40%"),
    ("recommend_fix", {"metrics": {"occupency": 0.4}}, "did you mean 'occupancy'?"),
    ("recommend_fix", {"gpu": "no such"}, "read_entry(id='devices') lists them"),
    ("recommend_fix", {"profile": REPORT}, "the text holds no complete launch"),
    (
        "recommend_fix",
        {"profile": "x\n" * 300_000},
        "600,000 characters; save it and give its path",
    ),
    ("recommend_fix", {"profile": " "}, "profile is empty; give a path"),
    ("recommend_fix", {"profile": "absent.csv"}, "there is no file 'absent.csv'; give a path"),
    ("recommend_fix", {"profile": "folder"}, "folder"),
    ("recommend_fix", {"profile": "../x.csv"}, OUTSIDE),
    ("recommend_fix", {"profile": "cut.ncu-rep"}, "cut.ncu-rep"),
    ("recommend_fix", {"profile": "binary"}, "binary"),
    ("recommend_fix", {"profile": "short.csv", "run": "abc"}, "two sources of metrics"),
    ("recommend_fix", {"log": "x", "speedup": 1}, "log and speedup are two questions"),
    ("recommend_fix", {"log": "absent.log"}, "log takes a path or the text itself"),
    ("recommend_fix", {"run": "0" * 12}, "nothing was measured here"),
    ("calculate_limits", {"gpu": "l4"}, "give threads and registers"),
    ("calculate_limits", {"gpu": "", "bytes": 1}, "read_entry(id='devices') lists GPUs"),
    ("calculate_limits", {"gpu": "10.3", "bytes": "1GiB"}, "give facts={'dram_gbps': ...}"),
    ("calculate_limits", {"gpu": "l4", "bytes": 1, "facts": {"sms": 3}}, "known: sm_count"),
    ("calculate_limits", {"gpu": "l4", "threads": 5000, "registers": 1}, "threads"),
    ("calculate_limits", {"gpu": "l4", "bytes": "-1"}, "bytes"),
    ("build_kernel", {"kernel": "no_such"}, "read_entry(id='kernels') lists them"),
    ("build_kernel", {"kernel": "Big.CU"}, "read_entry(id='kernels') lists them"),
    ("build_kernel", {"kernel": "ünï.cu"}, "file='ünï.cu') makes it one"),
    ("build_kernel", {"kernel": "draft"}, FILL_IN),
    ("build_kernel", {"kernel": "empty_yaml"}, "required key"),
    ("build_kernel", {"kernel": "sourceless"}, "no file 'plain.cpp' here"),
    ("build_kernel", {"kernel": "good", "arch": "junk"}, "read_entry(id='architectures')"),
    ("build_kernel", {"kernel": "mine", "file": ""}, "file is empty; give a path"),
    ("build_kernel", {"kernel": "mine", "file": "absent.cu"}, "no file 'absent.cu'; give a path"),
    ("build_kernel", {"kernel": "mine", "file": "#define X\nint x;"}, "give a path: file='PATH'"),
    ("build_kernel", {"kernel": "mine", "file": "/etc/passwd"}, OUTSIDE),
    ("build_kernel", {"kernel": "mine", "file": "binary"}, "binary"),
    ("build_kernel", {"kernel": "good", "add_from": "plain"}, "name of the new one"),
    ("build_kernel", {"kernel": "good", "variant": "A b", "add_from": "plain"}, "no name of a"),
    ("build_kernel", {"kernel": "good", "variant": "b", "add_from": "x"}, "unknown variant"),
    ("build_kernel", {"kernel": "good", "file": "a", "restore": "best"}, "two beginnings"),
    ("build_kernel", {"kernel": "good", "restore": "best"}, "good"),
    ("bench_kernel", {}, "name a kernel, or give task and candidate"),
    ("bench_kernel", {"kernel": "good", "task": "a", "candidate": "b"}, "name a kernel, or"),
    ("bench_kernel", {"task": "broken.py", "candidate": "absent.py"}, "no file 'absent.py'"),
    ("bench_kernel", {"kernel": "good", "workload": "huge"}, "small"),
    ("bench_kernel", {"kernel": "defaultless"}, "name one (large, small)"),
    ("bench_kernel", {"kernel": "cuda_only"}, "CUDA"),
    ("profile_kernel", {"kernel": "triton_only"}, "CUDA"),
    ("profile_kernel", {"kernel": "good", "variant": "x" * 60}, "known: plain"),
    ("profile_kernel", {"kernel": "good", "clocks": True}, "clocks are for variants in CUDA C++"),
    ("profile_kernel", {"command": "ls", "clocks": True}, "workload and clocks are of a kernel"),
    ("tune_kernel", {"kernel": "good"}, "tune:"),
    ("tune_kernel", {"kernel": "gemm", "budget": "-1"}, "no duration; write 90s"),
    ("tune_kernel", {"kernel": "gemm", "trials": 0}, "trials: "),
    ("job", {"id": "nope"}, "run the tool again"),
    ("job", {"action": "wait"}, "wait needs an id; job() lists"),
    ("job", {"wait_s": 10**9}, "wait_s: "),
    ("session", {"goal": " "}, "goal is empty; write in one sentence"),
    ("session", {"kernel": "no_such", "goal": "x"}, "read_entry(id='kernels') lists them"),
    ("session", {"action": "close"}, "no session is open; session() says"),
    ("session", {"action": "close", "id": "../../x"}, "x"),
    ("session", {"action": "log", "goal": "g", "cost_usd": -1}, "cost_usd: "),
]
ANSWERED = [
    ("search_knowledge", {"query": ""}),
    ("search_knowledge", {"query": "compare two reports", "kind": "command"}),
    ("read_entry", {"id": "bottlenecks"}),
    ("read_entry", {"id": "uncoalesced-global-access"}),
    ("read_entry", {"id": "vectorize-128b"}),
    ("read_entry", {"id": "dram_utilization"}),
    ("read_entry", {"id": "l4"}),
    ("read_entry", {"id": "good"}),
    ("read_entry", {"id": "attempts/good"}),
    ("recommend_fix", {}),
    ("recommend_fix", {"speedup": 0.3}),
    ("recommend_fix", {"speedup": 0.8, "bandwidth": "40%", "occupancy": 0.2}),
    ("recommend_fix", {"kernel": "good", "target": "cpu", "speedup": 0.8}),
    ("recommend_fix", {"kernel": "draft", "speedup": 0.8}),
    ("recommend_fix", {"log": "\x1b[31m"}),
    ("recommend_fix", {"log": "x" * 5000}),
    ("calculate_limits", {"gpu": "l4", "threads": "256", "registers": 96, "bytes": "1GiB"}),
    (
        "calculate_limits",
        {"gpu": "10.3", "bytes": "1GiB", "facts": {"sm_count": 148, "dram_gbps": 8000}},
    ),
    ("build_kernel", {"kernel": "good", "variant": "plain-2", "add_from": "plain"}),
    ("job", {}),
    ("session", {}),
    ("session", {"kernel": "good"}),
    ("session", {"goal": "go on"}),
    ("session", {"action": "close"}),
]


@pytest.fixture(scope="module")
def odd_project(tmp_path_factory):
    """A project with kernels and files of every kind, and one kernel that is sound; entered."""
    folder = make_odd_project(tmp_path_factory.mktemp("odd") / "project")
    write_kernel(folder, "good")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        yield folder


@pytest.fixture(scope="module")
def client(odd_project):
    """A client of one server for all calls."""
    enter_workspace(ServerConfig())
    server = build_server(ServerConfig(inline_s=600.0))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server)) as opened,
    ):
        yield lambda name, arguments: portal.call(opened.call_tool, name, arguments)
    leave_workspace()


@pytest.fixture(scope="module")
def schemas():
    """The schema of each tool's arguments."""
    return {tool.name: tool.parameters for tool in build_server()._tool_manager.list_tools()}


def list_files(folder):
    return {path for path in folder.rglob("*") if ".kb" not in path.parts}


def test_a_refusal_is_one_line_with_a_cure_and_creates_nothing(client, odd_project):
    before, faults = list_files(odd_project), []
    for name, arguments, wanted in REFUSED:
        result = client(name, arguments)
        text = result.content[0].text
        is_sound = result.is_error and text.isprintable() and 10 < len(text) < 1500
        if not is_sound or wanted not in text or text.startswith("Error executing"):
            faults.append((name, arguments, text[:300]))

    assert not faults
    assert list_files(odd_project) == before


def test_an_answer_names_calls_that_can_be_made_as_they_are(client, schemas):
    for name, arguments in ANSWERED:
        result = client(name, arguments)
        assert not result.is_error, (name, arguments, result.content[0].text)
        found = result.structured_content
        check_steps(found["next"], schemas)

        assert json.loads(result.content[0].text) == found
        assert found["next"] or found["needs"], (name, arguments)
