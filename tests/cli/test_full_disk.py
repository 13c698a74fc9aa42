"""Each command on a full disk: one line with the cure, and nothing that was there is lost."""

import json
import subprocess
import sys

import pytest
from broken_kernels import make_broken_kernel
from full_disk import command_on_full_disk, run_kb_on_full_disk, why_impossible

COMMANDS = {
    "build": ["build", "broken", "--target", "cpu"],
    "bench": ["bench", "broken", "--target", "cpu"],
    "profile": ["profile", "broken", "--target", "cpu"],
    "triage": ["triage", "broken", "--target", "cpu"],
    "check": ["check"],
    "session new": ["session", "new", "2026-01-01-x", "g"],
    "session log": ["session", "log", "--goal", "g"],
    "history": ["history", "broken"],
    "export": ["export", "all.json"],
    "init": ["init", "kernels/broken/naive.cpp", "--name", "other"],
    "recommend": ["recommend", "--speedup", "0.3"],
}

CHEAP = ("build", "session log")


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A folder for the full disk; the template of its project lies beside it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    reason = why_impossible(disk)
    if reason:
        pytest.skip(f"no file system can be mounted in a namespace: {reason}")
    template = tmp_path / "template"
    (template / "sessions").mkdir(parents=True)
    make_broken_kernel(template, "right")
    return disk


def is_one_line_with_a_cure(text):
    lines = [line for line in text.splitlines() if "free some space" in line]
    return "Traceback" not in text and len(lines) >= 1 and len(text.splitlines()) <= 3


@pytest.mark.parametrize(
    ("free_kib", "words"),
    [
        *(
            pytest.param(0, words, id=name, marks=[] if name in CHEAP else pytest.mark.slow)
            for name, words in COMMANDS.items()
        ),
        pytest.param(60, COMMANDS["bench"], id="bench, 60 KiB free", marks=pytest.mark.slow),
    ],
)
def test_a_command_in_a_full_project_has_one_line(disk, words, free_kib):
    done = run_kb_on_full_disk(
        disk, disk, words, template=disk.parent / "template", free_kib=free_kib
    )
    said = done.stdout + done.stderr

    assert "Traceback" not in said
    if free_kib == 0 and words[0] in ("build", "bench", "profile", "session", "init"):
        assert done.returncode == 2
        assert is_one_line_with_a_cure(said), said


@pytest.mark.slow
@pytest.mark.parametrize("free_kib", [0, 8, 40])
def test_a_bench_without_space_for_temporary_files_has_one_line(
    disk, tmp_path, monkeypatch, free_kib
):
    monkeypatch.setenv("TMPDIR", str(disk))
    empty = tmp_path / "empty"
    empty.mkdir()
    project = tmp_path / "template"
    done = run_kb_on_full_disk(
        disk, project, COMMANDS["bench"], template=empty, free_kib=free_kib, size_kib=1024
    )
    said = done.stdout + done.stderr

    assert "Traceback" not in said
    assert "the reference" not in said
    # Python looks for another folder where this one takes not a byte.
    assert done.returncode == 0 or is_one_line_with_a_cure(said) or "inconclusive" in said, said


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["build_kernel", "bench_kernel", "profile_kernel", "session"])
def test_a_tool_in_a_full_project_has_one_line(disk, tool):
    program = "from kernelkb_mcp.start import main; main()"
    argv = command_on_full_disk(
        disk, disk, [sys.executable, "-c", program],
        template=disk.parent / "template", free_kib=0,
    )  # fmt: skip
    arguments = (
        {"action": "log", "goal": "g"}
        if tool == "session"
        else {"kernel": "broken", "target": "cpu"}
    )
    who = {"name": "t", "version": "0"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        },
    ]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        server.stdin.write("".join(json.dumps(one) + "\n" for one in messages))
        server.stdin.flush()
        answer = next(one for one in map(json.loads, server.stdout) if one.get("id") == 2)
        server.stdin.close()
        said = server.stderr.read()

    text = answer["result"]["content"][0]["text"]
    assert answer["result"]["isError"]
    assert "free some space" in text
    assert len(text.splitlines()) == 1
    assert "Traceback" not in said


def test_a_file_that_is_written_again_stays_whole_on_a_full_disk(disk):
    template = disk.parent / "template"
    old = json.dumps({"mcpServers": {"other": {"command": "x"}}, "notes": "n" * 5000})
    (template / ".mcp.json").write_text(old)
    check = (
        "import sys; from kernelkb.cli import main; code = main(sys.argv[1:]); "
        "print(open('.mcp.json').read()); sys.exit(code)"
    )
    argv = command_on_full_disk(
        disk,
        disk,
        [sys.executable, "-c", check, *COMMANDS["init"]],
        template=template,
        free_kib=0,
    )
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)

    assert done.stdout.splitlines()[-1] == old
    assert "free some space" in done.stderr
