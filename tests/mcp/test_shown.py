"""What a model is shown of a real server, by the rules of the clients that show it.

Two agents were watched: of a good result one object is shown as compact JSON and no text; of an
error the text, or the object instead of it; first come only names and instructions; schemas lose
their limits, defaults and titles; 12 kB and more are cut in the middle. What matters survives all.
"""

import json
import os
import re
import sys

import anyio
import pytest
from mcp import Client, StdioServerParameters

INSTRUCTIONS_CUT = 4100
INSTRUCTIONS_MOST = 2048
RESULT_CUT = 12_000
RESULT_MOST = 8_000
LIST_TOKENS = 2000
TOOL_TOKENS = 460
HIDDEN = ("pattern", "minimum", "maximum", "exclusiveMinimum", "default", "title", "maxLength")
SOFTMAX = {"kernel": "row_softmax", "target": "cpu"}

GOOD = {
    "search_knowledge": {"query": "coalesced"},
    "read_entry": {"id": "uncoalesced-global-access"},
    "recommend_fix": {"speedup": 0.3, "occupancy": 0.4},
    "check_environment": {"target": "cpu"},
    "build_kernel": SOFTMAX,
    "bench_kernel": {**SOFTMAX, "workload": "tiny"},
    "profile_kernel": {**SOFTMAX, "workload": "tiny"},
    "job": {},
    "log_session": {"goal": "see what is shown", "kernel": "row_softmax"},
}
SAYS = {
    "search_knowledge": [r'"id":"uncoalesced-global-access"', r'"next":\["read_entry\(id='],
    "read_entry": [r'"id":"uncoalesced-global-access"', r'"next":\["read_entry\(id='],
    "recommend_fix": [r'"verdict":"stop"', r"speedup 0\.3 < 0\.5", r'"next":\["'],
    "check_environment": [r'"status":"ok"', r'"cure":', r'"next":\["'],
    "build_kernel": [r'"error":null', r'"seconds":[\d.]+', r'"next":\["bench_kernel\(kernel='],
    "bench_kernel": [
        r'"verdict":"(faster|slower|inconclusive|invalid)"',
        r'"candidate_us":[\d.]+',
        r'"next":\["\w+',
    ],
    "profile_kernel": [r'"kernel_us":[\d.]+', r'"next":\["recommend_fix\('],
    "job": [r"0 at work", r'"next":\["bench_kernel\('],
    "log_session": [r'"session":"[a-z0-9_-]+"', r'"file":"/', r'"next":\["'],
}
BAD = {
    "search_knowledge": ({"query": "x", "limit": 99}, ["limit", "20"]),
    "read_entry": ({"id": "uncoalesced-global-acess"}, ["'uncoalesced-global-access'"]),
    "recommend_fix": ({"metrics": {"occupency": 1}}, ["'occupency'", "'occupancy'"]),
    "check_environment": ({"target": "tpu"}, ["target", "'auto', 'cpu' or 'cuda'"]),
    "build_kernel": ({"kernel": "row_sofmax"}, ["'row_sofmax'", "'row_softmax'"]),
    "bench_kernel": ({**SOFTMAX, "workload": "huge"}, ["'huge'", "tiny"]),
    "profile_kernel": ({**SOFTMAX, "variant": "nope"}, ["'nope'", "naive"]),
    "job": ({"id": "bench-0"}, ["bench-0", "run the tool again"]),
    "log_session": ({"goal": "x", "cost_usd": -1}, ["cost_usd", "0"]),
}


