"""What a model is shown of a real server, by the rules of the clients that show it.

Two agents were watched: of a good result one object is shown as compact JSON and no text; of an
error the text, or the object instead of it; first come only names and instructions; schemas lose
their limits, defaults and titles; 12 kB and more are cut in the middle. What matters survives all.
"""

import inspect
import json
import os
import re
import sys

import anyio
import pytest
from broken_kernels import make_broken_kernel
from mcp import Client, StdioServerParameters
from tunable_kernels import make_tunable_kernel

from kernelkb_mcp import server as server_module

MAX_CLIENT_INSTRUCTIONS = 4100
MAX_OWN_INSTRUCTIONS = 2048
MAX_CLIENT_RESULT = 12_000
MAX_OWN_RESULT = 8_000
MAX_TOOLS = 10
MAX_LIST_TOKENS = 2000
MAX_OUTPUT_SCHEMAS = 5000
MAX_TOOL_TOKENS = 460
HIDDEN_KEYS = ("pattern", "minimum", "maximum", "exclusiveMinimum", "default", "title", "maxLength")
SMALL_SOFTMAX = {"kernel": "broken", "target": "cpu"}

GOOD_CALLS = {
    "search_knowledge": {"query": "coalesced"},
    "read_entry": {"id": "uncoalesced-global-access"},
    "recommend_fix": {"speedup": 0.3, "occupancy": 0.4},
    "calculate_limits": {"gpu": "h100-sxm", "threads": 256, "registers": 96, "bytes": "1GiB"},
    "build_kernel": SMALL_SOFTMAX,
    "bench_kernel": {**SMALL_SOFTMAX, "workload": "tiny"},
    "profile_kernel": {**SMALL_SOFTMAX, "workload": "tiny"},
    "tune_kernel": {"kernel": "twice", "target": "cpu", "trials": 2},
    "job": {},
    "session": {"kernel": "broken", "goal": "see where it stands"},
}
GOOD_WORDS = {
    "search_knowledge": [r'"id":"uncoalesced-global-access"', r'"next":\["read_entry\(id='],
    "read_entry": [r'"id":"uncoalesced-global-access"', r'"next":\["read_entry\(id='],
    "recommend_fix": [r'"verdict":"stop"', r"speedup 0\.3 < 0\.5", r'"next":\["'],
    "calculate_limits": [r'"blocks_per_sm":2', r'"limited_by":\["registers', r'"floor_us":[\d.]+'],
    "build_kernel": [r'"error":null', r'"seconds":[\d.]+', r'"next":\["bench_kernel\(kernel='],
    "bench_kernel": [
        r'"verdict":"(faster|slower|inconclusive|invalid)"',
        r'"candidate_us":[\d.]+',
        r'"next":\["\w+',
    ],
    "profile_kernel": [r'"kernel_us":[\d.]+', r'"next":\["recommend_fix\('],
    "tune_kernel": [
        r'"feasible_count":3',
        r'"gain":[\d.]+,"low":[\d.]+',
        r'"verdict":"\w+"',
        r'"next":\["\w+',
    ],
    "job": [r"0 running", r'"next":\["(bench_kernel|job)\('],
    "session": [r'"session":"[a-z0-9_-]+"', r'"brief":"session ', r'"next":\["'],
}
BAD_CALLS = {
    "search_knowledge": ({"query": "x", "limit": 99}, ["limit", "20"]),
    "read_entry": ({"id": "uncoalesced-global-acess"}, ["'uncoalesced-global-access'"]),
    "recommend_fix": ({"metrics": {"occupency": 1}}, ["'occupency'", "'occupancy'"]),
    "calculate_limits": ({"gpu": "h100-smx", "bytes": 1}, ["'h100-smx'", "'h100-sxm'"]),
    "build_kernel": ({"kernel": "row_sofmax"}, ["'row_sofmax'", "'row_softmax'"]),
    "bench_kernel": ({**SMALL_SOFTMAX, "workload": "huge"}, ["'huge'", "tiny"]),
    "profile_kernel": ({**SMALL_SOFTMAX, "variant": "nope"}, ["'nope'", "naive"]),
    "tune_kernel": ({"kernel": "twice", "variant": "fixed"}, ["fixed", "'tune:' in kernel.yaml"]),
    "job": ({"id": "bench-0"}, ["bench-0", "run the tool again"]),
    "session": ({"goal": "x", "went_wrong": ["y"]}, ["went_wrong", "session(action='log')"]),
}


