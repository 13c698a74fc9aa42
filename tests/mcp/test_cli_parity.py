"""Every tool has a twin in the shell, and both say the same.

What may differ: times and what follows from them, ids of records, and what a result says of itself
to a client (``summary``, ``next``, ``cursor``, ``more``). An answer of ``recommend_fix`` may be cut
to what a client shows: then each of its lists is the beginning of the shell's, names stand for the
diagnoses that are left out, and long texts end with an ellipsis. What is absent from the shell's
may be null in the tool's.
"""

import json
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel
from measurements import make_bench
from tool_calls import call_tool, run_client
from tunable_kernels import make_tunable_kernel

from kernelkb.cli import main
from kernelkb.cli.knowledge import SEARCH_KINDS
from kernelkb.record.measurements.store import open_store
from kernelkb_mcp.server_config import TOOLSETS

TWINS = {
    "search_knowledge": "search",
    "read_entry": "show",
    "recommend_fix": "recommend",
    "calculate_limits": "occupancy",
    "build_kernel": "build",
    "bench_kernel": "bench",
    "profile_kernel": "profile",
    "tune_kernel": "tune",
    "job": None,  # in a shell the process itself is the job: wait, ^Z and ^C are the shell's
    "session": "session show --brief",
}
DATA = Path(__file__).parents[1] / "data" / "ncu"
TIMED = {"seconds", "candidate_us", "baseline_us", "eager_us", "warm_us", "floor_us"}
BENCH_ARGUMENTS = {"kernel": "broken", "target": "cpu", "workload": "tiny"}
BENCH_WORDS = ["broken", "--target", "cpu", "--workload", "tiny"]


@pytest.fixture
def run_kb_json(capsys):
    """Run ``kb … --json`` and return what it printed."""

    def run(*words):
        main([*words, "--json"])
        return json.loads(capsys.readouterr().out)

    return run


def test_every_tool_has_a_cli_command():
    offered = [tool for tools in TOOLSETS.values() for tool in tools]

    assert list(TWINS) == offered


@pytest.mark.parametrize("words", [twin.split() for twin in TWINS.values() if twin])
def test_every_matching_cli_command_has_json_output(words, capsys):
    with pytest.raises(SystemExit):
        main([*words, "--help"])

    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("query", "kind"), [("coalesing", None), ("undefined symbol", None), ("bandwidth", "metric")]
)
def test_search_matches_the_cli(run_kb_json, query, kind):
    hits = run_kb_json("search", *query.split(), *(["--kind", kind] if kind else []))
    asked = {"query": query, **({"kind": kind} if kind else {})}

    assert call_tool("search_knowledge", **asked).structured_content["hits"] == hits


@pytest.mark.parametrize("kind", SEARCH_KINDS)
def test_search_knows_the_same_kinds(kind):
    assert not call_tool("search_knowledge", query="memory", kind=kind).is_error


def read_whole_entries(names):
    """Return entries or lists from all their portions."""

    async def work(client):
        return [await read_all_portions(client, name) for name in names]

    return run_client(None, work)


async def read_all_portions(client, name):
    found, cursor = None, None
    while True:
        given = {"id": name, **({"cursor": cursor} if cursor else {})}
        part = (await client.call_tool("read_entry", given)).structured_content
        if part["entries"] is not None:
            found = (found or []) + part["entries"]
        else:
            found = found or {}
            for field, value in part["entry"].items():
                found[field] = found[field] + value if field in found else value
        cursor = part["cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize(
    "name",
    [
        "small-grid",
        "memory-hierarchy",
        "row_softmax",
        "attention",
        "fixes",
        "kernels",
        "learned",
        "9.0",
    ],
)
def test_read_entry_matches_kb_show(run_kb_json, name):
    assert read_whole_entries([name]) == [run_kb_json("show", name)]