def cut(text, most=RESULT_CUT):
    """Cut text in its middle, as a client does with a long result."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def shown(result):
    """Return what a model sees of a result."""
    if result.is_error:
        return "\n".join(part.text for part in result.content)
    return cut(json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False))


def stripped(schema):
    """Return a schema as a client shows it that drops limits, defaults and titles."""
    if isinstance(schema, list):
        return [stripped(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: stripped(part) for key, part in schema.items() if key not in HIDDEN}


async def ended(client, name, arguments):
    """Call a tool, and wait for the end where a slow machine made it a job."""
    result = await client.call_tool(name, arguments)
    while job := (result.structured_content or {}).get("job"):
        if job["status"] != "running":
            break
        result = await client.call_tool("job", {"id": job["id"], "action": "wait"})
    return result


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """One real server: its instructions, its tools, and a good and a bad call of each."""
    project = tmp_path_factory.mktemp("shown")
    (project / "sessions").mkdir()
    serve = ["-c", "from kernelkb_mcp.start import main; main()"]
    server = StdioServerParameters(
        command=sys.executable, args=serve, cwd=project, env=dict(os.environ)
    )

    async def run():
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            names = [tool.name for tool in tools]
            good = {name: await ended(client, name, GOOD[name]) for name in names}
            bad = {name: await client.call_tool(name, BAD[name][0]) for name in names}
            return client.instructions, tools, good, bad

    return anyio.run(run)


def properties(tools):
    """Yield each argument of each tool: where it is, and its schema."""
    for tool in tools:
        for name, schema in tool.input_schema["properties"].items():
            yield f"{tool.name}.{name}", schema


def limits(schema):
    """Yield every limit and default of an argument that a model has to know."""
    for part in (schema, *schema.get("anyOf", ())):
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if key in part:
                yield f"{part[key]:g}"
    if schema.get("default") not in (None, ""):
        value = schema["default"]
        yield f"{value:g}" if isinstance(value, int | float) else str(value)


def test_names_alone_say_what_the_tools_do(seen):
    names = [tool.name for tool in seen[1]]

    assert [name for name in names if not re.fullmatch(r"[a-z]+_[a-z]+|job", name)] == []
    assert max(len(f"mcp__kernelkb__{name}") for name in names) < 60


def test_the_instructions_survive_being_cut_and_begin_with_the_workflow(seen):
    instructions = seen[0]
    workflow = ["bench_kernel", "profile_kernel", "recommend_fix", "log_session"]
    at = [instructions[:INSTRUCTIONS_CUT].find(name) for name in workflow]

    assert len(instructions.encode()) <= INSTRUCTIONS_MOST
    assert -1 not in at
    assert at == sorted(at)
    assert at[0] < 400


def test_the_list_of_tools_is_short(seen):
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
        for tool in seen[1]
    }

    assert sum(sizes.values()) <= LIST_TOKENS, sizes
    assert max(sizes.values()) <= TOOL_TOKENS, sizes


def test_every_limit_and_default_stands_in_the_text_too(seen):
    silent = [
        f"{where}: {limit}"
        for where, schema in properties(seen[1])
        for limit in limits(schema)
        if limit not in stripped(schema).get("description", "")
    ]

    assert silent == []


def test_every_argument_is_described_without_its_schema(seen):
    assert [
        at for at, schema in properties(seen[1]) if not stripped(schema).get("description")
    ] == []


@pytest.mark.parametrize(("ending", "unit"), [("_us", r"microseconds"), ("_s", r"\d s\b")])
def test_the_unit_of_a_name_stands_in_its_text(seen, ending, unit):
    dimensional = [(at, s) for at, s in properties(seen[1]) if re.search(rf"[a-z]{ending}$", at)]

    assert dimensional
    assert [at for at, schema in dimensional if not re.search(unit, schema["description"])] == []


@pytest.mark.parametrize("name", GOOD)
def test_what_is_shown_of_a_good_call_stands_alone(seen, name):
    _, tools, good, _ = seen
    if name not in [tool.name for tool in tools]:
        pytest.skip(f"{name} is not served yet")
    text = shown(good[name])

    assert not good[name].is_error, text
    assert len(text.encode()) <= RESULT_MOST
    assert [wanted for wanted in SAYS[name] if not re.search(wanted, text)] == [], text


@pytest.mark.parametrize("name", GOOD)
def test_text_and_structure_of_a_good_call_say_the_same(seen, name):
    result = seen[2].get(name)
    if result is None:
        pytest.skip(f"{name} is not served yet")

    assert json.loads(result.content[0].text) == result.structured_content


@pytest.mark.parametrize("name", BAD)
def test_what_is_shown_of_a_bad_call_names_the_value_and_the_cure(seen, name):
    result = seen[3].get(name)
    if result is None:
        pytest.skip(f"{name} is not served yet")
    text = shown(result)

    assert result.is_error
    assert result.structured_content is None  # one client shows nothing else where there is one
    assert "\n" not in text
    assert [wanted for wanted in BAD[name][1] if wanted not in text] == [], text


def test_every_tool_has_a_good_and_a_bad_call(seen):
    assert {tool.name for tool in seen[1]} <= GOOD.keys() & BAD.keys() & SAYS.keys()
