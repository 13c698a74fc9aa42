"""A log on which a pattern of the project's own takes years: others are answered, and it ends."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from processes import wait_until
from server_shutdowns import StdioServer

CPU_TICKS = 300
"""Hundredths of a second: more than it takes to start and to compile the other patterns."""
FAMILY = """\
family: build
symptoms:
  - id: own-failure
    title: The project's own failure
    log_patterns:
      - 'own (a+)+b'
    cause: None.
    cure: None.
    check: None.
    example: |
      own aab
    counterexample: |
      own c
    sources: [log-messages]
"""


@pytest.fixture
def server(tmp_path):
    for name in ("project/sessions", "project/knowledge/symptoms", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project" / "knowledge" / "symptoms" / "build.yaml").write_text(FAMILY)
    server = StdioServer(tmp_path, "from kernelkb_mcp.start import main; main()")
    yield server
    server.process.kill()
    server.close()


def find_reader(server):
    """Return the processor time of the process that reads the log, and its folder in /proc."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == server.process.pid and b"reader_process" in line:
            return int(fields[11]), entry
    return 0, None


def ask(server, number, log):
    arguments = {"log": log}
    server.send_request(number, "tools/call", name="recommend_fix", arguments=arguments)


def is_running(entry):
    with suppress(OSError):
        return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def start_match(server):
    """Ask about a log that takes years; return the folder in /proc of the process that reads it."""
    ask(server, 2, "own " + "a" * 100)
    wait_until(lambda: find_reader(server)[0] > CPU_TICKS)
    return find_reader(server)[1]


def test_others_are_answered_and_the_call_can_be_cancelled(server):
    reader = start_match(server)
    server.send_request(3, "ping")
    server.read_answer(3)
    server.send_notification("notifications/cancelled", requestId=2)
    wait_until(lambda: not is_running(reader))
    ask(server, 4, "own aab")

    assert "own-failure" in json.dumps(server.read_answer(4))
    assert server.close() == 0


def test_the_end_of_the_input_ends_the_match(server):
    reader = start_match(server)

    assert server.close() == 0
    wait_until(lambda: not is_running(reader))
