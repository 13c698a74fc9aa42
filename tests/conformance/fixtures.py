"""What the official suite wants a server to have, on the server that we ship.

Names, texts and behaviour are those of the suite's scenario descriptions.
The server is that of ``build_server``, with its own tools, middleware and security settings.
"""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

import anyio
from elicitation_tools import ELICITATION_TOOLS
from long_running_tools import LONG_RUNNING_TOOLS, TASKS
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from prompt_fixtures import add_prompts
from pydantic import Field

from kernelkb_mcp.calls.tasks import TasksExtension
from kernelkb_mcp.calls.tool_adapter import KernelServer, build_strict_tool

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
SILENT_WAV = base64.b64encode(
    b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()
HINTS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def text_result(sentence: str) -> CallToolResult:
    """Return a result of one sentence."""
    return CallToolResult(content=[TextContent(text=sentence)])


async def test_simple_text() -> CallToolResult:
    """Say one sentence."""
    return text_result("This is a simple text response for testing.")


async def test_image_content() -> CallToolResult:
    """Show a red pixel."""
    return CallToolResult(content=[ImageContent(data=PIXEL, mime_type="image/png")])


async def test_audio_content() -> CallToolResult:
    """Play a moment of silence."""
    return CallToolResult(content=[AudioContent(data=SILENT_WAV, mime_type="audio/wav")])


async def test_embedded_resource() -> CallToolResult:
    """Hand out a resource inside the answer."""
    inside = TextResourceContents(
        uri="test://embedded-resource",
        mime_type="text/plain",
        text="This is an embedded resource content.",
    )
    return CallToolResult(content=[EmbeddedResource(resource=inside)])


async def test_multiple_content_types() -> CallToolResult:
    """Say, show and hand out."""
    inside = TextResourceContents(
        uri="test://mixed-content-resource",
        mime_type="application/json",
        text=json.dumps({"test": "data", "value": 123}),
    )
    return CallToolResult(
        content=[
            TextContent(text="Multiple content types test:"),
            ImageContent(data=PIXEL, mime_type="image/png"),
            EmbeddedResource(resource=inside),
        ]
    )


async def test_error_handling() -> CallToolResult:
    """Fail on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


async def test_tool_with_progress(ctx: Context) -> CallToolResult:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(0.05)
    return text_result("all of it done")


async def test_logging_tool() -> CallToolResult:
    """Log to stderr alone: the protocol's logging is deprecated, and nothing here uses it."""
    return text_result("nothing was logged to the client")


async def test_missing_capability(ctx: Context) -> CallToolResult:
    """Refuse clients that cannot sample."""
    able = ctx.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool asks the client's model",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return text_result("the client can sample")


async def test_trigger_tool_change(ctx: Context) -> CallToolResult:
    """Tell who listens that the list of tools has changed."""
    await ctx.notify_tools_changed()
    return text_result("told")


async def test_trigger_prompt_change(ctx: Context) -> CallToolResult:
    """Tell who listens that the list of prompts has changed."""
    await ctx.notify_prompts_changed()
    return text_result("told")


async def mirrored_header(
    region: Annotated[
        str, Field(description="Any region.", json_schema_extra={"x-mcp-header": "Region"})
    ],
) -> CallToolResult:
    """Take an argument that HTTP clients repeat in a header."""
    return text_result(region)


async def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "email",
    phone: str = "",
    email: str = "",
) -> CallToolResult:
    """Take arguments that a schema of many keywords describes."""
    return text_result(f"{name} {address} {contactMethod} {phone} {email}")


SCHEMA: dict[str, Any] = {
    "$schema": SCHEMA_DIALECT,
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
PLAIN_TOOLS = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_logging_tool,
    test_missing_capability,
    test_trigger_tool_change,
    test_trigger_prompt_change,
    mirrored_header,
    json_schema_2020_12_tool,
)


def add_fixtures(server: KernelServer) -> None:
    """Add every fixture to a server."""
    for function in (*PLAIN_TOOLS, *ELICITATION_TOOLS, *LONG_RUNNING_TOOLS):
        made = build_strict_tool(function, function.__name__.replace("_", " "), HINTS)
        if made.name == "json_schema_2020_12_tool":
            made.parameters = SCHEMA
        server._tool_manager._tools[made.name] = made
    tasks = next(part for part in server._extensions if isinstance(part, TasksExtension))
    tasks._tools.update(TASKS)
    add_resources(server)
    add_prompts(server)


def add_resources(server: KernelServer) -> None:
    """Add one text, one picture and one family of resources."""

    @server.resource("test://static-text", description="One sentence.", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", description="A red pixel.", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PIXEL)

    @server.resource(
        "test://template/{id}/data", description="Data by id.", mime_type="application/json"
    )
    def template(id: str) -> str:  # noqa: A002 the suite's own word
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    own = server.read_resource

    async def read(uri: Any, context: Any = None) -> Any:
        """Read what was added here as the SDK does; all else is the product's."""
        if str(uri).startswith("test://"):
            return await MCPServer.read_resource(server, uri, context)
        return await own(uri, context)

    server.read_resource = read
