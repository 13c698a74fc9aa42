"""The tools that only know: short answers, readable errors, and nothing written."""

import json
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel
from measurements import make_bench, make_build
from tool_calls import call_tool, leave_workspace, run_client

from kernelkb.actions.advice.recommend import recommend_from_metrics
from kernelkb.actions.knowledge.knowledge import ENTRY_KINDS
from kernelkb.actions.sessions.sessions import start_session
from kernelkb.model.records.measurement import DISTURBANCE_TEXT
from kernelkb.record.measurements.store import open_store
from kernelkb.safety.paths import shipped_folder
from kernelkb_mcp.server_config import TOOLSETS, ServerConfig, enter_workspace
from kernelkb_mcp.views.paginate import MAX_ANSWER_BYTES, json_size, paginate
from kernelkb_mcp.views.recommendation import build_recommend_fields

DATA = Path(__file__).parents[1] / "data" / "ncu"
REPORTS = [path for path in DATA.rglob("*") if path.suffix in (".csv", ".ncu-rep")]
READ_ONLY = ServerConfig(read_only=True)


def count_bytes(result):
    return len(result.content[0].text.encode())


def iter_pages(name):
    cursor = None
    while True:
        result = call_tool("read_entry", id=name, **({"cursor": cursor} if cursor else {}))
        yield result
        cursor = result.structured_content["cursor"]
        if cursor is None:
            return


@pytest.mark.parametrize("kind", ENTRY_KINDS)
def test_a_list_comes_in_portions_that_every_client_shows(kind):
    parts = list(iter_pages(kind))

    assert max(map(count_bytes, parts)) <= 8000
    assert all(f"cursor={p.structured_content['cursor']!r}" in p.structured_content["next"][0]
               for p in parts[:-1])  # fmt: skip


def test_an_entry_longer_than_an_answer_comes_in_portions():
    parts = list(iter_pages("memory-hierarchy"))

    assert len(parts) == 2
    assert max(map(count_bytes, parts)) <= 8000


def test_the_code_of_a_fix_comes_whole():
    parts = list(iter_pages("use-wgmma"))

    code = "".join(part.structured_content["entry"].get("code", "") for part in parts)
    assert code == (Path(shipped_folder("knowledge")) / "fixes/code/use-wgmma.cu").read_text()
    assert max(map(count_bytes, parts)) <= 8000


def test_a_value_longer_than_an_answer_comes_in_pieces():
    whole = {"id": "x", "text": "ä" * 9000, "rows": [{"note": "n" * 5000}, "last"]}
    found, begin = {}, "0"
    while begin is not None:
        part = paginate(whole, int(begin), 4000)
        assert json_size(part.value) <= 4000
        for name, value in part.value.items():
            found[name] = found[name] + value if name in found else value
        begin = part.cursor

    assert found["text"] == whole["text"]
    assert json.loads("".join(found["rows"][:-1])) == {"note": "n" * 5000}
    assert found["rows"][-1] == "last"


