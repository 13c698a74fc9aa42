"""The knowledge as resources."""

import subprocess
import sys

import pytest
from markdown_it import MarkdownIt
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference
from tool_calls import run_client

from kernelkb.actions.knowledge.knowledge import look_up_entries
from kernelkb_mcp.calls.resources import KINDS
from kernelkb_mcp.server_config import ServerConfig

READ_ONLY = ServerConfig(read_only=True)
OWN = """\
id: no-guessing
title: Nobody guesses here
problem: Guesses.
practice: Measure.
triggers: [a guess]
steps: [Measure.]
sources: [origin-documents]
"""


async def list_all_resources(client):
    found, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None:
            return found


def read_resource(uri):
    async def work(client):
        (content,) = (await client.read_resource(uri)).contents
        return content

    return run_client(None, work)


def read_error(uri):
    with pytest.raises((MCPError, BaseExceptionGroup)) as caught:
        read_resource(uri)
    error = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error.error


def test_every_entry_of_these_kinds_is_a_resource():
    uris = [str(resource.uri) for resource in run_client(None, list_all_resources)]
    wanted = [f"kb://{kind}/{row['id']}" for kind in KINDS for row in look_up_entries(kind)]

    assert uris == ["kb://index", "kb://quickref", "kb://sessions", *wanted]


def test_the_first_page_holds_all_but_fixes():
    async def work(client):
        return await client.list_resources()

    page = run_client(None, work)
    kinds = {str(resource.uri).split("/")[2] for resource in page.resources}

    assert kinds >= {"index", "quickref", "trees", "patterns", "bottlenecks", "devices"}
    assert page.next_cursor


def test_every_resource_can_be_read_and_is_markdown():
    async def work(client):
        resources = await list_all_resources(client)
        pages = [(await client.read_resource(str(one.uri))).contents for one in resources]
        return [page for (page,) in pages]

    pages = run_client(READ_ONLY, work)

    assert {page.mime_type for page in pages} == {"text/markdown"}
    for page in pages:
        tokens = MarkdownIt("commonmark").parse(page.text.removeprefix("<!-- ").strip())
        assert any(token.type == "heading_open" and token.tag == "h1" for token in tokens)


def test_a_bottleneck_says_all_that_a_reader_needs(project):
    text = read_resource("kb://bottlenecks/small-grid").text
    entry = look_up_entries("small-grid")

    for part in (entry["definition"], entry["confirm"], *entry["fixes"], entry["cases"][0]["name"]):
        assert part in text
    for heading in ("When", "Look-alikes", "Confirm", "Cases", "Sources"):
        assert f"## {heading}" in text


def test_the_index_names_every_resource():
    text = read_resource("kb://index").text
    uris = [str(resource.uri) for resource in run_client(None, list_all_resources)]

    assert [uri for uri in uris[1:] if f"({uri})" not in text] == []


def test_a_projects_own_pattern_is_a_resource(project):
    folder = project / "knowledge" / "patterns"
    folder.mkdir(parents=True)
    (folder / "no-guessing.yaml").write_text(OWN)

    assert "Nobody guesses here" in read_resource("kb://patterns/no-guessing").text
    assert "kb://patterns/no-guessing" in [
        str(one.uri) for one in run_client(None, list_all_resources)
    ]


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("kb://patterns/profile-before-optimise", "did you mean 'profile-before-optimize'?"),
        ("kb://metrics/speedup", "kb://index"),
        ("kb://nothing", "kb://index"),
        ("file:///etc/passwd", "kb://index"),
        ("kb://patterns/../trees/performance-gate", "kb://index"),
    ],
)
def test_an_unknown_resource_is_reported_with_a_suggestion(uri, said):
    error = read_error(uri)

    assert error.code == -32602
    assert error.data == {"uri": uri}
    assert said in error.message


def test_an_invalid_cursor_is_rejected():
    async def work(client):
        with pytest.raises(MCPError) as caught:
            await client.list_resources(cursor="x")
        return caught.value.error

    assert "from the beginning" in run_client(None, work).message


def complete_argument(ref, name, value):
    async def work(client):
        return (await client.complete(ref, {"name": name, "value": value})).completion

    return run_client(None, work)


def test_ids_are_completed():
    ref = ResourceTemplateReference(uri="kb://bottlenecks/{id}")
    found = complete_argument(ref, "id", "small")

    assert found.values[0] == "small-grid"
    assert found.has_more is False


def test_no_more_ids_are_sent_than_a_client_may_get():
    found = complete_argument(ResourceTemplateReference(uri="kb://fixes/{id}"), "id", "")

    assert (len(found.values), found.total, found.has_more) == (
        100,
        len(look_up_entries("fixes")),
        True,
    )


def test_kernels_are_completed_in_prompts(project):
    assert complete_argument(PromptReference(name="session_start"), "kernel", "row").values == [
        "row_softmax"
    ]


@pytest.mark.parametrize("method", ["list_tools", "list_prompts", "list_resource_templates"])
def test_lists_may_be_kept(method):
    async def work(client):
        return await getattr(client, method)()

    assert run_client(None, work).ttl_ms >= 60_000


def test_the_list_of_sessions_may_not_be_kept():
    async def work(client):
        pages = [await client.read_resource(f"kb://{name}") for name in ("sessions", "index")]
        return [page.ttl_ms for page in pages]

    assert run_client(None, work) == [0, 60_000]


def test_building_a_server_loads_no_knowledge():
    script = (
        "import sys; from kernelkb_mcp.server import build_server; build_server(); "
        "print(*sorted(name for name in sys.modules if name.partition('.')[0] in "
        "('yaml', 'networkx', 'sqlalchemy', 'torch')))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert loaded.stdout.split() == []
