"""The official conformance suite: everything with fixtures, and the product by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml
from install_suite import NODE_MODULES, build_environment
from server_processes import serve_with_added_token

SUITE_PROGRAM = NODE_MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REVISIONS = ("2025-11-25", "2026-07-28")
WITHOUT_FIXTURES = {
    "2025-11-25": (
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "completion-complete",
        "tools-list",
        "resources-list",
        "prompts-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "server-stateless",
        "completion-complete",
        "tools-list",
        "resources-list",
        "prompts-list",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    ),
}


class ResultRow(NamedTuple):
    """One line of the table."""

    title: str
    passed_count: int
    left_out_count: int
    failures: tuple[str, ...]


class ScenarioChecks(NamedTuple):
    """What one scenario found."""

    scenario: str
    passed: tuple[str, ...]
    failed: Mapping[str, str]


def run_scenarios(node: Path, project: Path) -> Iterator[ResultRow]:
    """Run every scenario; yield a row for each part."""
    reasons = yaml.safe_load((Path(__file__).parent / "left_out.yaml").read_text("utf-8"))
    with (
        serve_with_added_token(project, "--fixtures") as furnished,
        serve_with_added_token(project) as plain,
        ThreadPoolExecutor(3) as pool,
    ):
        whole = {
            revision: pool.submit(run_suite, node, furnished, "--requirements", revision)
            for revision in REVISIONS
        }
        single = {
            revision: [
                pool.submit(run_suite, node, plain, "--scenario", name, "--spec-version", revision)
                for name in names
            ]
            for revision, names in WITHOUT_FIXTURES.items()
        }
        for revision, run in whole.items():
            found = run.result()
            yield summarize_checks(
                f"suite {revision}, fixtures", found, reasons["fixtures"][revision]
            )
        for revision, runs in single.items():
            found = [checks for run in runs for checks in run.result()]
            yield summarize_checks(
                f"suite {revision}, product", found, reasons["product"][revision]
            )


def summarize_checks(
    title: str, found: list[ScenarioChecks], left_out: Mapping[str, str]
) -> ResultRow:
    """Sort what failed by whether it is left out on purpose; a stale reason is a failure."""
    excused: set[str] = set()
    failures = [] if found else ["no scenario ran"]
    for scenario, _, failed in found:
        for check, why in failed.items():
            name = next((n for n in (scenario, f"{scenario}:{check}") if n in left_out), None)
            if name is None:
                failures.append(f"{scenario}: {check}: {why}")
            else:
                excused.add(name)
    failures += [f"{n} passes: drop it from left_out.yaml" for n in left_out if n not in excused]
    return ResultRow(
        title, sum(len(checks.passed) for checks in found), len(excused), tuple(failures)
    )


def run_suite(node: Path, url: str, *options: str) -> list[ScenarioChecks]:
    """Run scenarios; the files that the suite writes say more than its output."""
    with tempfile.TemporaryDirectory() as folder:
        words = [str(node), str(SUITE_PROGRAM), "server", "--url", url, *options, "-o", folder]
        done = subprocess.run(
            words,
            env=os.environ | build_environment(node),
            capture_output=True,
            text=True,
            timeout=600,
        )
        found = [read_scenario(file) for file in sorted(Path(folder).glob("*/checks.json"))]
    return found or [ScenarioChecks(" ".join(options), (), {"no result": done.stderr[-300:]})]


def read_scenario(file: Path) -> ScenarioChecks:
    """Read one scenario's checks; the folder is named after it and the time."""
    name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
    passed, failed = [], {}
    for check in json.loads(file.read_text(encoding="utf-8")):
        if check["status"] == "SUCCESS":
            passed.append(check["id"])
        elif check["status"] == "FAILURE":
            failed[check["id"]] = " ".join((check.get("errorMessage") or "").split())[:300]
    return ScenarioChecks(name, tuple(passed), failed)
