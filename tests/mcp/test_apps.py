"""Views beside the text, for clients that show MCP Apps; nothing of them for others."""

import anyio
from mcp import Client
from mcp.client.extension import ClientExtension
from web_page import SESSION, fill_project

from kernelkb_mcp.calls.apps import EXTENSION_ID, MIME_TYPE, TOOL_VIEWS, VIEW
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig


class ShowsApps(ClientExtension):
    """A client that shows MCP Apps."""

    identifier = EXTENSION_ID

    def settings(self):
        return {"mimeTypes": [MIME_TYPE]}


def run_client(work, *, shows_apps=True):
    async def connect():
        given = [ShowsApps()] if shows_apps else []
        async with Client(build_server(ServerConfig()), extensions=given) as client:
            return await work(client)

    return anyio.run(connect)


def call(name, *, shows_apps=True, **arguments):
    return run_client(lambda client: client.call_tool(name, arguments), shows_apps=shows_apps)


def test_a_client_without_apps_sees_no_trace_of_them(project):
    async def list_all(client):
        return await client.list_tools(), await client.list_resources()

    tools, resources = run_client(list_all, shows_apps=False)
    answer = call("recommend_fix", shows_apps=False, speedup=0.3)

    assert not any((tool.meta or {}).get("ui") for tool in tools.tools)
    assert not any(str(one.uri).startswith("ui:") for one in resources.resources)
    assert VIEW not in (answer.meta or {})


def test_a_client_with_apps_gets_the_documents_that_the_tools_name(project):
    async def read_all(client):
        tools = (await client.list_tools()).tools
        uris = {tool.name: tool.meta["ui"]["resourceUri"] for tool in tools if tool.meta}
        return {name: await client.read_resource(uri) for name, uri in uris.items()}

    found = run_client(read_all)

    assert found.keys() == TOOL_VIEWS.keys()
    for read in found.values():
        assert read.contents[0].mime_type == MIME_TYPE
        assert "<script>" in read.contents[0].text
        assert "http" not in read.contents[0].text.replace("http://www.w3.org", "")


def test_a_recommendation_brings_its_tree_and_its_text_stays(project):
    answer = call("recommend_fix", speedup=0.3, occupancy=0.4)
    plain = call("recommend_fix", shows_apps=False, speedup=0.3, occupancy=0.4)

    assert answer.content == plain.content
    assert answer.structured_content == plain.structured_content
    assert '<svg class="diagram"' in answer.meta[VIEW]
    assert 'class="verdict stop"' in answer.meta[VIEW]
    assert "<form" not in answer.meta[VIEW]
    assert '<a href="/' not in answer.meta[VIEW]


def test_a_session_brings_its_checklist(project):
    fill_project(project)
    answer = call("session")

    assert SESSION in answer.meta[VIEW]
    assert "0.62x of torch" in answer.meta[VIEW]


def test_what_has_no_view_is_as_it_was(project):
    for name, given in (
        ("read_entry", {"id": "fixes"}),
        ("search_knowledge", {"query": "bank conflicts"}),
        ("recommend_fix", {"log": 'error: identifier "x" is undefined'}),
    ):
        assert VIEW not in (call(name, **given).meta or {})