def test_a_search_of_many_is_short():
    result = call_tool("search_knowledge", query="memory bandwidth of the cache", limit=20)

    assert len(result.structured_content["hits"]) == 20
    assert count_bytes(result) <= 8000


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read_entry", {"id": "smal-grid"}, "did you mean 'small-grid'?"),
        ("read_entry", {"id": "coalesing"}, "did you mean 'uncoalesced-global-access'?"),
        ("read_entry", {"id": "coalesing"}, "search_knowledge(query='coalesing')"),
        ("read_entry", {"id": "../../etc/passwd"}, "unknown entry"),
        ("read_entry", {"id": "fixes", "cursor": "99999"}, "read_entry(id='fixes')"),
        ("read_entry", {"id": "fixes", "cursor": "x"}, "cursor"),
        ("search_knowledge", {"query": "x", "limit": 21}, "less than or equal to 20"),
        ("search_knowledge", {"query": "x", "kind": "fixes"}, "'bottleneck'"),
        ("recommend_fix", {"run": "abcdef"}, "read_entry(id='kernels')"),
        ("recommend_fix", {"metrics": {"zzz": 1}}, "read_entry(id='metrics') lists them"),
        ("recommend_fix", {"gpu": "H1000"}, "read_entry(id='devices') lists them"),
        ("build_kernel", {"kernel": "row_softmax", "variant": "x"}, "read_entry(id='row_softmax')"),
        ("build_kernel", {"kernel": "zzz"}, "read_entry(id='kernels')"),
        ("recommend_fix", {"run": "a", "profile": "b"}, "two sources"),
        ("recommend_fix", {"profile": "x.csv", "target": "cpu"}, "leave target out"),
    ],
)
def test_misuse_names_the_next_call(project, name, arguments, said):
    result = call_tool(name, **arguments)

    assert result.is_error
    assert said in result.content[0].text
    assert "\n" not in result.content[0].text


def test_a_next_call_can_be_made_as_it_stands():
    hits = call_tool("search_knowledge", query="coalescing").structured_content
    first = hits["next"][0]
    name = first.removeprefix("read_entry(id='").removesuffix("')")
    entry = call_tool("read_entry", id=name).structured_content["entry"]

    assert entry["id"] == hits["hits"][0]["id"]


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.stem)
def test_an_answer_about_a_report_is_short_and_complete(report):
    result = call_tool("recommend_fix", profile=str(report))
    told = result.structured_content

    assert count_bytes(result) <= 8000
    assert told["summary"]
    assert told["next"]
    assert told["kernels"][0]["gate"]["verdict"]


PAGE = """\
  copy(float *) (512, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    Metric Name             Metric Unit Metric Value
    DRAM Throughput                   %        91.25
    Duration                         us       812.50
"""


@pytest.mark.parametrize("argument", ["profile", "log"])
def test_a_printed_page_is_answered_as_text_whatever_it_is_given_as(argument):
    told = call_tool("recommend_fix", **{argument: PAGE}).structured_content

    assert told["kernels"][0]["kernel"] == "copy(float *)"
    assert told["kernels"][0]["diagnoses"][0]["bottleneck"] == "dram-bandwidth-bound"


def test_a_report_of_many_kernels_says_how_to_ask_for_one():
    told = call_tool("recommend_fix", profile=str(DATA / "library" / "torch_operations.csv"))
    shown = told.structured_content

    assert len(shown["kernels"]) == 1 < len(shown["table"])
    assert shown["table"][0].startswith("kernel ")
    assert "kernel='regex'" in shown["more"][0]


def test_a_name_of_many_kilobytes_leaves_an_answer_short():
    answer = recommend_from_metrics({"speedup": 0.3}, kernel="k" * 50_000)

    assert json_size(build_recommend_fields(answer, "", ())) <= MAX_ANSWER_BYTES


@pytest.mark.slow
def test_a_recorded_bench_is_enough_to_decide(project):
    make_broken_kernel(project, "right")
    where = {"kernel": "broken", "target": "cpu", "workload": "tiny"}
    timed = call_tool("bench_kernel", **where).structured_content
    run = timed["bench"]["measurement"]
    told = call_tool("recommend_fix", run=run).structured_content["kernels"][0]

    assert timed["next"][0].startswith("profile_kernel(kernel='broken', variant='naive', ")
    assert told["kernel"] == "broken"
    assert told["notes"][0].startswith(f"metrics of bench {run[:12]}: broken naive, tiny")


def test_an_unknown_run_is_reported(project):
    with open_store(project) as store:
        store.add([make_bench()])
    result = call_tool("recommend_fix", run="0000000")

    assert result.content[0].text == (
        "unknown measurement '0000000'; bench_kernel(kernel=...) records one"
    )


