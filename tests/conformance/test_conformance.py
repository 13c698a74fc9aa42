"""Official suites and clients agree with the server, wherever they can be had."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from installing import NotInstallableError, installed
from official import Checks, judged

HERE = Path(__file__).parent


def test_what_outsiders_say():
    try:
        installed()
    except NotInstallableError as error:
        pytest.skip(str(error))
    run = [sys.executable, str(HERE / "run.py")]
    done = subprocess.run(run, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failing_check_without_a_reason_fails_the_run():
    found = [Checks("ping", ("a",), {"b": "no answer"})]

    assert judged("suite", found, {}).failures == ("ping: b: no answer",)


def test_a_failing_check_with_a_reason_is_left_out():
    found = [Checks("ping", ("a",), {"b": "no answer"})]

    assert judged("suite", found, {"ping:b": "deprecated"}) == ("suite", 1, 1, ())


def test_a_reason_for_what_passes_fails_the_run():
    found = [Checks("ping", ("a",), {})]

    assert "ping passes" in judged("suite", found, {"ping": "deprecated"}).failures[0]


def test_a_run_of_nothing_fails():
    assert judged("suite", [], {}).failures == ("no scenario ran",)


def test_the_locked_packages_come_from_wherever_npm_is_told():
    locked = (HERE / "package-lock.json").read_text()

    assert '"resolved"' not in locked
    assert "registry" not in locked


def test_without_npm_the_reason_is_said(tmp_path):
    words = [sys.executable, str(HERE / "run.py")]
    done = subprocess.run(
        words, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True
    )

    assert done.returncode == 2
    assert "npm is not on PATH" in done.stderr
