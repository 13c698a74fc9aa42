"""The suite's prompts, and completion of their arguments."""

from __future__ import annotations

from elicitation_tools import build_form_request, read_form_answer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    TextContent,
    TextResourceContents,
)

from kernelkb_mcp.calls.tool_adapter import KernelServer

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)


def make_user_message(content: ContentBlock) -> UserMessage:
    """Return a message of the user."""
    return UserMessage(content=content)


def add_prompts(server: KernelServer) -> None:
    """Add every prompt that the scenarios ask for."""

    @server.prompt()
    def test_simple_prompt() -> str:
        """Say one sentence."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Repeat two arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        """Hand out a resource inside the prompt."""
        inside = TextResourceContents(
            uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
        )
        return [
            make_user_message(EmbeddedResource(resource=inside)),
            make_user_message(TextContent(text="Please process the embedded resource above.")),
        ]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """Show a picture."""
        return [
            make_user_message(ImageContent(data=PIXEL, mime_type="image/png")),
            make_user_message(TextContent(text="Please analyze the image above.")),
        ]

    @server.prompt()
    async def test_input_required_result_prompt(
        ctx: Context,
    ) -> list[UserMessage] | InputRequiredResult:
        """Ask before it answers."""
        answer = read_form_answer(ctx, "user_context")
        if answer is None:
            question = build_form_request("What context should the prompt use?", context="string")
            return InputRequiredResult(input_requests={"user_context": question})
        return [make_user_message(TextContent(text=f"Use this context: {answer['context']}"))]
