"""``kb recommend --what-if`` as a shell calls it, and the same over MCP."""

import json

import anyio
import pytest
from machine_code import unpack_report
from mcp import Client

from kernelkb.cli import main
from kernelkb_mcp.server import build_server


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return str(
        unpack_report(tmp_path_factory.mktemp("report"), "h100-sxm", "occupancy-limited-registers")
    )


def test_the_answer_is_short_and_ends_with_what_is_assumed(capsys, report):
    words = (
        "--kernel",
        "integrate",
        "--what-if",
        "threads=256",
        "--what-if",
        "dynamic_smem=+16KiB",
    )
    assert main(["recommend", "--profile", report, *words]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "threads 128 -> 256" in lines[0]
    assert len(lines) <= 14
    assert any(line.startswith("  time            x") for line in lines)
    assert "as many threads in all" in "\n".join(lines)


def test_json_has_both_launches_and_the_time(capsys, report):
    words = ("--kernel", "integrate", "--what-if", "registers=32", "--json")
    assert main(["recommend", "--profile", report, *words]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["before"]["blocks_per_sm"], found["after"]["blocks_per_sm"]) == (4, 16)
    assert set(found["time"]) == {"factor", "low", "high", "verdict", "because", "unspilled"}
    assert found["time"]["unspilled"]["factor"] < 0.5


def test_a_launch_that_fails_says_why_and_exits_1(capsys, report):
    words = ("--kernel", "integrate", "--what-if", "threads=1024")
    assert main(["recommend", "--profile", report, *words]) == 1

    out = capsys.readouterr().out
    assert "128 registers x 1024 threads are more than an SM has; at most 64 a thread" in out


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["--what-if", "threads=64"], "add --profile REPORT"),
        (["--profile", "x.csv", "--what-if", "threads"], "write threads=64"),
    ],
)
def test_a_question_without_its_launch_or_value_names_the_cure(capsys, words, cure):
    assert main(["recommend", *words]) == 2
    assert cure in capsys.readouterr().err


def test_mcp_tells_the_same_lines(report):
    async def run():
        async with Client(build_server()) as client:
            return await client.call_tool(
                "recommend_fix",
                {"profile": report, "kernel": "integrate", "what_if": {"registers": "32"}},
            )

    result = anyio.run(run)

    assert not result.is_error, result.content
    told = result.structured_content
    assert told["summary"].startswith("integrate_series on H100 SXM")
    assert "not known, " in told["summary"]
    assert any(row.startswith("time ") for row in told["table"])
    assert any(row.startswith("hangs on ") for row in told["table"])
