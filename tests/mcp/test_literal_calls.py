"""Making each call that ``next`` names, as it is written, ends with a closed session."""

import os
import sys

import anyio
import pytest
from literal_next import CLOSE, follow_calls, keep_only
from mcp import Client, StdioServerParameters
from simple_kernels import write_kernel

from kernelkb.record.sessions import list_session_ids, read_session

SERVER_ARGS = ["-c", "from kernelkb_mcp.start import main; main()"]
BETTER_TWICE = """
#include <cstdint>
extern "C" int twice(const float* __restrict__ x, float* __restrict__ y, std::int64_t n, void*) {
#pragma omp parallel for simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
  return 0;
}
"""


def follow_to_the_end(project, kernel, better):
    """Return the calls that were made, and the names of the files that were changed."""
    edited = []
    server = StdioServerParameters(
        command=sys.executable,
        args=SERVER_ARGS,
        cwd=project,
        env={**os.environ, "KB_BUDGET": "0.5"},
    )

    def edit(name, line):
        path = project / name
        assert line is None or 0 < int(line) <= len(path.read_text().splitlines())
        path.write_text(better)
        edited.append(path.stem)

    async def run():
        async with Client(server) as client:
            return await follow_calls(client, kernel, edit)

    made = anyio.run(run)
    (name,) = list_session_ids(project / "sessions")
    assert read_session(name, project / "sessions").is_closed
    assert made[-1] == CLOSE
    return made, edited


@pytest.mark.slow
def test_a_small_kernel(project):
    write_kernel(project, "twice")
    made, _ = follow_to_the_end(project, "twice", BETTER_TWICE)

    assert made[1] == "profile_kernel(kernel='twice')"


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "workload"), [("row_softmax", "small"), ("gemm", "tiny")])
def test_a_kernel_is_changed_where_the_answer_says(project, kernel, workload):
    better = keep_only(project, kernel, workload=workload)
    made, edited = follow_to_the_end(project, kernel, better)

    assert any("add_from='naive'" in call for call in made)
    assert any(call.startswith("bench_kernel") and f"'{edited[0]}'" in call for call in made)
