"""The prompts, through a client."""

import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS
from tool_calls import run_client

from kernelkb.actions.knowledge.documents import generate_guide_page


def get_prompt_text(name, **arguments):
    async def work(client):
        (message,) = (await client.get_prompt(name, arguments)).messages
        return message.content.text

    return run_client(None, work)


def test_three_prompts_with_arguments_that_may_be_left_out():
    async def work(client):
        return (await client.list_prompts()).prompts

    prompts = run_client(None, work)

    assert [prompt.name for prompt in prompts] == [
        "session_start", "diagnose_kernel", "close_session",
    ]  # fmt: skip
    assert all(prompt.title and prompt.description for prompt in prompts)
    assert not any(one.required for prompt in prompts for one in prompt.arguments or ())


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("session_start", "session-start"),
        ("diagnose_kernel", "diagnose"),
        ("close_session", "close"),
    ],
)
def test_a_prompt_is_the_guides_page(prompt, name):
    assert get_prompt_text(prompt) == generate_guide_page(name, "mcp")


def test_a_prompt_is_about_the_kernel_that_is_named():
    assert get_prompt_text("session_start", kernel="gemm").startswith("# A session on gemm\n")
    assert "    speedup 0.3\n" in get_prompt_text(
        "diagnose_kernel", kernel="gemm", metrics="speedup 0.3"
    )


def test_a_prompt_names_the_tools():
    text = get_prompt_text("session_start")

    for tool in ("bench_kernel", "recommend_fix", "session", "kb://quickref"):
        assert tool in text


@pytest.mark.parametrize(
    ("prompt", "arguments", "said"),
    [
        ("session_begin", {}, "unknown prompt 'session_begin'; known: session_start"),
        ("session_start", {"kernle": "x"}, "session_start has no argument 'kernle'"),
        ("close_session", {"a": "x"}, "takes none"),
    ],
)
def test_a_mistaken_prompt_is_answered_without_a_stack(prompt, arguments, said, caplog):
    async def work(client):
        with pytest.raises(MCPError) as raised:
            await client.get_prompt(prompt, arguments)
        return raised.value.error

    error = run_client(None, work)

    assert error.code == INVALID_PARAMS
    assert said in error.message
    assert not caplog.records
