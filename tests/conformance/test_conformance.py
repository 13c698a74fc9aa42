"""Official suites and clients agree with the server, wherever they can be had."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from install_suite import SuiteNotInstallableError, install_node
from official_suite import ScenarioChecks, summarize_checks

HERE = Path(__file__).parent


@pytest.mark.slow
def test_the_conformance_suite_and_official_clients_pass():
    try:
        install_node()
    except SuiteNotInstallableError as error:
        pytest.skip(str(error))
    run = [sys.executable, str(HERE / "run.py")]
    done = subprocess.run(run, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failing_check_without_a_reason_fails_the_run():
    found = [ScenarioChecks("ping", ("a",), {"b": "no answer"})]

    assert summarize_checks("suite", found, {}).failures == ("ping: b: no answer",)


def test_a_failing_check_with_a_reason_is_left_out():
    found = [ScenarioChecks("ping", ("a",), {"b": "no answer"})]

    assert summarize_checks("suite", found, {"ping:b": "deprecated"}) == ("suite", 1, 1, ())


def test_a_stale_exclusion_fails_the_run():
    found = [ScenarioChecks("ping", ("a",), {})]

    assert "ping passes" in summarize_checks("suite", found, {"ping": "deprecated"}).failures[0]


def test_a_run_of_nothing_fails():
    assert summarize_checks("suite", [], {}).failures == ("no scenario ran",)


def test_the_lockfile_names_no_registry():
    locked = (HERE / "package-lock.json").read_text()

    assert '"resolved"' not in locked
    assert "registry" not in locked


def test_a_missing_npm_is_reported(tmp_path):
    words = [sys.executable, str(HERE / "run.py")]
    done = subprocess.run(
        words, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True
    )

    assert done.returncode == 2
    assert "npm is not on PATH" in done.stderr