def cut_middle(text, max_chars=MAX_CLIENT_RESULT):
    """Cut text in its middle, as a client does with a long result."""
    return (
        text if len(text) <= max_chars else f"{text[: max_chars // 2]}...{text[-max_chars // 2 :]}"
    )


def client_text(result):
    """Return what a model sees of a result."""
    if result.is_error:
        return "\n".join(part.text for part in result.content)
    return cut_middle(
        json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)
    )


def strip_hidden_keys(schema):
    """Return a schema as a client shows it that drops limits, defaults and titles."""
    if isinstance(schema, list):
        return [strip_hidden_keys(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: strip_hidden_keys(part) for key, part in schema.items() if key not in HIDDEN_KEYS}


async def call_and_wait(client, name, arguments):
    """Call a tool, and wait for the end where a slow machine made it a job."""
    result = await client.call_tool(name, arguments)
    while job := (result.structured_content or {}).get("job"):
        if job["status"] != "running":
            break
        result = await client.call_tool("job", {"id": job["id"], "action": "wait"})
    return result


@pytest.fixture(scope="module")
def client_view(tmp_path_factory, stand_in_judge):
    """One real server: its instructions, its tools, and a good and a bad call of each."""
    project = tmp_path_factory.mktemp("shown")
    (project / "sessions").mkdir()
    make_broken_kernel(project, "right")
    make_tunable_kernel(project)
    serve = ["-c", "from kernelkb_mcp.start import main; main()"]
    server = StdioServerParameters(
        command=sys.executable, args=serve, cwd=project, env=dict(os.environ)
    )

    async def run():
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            names = [tool.name for tool in tools]
            good = {name: await call_and_wait(client, name, GOOD_CALLS[name]) for name in names}
            bad = {name: await client.call_tool(name, BAD_CALLS[name][0]) for name in names}
            return client.instructions, tools, good, bad

    return anyio.run(run)


def iter_arguments(tools):
    """Yield each argument of each tool: where it is, and its schema."""
    for tool in tools:
        for name, schema in tool.input_schema["properties"].items():
            yield f"{tool.name}.{name}", schema


def iter_limits(schema):
    """Yield every limit of an argument that a model has to know."""
    for part in (schema, *schema.get("anyOf", ())):
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if key in part:
                yield f"{part[key]:g}"


def iter_defaults(tools):
    """Yield each argument with a default: where it is, its schema, and the default as text."""
    functions = {module.TITLE: module for module in server_module._TOOL_MODULES}
    for tool in tools:
        function = getattr(functions[tool.title], tool.name)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.default not in (parameter.empty, None, ""):
                value = parameter.default
                text = f"{value:g}" if isinstance(value, int | float) else str(value)
                yield f"{tool.name}.{name}", tool.input_schema["properties"][name], text


def test_tool_names_are_short_verb_noun_pairs(client_view):
    names = [tool.name for tool in client_view[1]]

    assert [name for name in names if not re.fullmatch(r"[a-z]+_[a-z]+|job|session", name)] == []
    assert max(len(f"mcp__kernelkb__{name}") for name in names) < 60


def test_the_instructions_survive_being_cut_and_begin_with_the_workflow(client_view):
    instructions = client_view[0]
    workflow = ["bench_kernel", "profile_kernel", "recommend_fix", "close"]
    at = [instructions[:MAX_CLIENT_INSTRUCTIONS].find(name) for name in workflow]

    assert len(instructions.encode()) <= MAX_OWN_INSTRUCTIONS
    assert -1 not in at
    assert at == sorted(at)
    assert at[0] < 400


def test_the_list_of_tools_is_short(client_view):
    sizes = {
        tool.name: len(
            json.dumps(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                },
                separators=(",", ":"),
            )
        )
        / 4
        for tool in client_view[1]
    }

    assert len(sizes) <= MAX_TOOLS
    assert sum(sizes.values()) <= MAX_LIST_TOKENS, sizes
    assert max(sizes.values()) <= MAX_TOOL_TOKENS, sizes