@pytest.mark.slow
def test_a_bench_without_a_record_is_profiled_next(project, monkeypatch):
    make_broken_kernel(project, "right")
    (project / "file").touch()
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{project}/file/measurements.db")
    timed = call_tool("bench_kernel", kernel="broken", target="cpu", workload="tiny")
    told = timed.structured_content

    assert told["bench"]["unrecorded"]
    follow = "profile_kernel(kernel='broken', variant='naive', target='cpu', workload='tiny')"
    assert told["next"] == [follow]


@pytest.mark.parametrize("verdict", ["incorrect", "invalid"])
def test_nothing_is_decided_on_a_bench_that_did_not_count(project, verdict):
    with open_store(project) as store:
        made = make_bench(verdict=verdict, detail="wrong")
        store.add([made])
    result = call_tool("recommend_fix", run=made.id)

    assert f"is {verdict}: wrong" in result.content[0].text


def test_nothing_is_decided_on_a_build(project):
    with open_store(project) as store:
        made = make_build()
        store.add([made])

    assert "is of a build" in call_tool("recommend_fix", run=made.id).content[0].text


def test_the_speedup_of_a_disturbed_bench_decides_nothing(project):
    disturbed = {"verdict": "inconclusive", "disturbed_by": "gpu-contention"}
    metrics = {"speedup": 0.3, "core_count": 4.0}
    with open_store(project) as store:
        made = make_bench(**disturbed, metrics=metrics)
        store.add([made])
    (kernel,) = call_tool("recommend_fix", run=made.id).structured_content["kernels"]

    assert kernel["gate"]["id"] == "measure-again"
    assert DISTURBANCE_TEXT["gpu-contention"] in kernel["notes"][1]


def test_read_only_offers_the_knowledge_alone():
    async def names(client):
        return [tool.name for tool in (await client.list_tools()).tools]

    assert run_client(READ_ONLY, names) == list(TOOLSETS["knowledge"])


def test_hints_say_whether_the_open_session_is_written_to():
    async def looks(client):
        tools = (await client.list_tools()).tools
        return {tool.name for tool in tools if tool.annotations.read_only_hint}

    reading = set(TOOLSETS["knowledge"]) - {"recommend_fix"}
    assert run_client(ServerConfig(), looks) == reading
    assert run_client(READ_ONLY, looks) == set(TOOLSETS["knowledge"])


def read_tree(folder):
    """Return each file below a folder with its bytes, and each folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def call_every_read_tool(run):
    async def work(client):
        results = [
            await client.call_tool("search_knowledge", {"query": "grid"}),
            await client.call_tool("read_entry", {"id": "small-grid"}),
            await client.call_tool("read_entry", {"id": "kernels"}),
            await client.call_tool("recommend_fix", {"speedup": 0.3, "occupancy": 0.4}),
            await client.call_tool("calculate_limits", {"gpu": "l4", "bytes": "1GiB"}),
            await client.call_tool("recommend_fix", {"log": "nvcc: command not found"}),
            await client.call_tool("recommend_fix", {"run": run}),
        ]
        return [result.is_error for result in results]

    return work


def test_read_only_leaves_every_byte_of_a_project(project):
    make_broken_kernel(project, "right")
    start_session("mine", "see what is written")
    with open_store(project) as store:
        made = make_bench(metrics={"speedup": 0.9, "core_count": 4.0})
        store.add([made])
    run = made.id
    before = read_tree(project)
    enter_workspace(READ_ONLY)  # as the server does before it serves
    try:
        wrong = run_client(READ_ONLY, call_every_read_tool(run))
    finally:
        leave_workspace()

    assert not any(wrong)
    assert read_tree(project) == before


def test_read_only_makes_nothing_in_a_project_without_records(project):
    before = read_tree(project)
    wrong = run_client(READ_ONLY, call_every_read_tool("abcdef"))

    assert wrong == [*[False] * 6, True]
    assert read_tree(project) == before
