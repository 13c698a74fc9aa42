"""Tools that ask the client before they answer: by a result that wants input, or by a request.

Revision 2026-07-28 asks by a result; up to 2025-11-25 a server sends ``elicitation/create``.
"""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    TextContent,
)

Answer = CallToolResult | InputRequiredResult


def text_result(sentence: str) -> CallToolResult:
    """Return a result of one sentence."""
    return CallToolResult(content=[TextContent(text=sentence)])


def build_form_request(message: str, **fields: str) -> ElicitRequest:
    """Return a question to the user, with the type of each field of its form."""
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
    }
    asked = {"message": message, "requestedSchema": schema}
    return ElicitRequest.model_validate({"method": "elicitation/create", "params": asked})


def build_sampling_request(message: str, max_tokens: int) -> CreateMessageRequest:
    """Return a question to the client's model."""
    said = {"role": "user", "content": {"type": "text", "text": message}}
    asked = {"messages": [said], "maxTokens": max_tokens}
    return CreateMessageRequest.model_validate(
        {"method": "sampling/createMessage", "params": asked}
    )


def read_form_answer(ctx: Context, key: str) -> dict[str, Any] | None:
    """Return what the user filled in; None where there is no usable answer."""
    answer = (ctx.input_responses or {}).get(key)
    if isinstance(answer, ElicitResult) and answer.action == "accept" and answer.content:
        return dict(answer.content)
    return None


async def test_input_required_result_elicitation(ctx: Context) -> Answer:
    """Ask for a name and greet."""
    answer = read_form_answer(ctx, "user_name")
    if answer is None or not isinstance(answer.get("name"), str):
        question = build_form_request("What is your name?", name="string")
        return InputRequiredResult(input_requests={"user_name": question})
    return text_result(f"Hello, {answer['name']}!")


async def test_input_required_result_sampling(ctx: Context) -> Answer:
    """Ask the client's model."""
    answer = (ctx.input_responses or {}).get("capital_question")
    if not isinstance(answer, CreateMessageResult):
        question = build_sampling_request("What is the capital of France?", 100)
        return InputRequiredResult(input_requests={"capital_question": question})
    return text_result(f"The model said: {getattr(answer.content, 'text', '')}")


async def test_input_required_result_list_roots(ctx: Context) -> Answer:
    """Ask for the client's roots."""
    answer = (ctx.input_responses or {}).get("client_roots")
    if not isinstance(answer, ListRootsResult):
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
    return text_result(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}")


async def test_input_required_result_request_state(ctx: Context) -> Answer:
    """Ask, and find what it remembered."""
    if ctx.request_state is None or read_form_answer(ctx, "confirm") is None:
        question = build_form_request("Please confirm", ok="boolean")
        return InputRequiredResult(input_requests={"confirm": question}, request_state="asked once")
    if ctx.request_state != "asked once":
        raise ToolError("this state is not mine; call again without it")
    return text_result("state-ok")


async def test_input_required_result_tampered_state(ctx: Context) -> Answer:
    """Ask, with a state that nobody may change."""
    return await test_input_required_result_request_state(ctx)


async def test_input_required_result_multiple_inputs(ctx: Context) -> Answer:
    """Ask three things at once."""
    wanted = {
        "user_name": build_form_request("What is your name?", name="string"),
        "greeting": build_sampling_request("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    if not wanted.keys() <= (ctx.input_responses or {}).keys():
        return InputRequiredResult(input_requests=wanted, request_state="three")
    return text_result("all three answered")


async def test_input_required_result_multi_round(ctx: Context) -> Answer:
    """Ask one thing after the other."""
    name, color = read_form_answer(ctx, "step1"), read_form_answer(ctx, "step2")
    if ctx.request_state == "two" and color:
        return text_result(f"Your color is {color['color']}")
    if ctx.request_state == "one" and name:
        question = build_form_request("Step 2: What is your favorite color?", color="string")
        return InputRequiredResult(input_requests={"step2": question}, request_state="two")
    question = build_form_request("Step 1: What is your name?", name="string")
    return InputRequiredResult(input_requests={"step1": question}, request_state="one")


async def test_input_required_result_capabilities(ctx: Context) -> Answer:
    """Ask only what the client can answer."""
    able = ctx.client_capabilities
    possible = {
        "question": build_form_request("What is your name?", name="string"),
        "greeting": build_sampling_request("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    kinds = ("elicitation", "sampling", "roots")
    declared = [getattr(able, kind, None) is not None for kind in kinds]
    asked = {key: possible[key] for key, can in zip(possible, declared, strict=True) if can}
    if not asked or ctx.input_responses:
        return text_result("nothing more to ask")
    return InputRequiredResult(input_requests=asked)


async def test_streaming_elicitation(ctx: Context) -> Answer:
    """Report progress, then ask: on the stream of the answer, as part of the answer."""
    await ctx.report_progress(0, 1)
    return await test_input_required_result_elicitation(ctx)


async def test_elicitation(ctx: Context, message: str) -> CallToolResult:
    """Ask for a name and an address."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    answer = await request_form(ctx, message, fields, ["username", "email"])
    return text_result(f"User response: {describe_answer(answer)}")


async def test_elicitation_sep1034_defaults(ctx: Context) -> CallToolResult:
    """Ask with a default for each kind of field."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"]}
        | {"default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await request_form(ctx, "Who are you?", fields, [])
    return text_result(f"Elicitation completed: {describe_answer(answer)}")


async def test_elicitation_sep1330_enums(ctx: Context) -> CallToolResult:
    """Ask with each kind of choice."""
    plain = ["option1", "option2", "option3"]
    titles = ["First", "Second", "Third"]

    def named(word: str) -> list[dict[str, str]]:
        return [{"const": f"value{n}", "title": f"{t} {word}"} for n, t in enumerate(titles, 1)]

    fields: dict[str, dict[str, Any]] = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": named("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": named("Choice")}},
    }
    answer = await request_form(ctx, "Choose", fields, [])
    return text_result(f"Elicitation completed: {describe_answer(answer)}")


async def request_form(
    ctx: Context, message: str, fields: dict[str, dict[str, Any]], required: list[str]
) -> ElicitResult:
    able = ctx.client_capabilities
    if able is None or able.elicitation is None:
        raise ToolError("this client cannot be asked: it did not declare elicitation")
    schema = {"type": "object", "properties": fields, "required": required}
    return await ctx.session.elicit_form(
        message=message, requested_schema=schema, related_request_id=ctx.request_id
    )


def describe_answer(answer: ElicitResult) -> str:
    return f"action={answer.action}, content={answer.content}"


ELICITATION_TOOLS = (
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
)