def test_the_schemas_of_results_are_outlines(client_view):
    """No client shows them to a model; all of the list crosses the wire at each start."""
    sizes = {tool.name: len(json.dumps(tool.output_schema)) for tool in client_view[1]}

    assert sum(sizes.values()) <= MAX_OUTPUT_SCHEMAS, sizes


@pytest.mark.parametrize("name", GOOD_CALLS)
def test_every_field_of_a_result_is_in_its_outline(client_view, name):
    schema = next(tool.output_schema for tool in client_view[1] if tool.name == name)
    shown = client_view[2][name].structured_content
    whole = shown["result"] if name != "job" and "result" in shown else shown  # of a slow machine

    assert list(schema["properties"]) == list(whole)
    assert set(schema["required"]) <= set(schema["properties"])


def test_every_limit_and_default_stands_in_the_text_too(client_view):
    silent = [
        f"{where}: {limit}"
        for where, schema in iter_arguments(client_view[1])
        for limit in iter_limits(schema)
        if limit not in strip_hidden_keys(schema).get("description", "")
    ]
    defaults = list(iter_defaults(client_view[1]))

    assert silent == []
    assert len(defaults) > 10
    assert [row for row in defaults if row[2] not in row[1]["description"]] == []


def test_every_argument_has_one_type(client_view):
    """Of two, some clients show the first, and some refuse the tool."""
    assert [
        at for at, schema in iter_arguments(client_view[1]) if not isinstance(schema["type"], str)
    ] == []


def test_every_argument_is_described_without_its_schema(client_view):
    assert [
        at
        for at, schema in iter_arguments(client_view[1])
        if not strip_hidden_keys(schema).get("description")
    ] == []


@pytest.mark.parametrize(("ending", "unit"), [("_us", r"microseconds"), ("_s", r"\d s\b")])
def test_the_unit_of_a_name_stands_in_its_text(client_view, ending, unit):
    dimensional = [
        (at, s) for at, s in iter_arguments(client_view[1]) if re.search(rf"[a-z]{ending}$", at)
    ]

    assert dimensional
    assert [at for at, schema in dimensional if not re.search(unit, schema["description"])] == []


@pytest.mark.parametrize("name", GOOD_CALLS)
def test_the_visible_result_of_a_good_call_is_self_contained(client_view, name):
    _, tools, good, _ = client_view
    if name not in [tool.name for tool in tools]:
        pytest.skip(f"{name} is not served yet")
    text = client_text(good[name])

    assert not good[name].is_error, text
    assert len(text.encode()) <= MAX_OWN_RESULT
    assert [wanted for wanted in GOOD_WORDS[name] if not re.search(wanted, text)] == [], text


@pytest.mark.parametrize("name", GOOD_CALLS)
def test_text_and_structure_of_a_good_call_say_the_same(client_view, name):
    result = client_view[2].get(name)
    if result is None:
        pytest.skip(f"{name} is not served yet")

    assert json.loads(result.content[0].text) == result.structured_content


@pytest.mark.parametrize("name", BAD_CALLS)
def test_the_visible_error_of_a_bad_call_names_the_value_and_the_cure(client_view, name):
    result = client_view[3].get(name)
    if result is None:
        pytest.skip(f"{name} is not served yet")
    text = client_text(result)

    assert result.is_error
    assert result.structured_content is None  # one client shows nothing else where there is one
    assert "\n" not in text
    assert [wanted for wanted in BAD_CALLS[name][1] if wanted not in text] == [], text


def test_every_tool_has_a_good_and_a_bad_call(client_view):
    assert {
        tool.name for tool in client_view[1]
    } <= GOOD_CALLS.keys() & BAD_CALLS.keys() & GOOD_WORDS.keys()
