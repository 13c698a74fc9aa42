"""Making each call that ``next`` names, as it is written, ends with a closed session."""

import os
import sys

import anyio
import pytest
from literal_next import CLOSE, follow_calls, keep_only
from mcp import Client, StdioServerParameters

from kernelkb.record.sessions import list_session_ids, read_session

SERVER_ARGS = ["-c", "from kernelkb_mcp.start import main; main()"]


def run_client(project, kernel, edit):
    server = StdioServerParameters(
        command=sys.executable,
        args=SERVER_ARGS,
        cwd=project,
        env={**os.environ, "KB_BUDGET": "0.5"},
    )

    async def run():
        async with Client(server) as client:
            return await follow_calls(client, kernel, edit)

    return anyio.run(run)


@pytest.mark.slow
def test_a_kernel_is_changed_where_the_answer_says(project):
    better, edited = keep_only(project, "row_softmax", workload="small"), []

    def edit(name):
        edited.append(name)
        (project / name).write_text(better)

    made = run_client(project, "row_softmax", edit)

    (name,) = list_session_ids(project / "sessions")
    assert read_session(name, project / "sessions").is_closed
    assert made[-1] == CLOSE
    assert edited
    assert any("add_from='naive'" in call for call in made)