@pytest.mark.parametrize(
    "step", [pytest.param(8, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["bottlenecks", "trees", "patterns", "workflow", "symptoms"])
def test_show_of_entries(run_kb_json, kind, step):
    names = [row["id"] for row in run_kb_json("show", kind)][::step]

    assert names
    assert read_whole_entries(names) == [run_kb_json("show", name) for name in names]


RECOMMEND = [
    ({"speedup": 0.3, "occupancy": 0.4}, ["--speedup", "0.3", "--occupancy", "0.4"]),
    ({"bandwidth": "88%", "gpu": "h100-sxm"}, ["--bandwidth", "0.88", "--gpu", "h100-sxm"]),
    (
        {"target": "cpu", "metrics": {"scalar_loop_count": 2, "core_count": 4}},
        ["--target", "cpu", "--metric", "scalar_loop_count=2", "--metric", "core_count=4"],
    ),
    *(
        ({"profile": str(path)}, ["--profile", str(path)])
        for path in (
            DATA / "row_softmax_warp.csv",
            DATA / "faults" / "wmma_gemm.csv",
            DATA / "library" / "torch_operations.csv",
            DATA / "reports" / "four_launches_details.csv",
        )
    ),
]


@pytest.mark.parametrize(("arguments", "words"), RECOMMEND)
def test_recommend_fix_matches_the_cli(run_kb_json, arguments, words):
    assert_same_answer(call_tool("recommend_fix", **arguments), run_kb_json("recommend", *words))


def test_recommend_for_a_record(project, run_kb_json):
    with open_store(project) as store:
        record = make_bench(metrics={"speedup": 0.9, "core_count": 4.0})
        store.add([record])
    run = record.id

    assert_same_answer(
        call_tool("recommend_fix", run=run[:8]), run_kb_json("recommend", "--run", run)
    )


def test_two_sources_of_metrics_are_refused_by_both(project, capsys):
    status = main(["recommend", "--run", "a", "--profile", "b"])

    assert status == 2
    assert "two sources of metrics" in capsys.readouterr().err
    assert (
        "two sources of metrics" in call_tool("recommend_fix", run="a", profile="b").content[0].text
    )


def assert_same_answer(result, answer):
    """Hold an answer of the tool against the whole one; see above for what may differ."""
    told = result.structured_content
    assert told["knowledge"] == answer["knowledge"]
    assert told["kernels"]
    for shown, kernel in zip(told["kernels"], answer["kernels"], strict=False):
        names = [one["bottleneck"] for one in shown["diagnoses"]]
        said = [d["bottleneck"] for d in kernel["diagnoses"]]
        cut = sorted([*names, *shown.pop("also_matches"), *shown.pop("also_possible")])
        assert cut == sorted(said)
        shown["diagnoses"] = sorted(shown["diagnoses"], key=lambda d: said.index(d["bottleneck"]))
        kept = [d for d in kernel["diagnoses"] if d["bottleneck"] in names]
        assert is_truncation_of(shown, {**kernel, "diagnoses": kept})
    if len(told["kernels"]) < len(answer["kernels"]):
        assert any("kernel='regex'" in line for line in told["more"])


def is_truncation_of(part, all_of_it):
    """Say whether plain data is the same but for lists that end early and texts that are cut."""
    if isinstance(part, dict):
        absent = all_of_it.keys() - part.keys()
        return not absent and all(
            is_truncation_of(part[name], all_of_it.get(name)) for name in part
        )
    if isinstance(part, list):
        pairs = zip(part, all_of_it, strict=False)
        return len(part) <= len(all_of_it) and all(
            is_truncation_of(one, other) for one, other in pairs
        )
    if isinstance(part, str) and part.endswith("…"):
        return all_of_it.startswith(part[:-1])
    return part == all_of_it


def test_the_environment_matches_the_cli(run_kb_json):
    found = read_whole_entries(["environment/cpu"])[0]
    told = run_kb_json("env", "--target", "cpu")

    assert [line["name"] for line in found["lines"]] == [line["name"] for line in told["lines"]]
    assert found["machine"] == told["machine"]


def drop_times(record):
    return {name: value for name, value in record.items() if name not in TIMED}


def test_build_kernel_matches_the_cli(project, run_kb_json):
    make_broken_kernel(project, "right")
    run_kb_json("build", *BENCH_WORDS[:3])
    told = run_kb_json("build", *BENCH_WORDS[:3])
    made = call_tool("build_kernel", kernel="broken", target="cpu").structured_content["build"]

    assert told["status"] == "cached"
    assert drop_times(made) == drop_times(told)


@pytest.mark.slow
def test_bench_kernel_matches_the_cli(project, run_kb_json):
    make_broken_kernel(project, "zeros")
    told = run_kb_json("bench", *BENCH_WORDS)
    made = call_tool("bench_kernel", **BENCH_ARGUMENTS).structured_content["bench"]

    assert made["verdict"] == told["verdict"] == "incorrect"
    assert drop_times(made) == drop_times(told)


def test_a_bench_that_was_timed_has_the_same_shape(project, stand_in_judge, run_kb_json):
    make_broken_kernel(project, "right")
    told = run_kb_json("bench", *BENCH_WORDS)
    made = call_tool("bench_kernel", **BENCH_ARGUMENTS).structured_content["bench"]

    assert list(made) == list(told)
    assert made["metrics"].keys() == told["metrics"].keys()
    names = ("kernel", "variant", "target", "workload", "timing")
    assert [made[name] for name in names] == [told[name] for name in names]


def test_profile_kernel_matches_the_cli(project, stand_in_judge, run_kb_json):
    make_broken_kernel(project, "right")
    told = run_kb_json("profile", *BENCH_WORDS)
    made = call_tool("profile_kernel", **BENCH_ARGUMENTS).structured_content["profile"]

    assert list(made) == list(told)
    assert made["metrics"].keys() == told["metrics"].keys()
    names = ("kernel", "variant", "target", "workload", "tool", "evidence")
    assert [made[name] for name in names] == [told[name] for name in names]


@pytest.mark.slow
def test_tune_kernel_matches_the_cli(project, run_kb_json):
    make_tunable_kernel(project)
    told = run_kb_json("tune", "twice", "--target", "cpu")
    made = call_tool("tune_kernel", kernel="twice", target="cpu").structured_content["tuning"]

    assert set(made) - set(told) == {"trial_counts"}
    assert sum(made["trial_counts"].values()) == made["resumed_count"] == len(told["trials"])
    names = ("kernel", "variant", "workload", "combination_count", "feasible_count", "journal")
    assert [made[name] for name in names] == [told[name] for name in names]


def test_a_logged_session_matches_the_cli(project, run_kb_json):
    told = run_kb_json("session", "log", "--goal", "faster", "--went-wrong", "guessed")
    made = call_tool(
        "session", action="log", goal="faster", went_wrong=["guessed"]
    ).structured_content
    text = Path(made["file"]).read_text()

    assert made["session"] == told["session"]
    assert text.count("- guessed") == 2
