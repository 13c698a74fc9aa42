"""A report of many megabytes: other calls are answered meanwhile, and cancelling ends it."""

import statistics
import time
from pathlib import Path

import anyio
import pytest
from mcp import Client

from kernelkb_mcp.server import build_server


@pytest.fixture
def report(project):
    page = next(iter(sorted((Path(__file__).parents[1] / "data" / "ncu").glob("row_softmax*.csv"))))
    head, units, row = page.read_text().splitlines(keepends=True)[:3]
    file = project / "big.csv"
    with file.open("w") as sink:
        sink.write(head + units)
        sink.writelines(row for _ in range(60 * 2**20 // len(row)))
    return file


@pytest.mark.slow
def test_other_calls_are_answered_while_a_large_report_is_read(report):
    async def run():
        waits, messages = [], []

        async def hear(progress, total, message):
            messages.append(message)

        async def ask():
            answer = await client.call_tool(
                "recommend_fix", {"profile": report.name}, progress_callback=hear
            )
            spent.append(time.monotonic() - begun)
            answers.append(answer)

        spent, answers = [], []
        async with Client(build_server()) as client:
            begun = time.monotonic()
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                while not answers:
                    at = time.monotonic()
                    await client.call_tool("recommend_fix", {"speedup": 0.5})
                    waits.append(time.monotonic() - at)
                    await anyio.sleep(0.01)
        return waits, messages, spent[0], answers[0]

    waits, messages, spent, answer = anyio.run(run)

    assert not answer.is_error
    assert statistics.median(waits) < spent / 4, (waits, spent)
    assert len(waits) > 5
    assert any("big.csv" in message for message in messages)


@pytest.mark.slow
def test_a_cancelled_call_stops_reading(report):
    async def run():
        async with Client(build_server()) as client:
            begun = time.monotonic()
            with anyio.move_on_after(0.3):
                await client.call_tool("recommend_fix", {"profile": report.name})
            await client.call_tool("recommend_fix", {"speedup": 0.5})
            return time.monotonic() - begun

    begun = time.monotonic()
    anyio.run(run)  # the thread is awaited by the event loop's end
    cancelled = time.monotonic() - begun

    async def whole():
        async with Client(build_server()) as client:
            await client.call_tool("recommend_fix", {"profile": report.name})

    begun = time.monotonic()
    anyio.run(whole)
    assert cancelled < time.monotonic() - begun
