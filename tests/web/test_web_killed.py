"""A server that is killed, and several who write at once: what was answered is there."""

import os
import signal
import subprocess
import sys
import threading
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

import anyio
import pytest
from http_server import SERVER_COMMAND
from mcp import Client, StdioServerParameters
from web_page import SESSION, fill_project, serve_project, wait_for

from kernelkb.record.running import list_running
from kernelkb.record.sessions import read_session

ITEM = "claims-verified"
START = "import sys; from kernelkb.cli import start; sys.exit(start())"


@pytest.fixture
def filled_project(project):
    fill_project(project)
    return project


def read_notes(project):
    entries = read_session(SESSION, project / "sessions").entries
    return [mark.note for entry in entries for mark in entry.marks]


def tick_until_it_ends(page, key, name, answered):
    """Send notes one after the other, and keep those that were answered."""
    number = 0
    while True:
        note = f"{name} {number} {'x' * (number % 4 * 140)}".strip()
        form = {"form_key": key, "session": SESSION, "item": ITEM, "passed": "passed", "note": note}
        try:
            if page.ask("/checklist/mark", form=form).status != 303:
                return
        except (urllib.error.URLError, HTTPException, OSError):
            return
        answered.append(note)
        number += 1


def test_a_server_that_is_killed_while_it_writes_loses_no_answered_tick(filled_project):
    answered = []
    for kill in range(2):
        with serve_project(filled_project) as page:
            key = page.read_form_key()
            begun = len(answered)
            writers = [
                threading.Thread(
                    target=tick_until_it_ends, args=(page, key, f"{kill} {at}", answered)
                )
                for at in range(3)
            ]
            for writer in writers:
                writer.start()
            wait_for(lambda begun=begun, kill=kill: len(answered) > begun + 2 + kill)
            os.kill(page.process, signal.SIGKILL)
            for writer in writers:
                writer.join(60)
    with serve_project(filled_project) as page:
        shown = page.ask("/checklist")

    assert set(answered) <= set(read_notes(filled_project))
    assert shown.status == 200
    assert 'role="alert"' not in shown.text


def test_an_export_that_is_killed_leaves_whole_pages_and_the_next_one_ends_it(filled_project):
    folder = filled_project / "copy"
    words = [sys.executable, "-c", START, "web", "--export", str(folder), "--session", SESSION]
    for least in (1, 3):
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": ":".join(sys.path)}
        ) as child:
            wait_for(
                lambda child=child, least=least: (
                    child.poll() is not None or len(list(folder.rglob("*.html"))) >= least
                )
            )
            child.kill()
        for page in folder.rglob("*.html"):
            assert page.read_text("utf-8").rstrip().endswith("</html>"), page
    subprocess.run(
        words, check=True, stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip

    assert (folder / "session" / f"{SESSION}.html").is_file()
    assert [one.name for one in folder.rglob("*") if one.name.endswith(".tmp")] == []


def test_two_browsers_and_an_mcp_client_write_at_once_and_lose_nothing(filled_project):
    async def log_by_mcp():
        parameters = StdioServerParameters(
            command=sys.executable, args=[*SERVER_COMMAND[1:]], cwd=filled_project,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        async with Client(parameters) as client:
            return [
                await client.call_tool("session", {"action": "log", "goal": f"by mcp {number}"})
                for number in range(6)
            ]

    def tick(page, key, name):
        notes = [f"{name} {number}" for number in range(6)]
        said = {"form_key": key, "session": SESSION, "item": ITEM, "passed": "passed"}
        return [page.ask("/checklist/mark", form={**said, "note": note}).status for note in notes]

    with serve_project(filled_project) as page, ThreadPoolExecutor(3) as threads:
        key = page.read_form_key()
        browsers = [threads.submit(tick, page, key, name) for name in ("one", "other")]
        logged = threads.submit(anyio.run, log_by_mcp)
        statuses = [status for one in browsers for status in one.result(300)]
        results = logged.result(300)
        shown = page.ask("/checklist").text

    assert statuses == [303] * 12
    assert [one.is_error for one in results] == [False] * 6
    assert {f"{name} {at}" for name in ("one", "other") for at in range(6)} <= set(
        read_notes(filled_project)
    )
    for at in range(6):
        assert f"by mcp {at}" in shown
        assert f"other {at}" in shown


def test_what_a_killed_page_had_started_goes_on_and_is_seen_by_the_next_one(filled_project):
    words = [sys.executable, "-c", _PUBLISHES, str(filled_project)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with serve_project(filled_project) as page, subprocess.Popen(words, env=env) as child:
        wait_for(lambda: any(run.is_running for run in list_running(filled_project)))
        os.kill(page.process, signal.SIGKILL)
        with serve_project(filled_project) as other:
            assert "bench elsewhere" in other.ask("/live").text
            child.kill()
            child.wait()
            wait_for(lambda: "killed" in other.ask("/live").text)


_PUBLISHES = """
import sys, time
from pathlib import Path
from kernelkb.progress import report_progress
from kernelkb.record.running import publish_progress
with publish_progress(Path(sys.argv[1]), "bench elsewhere"):
    report_progress("check naive")
    time.sleep(600)
"""


def test_a_server_that_is_ended_ends_its_streams_and_says_nothing(project):
    with serve_project(project) as page, page.open_stream() as stream:
        page.child.send_signal(signal.SIGINT)
        stream.read()
        said = page.child.stdout.read()

    assert said == ""
