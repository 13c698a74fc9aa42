"""The knowledge as resources."""

import subprocess
import sys

import pytest
from markdown_it import MarkdownIt
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference
from tool_calls import over

from kernelkb.actions.knowledge import show
from kernelkb_mcp.resources import KINDS
from kernelkb_mcp.server_config import Launch

READ_ONLY = Launch(read_only=True)
OWN = """\
id: no-guessing
title: Nobody guesses here
problem: Guesses.
practice: Measure.
triggers: [a guess]
steps: [Measure.]
sources: [origin-documents]
"""


async def listed(client):
    found, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None:
            return found


def read(uri):
    async def work(client):
        (content,) = (await client.read_resource(uri)).contents
        return content

    return over(None, work)


def refusal(uri):
    with pytest.raises((MCPError, BaseExceptionGroup)) as caught:
        read(uri)
    error = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error.error


def test_every_entry_of_these_kinds_is_a_resource():
    uris = [str(resource.uri) for resource in over(None, listed)]
    wanted = [f"kb://{kind}/{row['id']}" for kind in KINDS for row in show(kind)]

    assert uris == ["kb://index", "kb://quickref", "kb://sessions", *wanted]


def test_the_first_page_holds_all_but_fixes():
    async def work(client):
        return await client.list_resources()

    page = over(None, work)
    kinds = {str(resource.uri).split("/")[2] for resource in page.resources}

    assert kinds >= {"index", "quickref", "trees", "patterns", "bottlenecks", "devices"}
    assert page.next_cursor


def test_every_resource_can_be_read_and_is_markdown():
    async def work(client):
        resources = await listed(client)
        pages = [(await client.read_resource(str(one.uri))).contents for one in resources]
        return [page for (page,) in pages]

    pages = over(READ_ONLY, work)

    assert {page.mime_type for page in pages} == {"text/markdown"}
    for page in pages:
        tokens = MarkdownIt("commonmark").parse(page.text.removeprefix("<!-- ").strip())
        assert any(token.type == "heading_open" and token.tag == "h1" for token in tokens)


def test_a_bottleneck_says_all_that_a_reader_needs(project):
    text = read("kb://bottlenecks/small-grid").text
    entry = show("small-grid")

    for part in (entry["definition"], entry["confirm"], *entry["fixes"], entry["cases"][0]["name"]):
        assert part in text
    for heading in ("When", "What looks like it", "To be sure", "Cases", "Sources"):
        assert f"## {heading}" in text


def test_the_index_names_every_resource():
    text = read("kb://index").text
    uris = [str(resource.uri) for resource in over(None, listed)]

    assert [uri for uri in uris[1:] if f"({uri})" not in text] == []


def test_a_projects_own_pattern_is_a_resource(project):
    folder = project / "knowledge" / "patterns"
    folder.mkdir(parents=True)
    (folder / "no-guessing.yaml").write_text(OWN)

    assert "Nobody guesses here" in read("kb://patterns/no-guessing").text
    assert "kb://patterns/no-guessing" in [str(one.uri) for one in over(None, listed)]


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
def test_what_is_not_there_is_named(uri, said):
    error = refusal(uri)

    assert error.code == -32602
    assert error.data == {"uri": uri}
    assert said in error.message


def test_a_cursor_that_nobody_gave_is_refused():
    async def work(client):
        with pytest.raises(MCPError) as caught:
            await client.list_resources(cursor="x")
        return caught.value.error

    assert "from the beginning" in over(None, work).message


def complete(ref, name, value):
    async def work(client):
        return (await client.complete(ref, {"name": name, "value": value})).completion

    return over(None, work)


def test_ids_are_completed():
    ref = ResourceTemplateReference(uri="kb://bottlenecks/{id}")
    found = complete(ref, "id", "small")

    assert found.values[0] == "small-grid"
    assert found.has_more is False


def test_no_more_ids_are_sent_than_a_client_may_get():
    found = complete(ResourceTemplateReference(uri="kb://fixes/{id}"), "id", "")

    assert (len(found.values), found.total, found.has_more) == (100, len(show("fixes")), True)


def test_kernels_are_completed_in_prompts(project):
    assert complete(PromptReference(name="session_start"), "kernel", "row").values == [
        "row_softmax"
    ]


@pytest.mark.parametrize("method", ["list_tools", "list_prompts", "list_resource_templates"])
def test_lists_may_be_kept(method):
    async def work(client):
        return await getattr(client, method)()

    assert over(None, work).ttl_ms >= 60_000


def test_the_list_of_sessions_may_not_be_kept():
    async def work(client):
        pages = [await client.read_resource(f"kb://{name}") for name in ("sessions", "index")]
        return [page.ttl_ms for page in pages]

    assert over(None, work) == [0, 60_000]


def test_a_server_loads_no_knowledge_before_somebody_asks():
    script = (
        "import sys; from kernelkb_mcp.server import build_server; build_server(); "
        "print(*sorted(name for name in sys.modules if name.partition('.')[0] in "
        "('yaml', 'networkx', 'rapidfuzz', 'sqlalchemy', 'torch')))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert loaded.stdout.split() == []
