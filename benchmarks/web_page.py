"""The page of a large project: time to the first paint, and bytes, of each view in a Chromium.

    python benchmarks/web_page.py
    python benchmarks/web_page.py --measurements 1000 --attempts 1000 --sessions 50

The project is synthetic: 10,000 measurements and 10,000 attempts of ten kernels, 500 sessions.
Each view is loaded seven times in a new tab, all views in turns, so that a busy minute is not that
of one view alone. The first row is a page with nothing but the menu: what a browser on this machine
takes at least; the last column is how much longer a view takes. Needs playwright and a chromium on
PATH. Nothing is asserted: a busy machine is slow.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.model.records.history import ChangeOutcome, Measurement, SubjectRecord
from kernelkb.model.records.session import Session, SessionEntry, Step
from kernelkb.record.attempt_store import (
    create_attempt,
    create_event,
    digest_content,
    open_attempts,
)
from kernelkb.record.measurements.rows import create_measurement
from kernelkb.record.measurements.store import open_store
from kernelkb.record.sessions import create_session, set_open_session

START = datetime(2026, 1, 1, tzinfo=UTC)
KERNELS = tuple(f"kernel_{number}" for number in range(10))
TOKEN = "benchmark" * 4
REPEATS = 7
EMPTY = "/nothing"
VIEWS = (
    EMPTY, "/", "/decision", "/decision?speedup=0.3&occupancy=0.4", "/checklist", "/live",
    "/history", "/kernel/kernel_0", "/knowledge", "/knowledge/quickref", "/search?q=bank+conflicts",
    "/knowledge/bottlenecks/uncoalesced-global-access",
)  # fmt: skip


def main() -> None:
    """Fill a project, serve it, and print one row for each view."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measurements", type=int, default=10_000)
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        (project / "sessions").mkdir()
        _fill_measurements(project, options.measurements)
        _fill_attempts(project, options.attempts)
        _fill_sessions(project, options.sessions)
        _serve_and_time(project)


def _fill_measurements(project: Path, count: int) -> None:
    draw = random.Random(1)
    with open_store(project) as store:
        for first in range(0, count, 2000):
            store.add(_make_bench(draw, at) for at in range(first, min(first + 2000, count)))


def _make_bench(draw: random.Random, number: int) -> Measurement:
    kernel = KERNELS[number % len(KERNELS)]
    us = 50.0 * draw.uniform(0.4, 1.0)
    subject = SubjectRecord(
        kernel=kernel, variant=f"v{number % 7}", target="cpu", workload="medium",
        sources={"a.cpp": f"{number // 50}"}, device="A CPU", judge="1.0",
    )  # fmt: skip
    return create_measurement(
        "bench", START + timedelta(minutes=number), subject, verdict="faster", candidate_us=us,
        baseline="torch", baseline_us=50.0, speedup=50.0 / us, interval=(49.0 / us, 51.0 / us),
        timing="eager", samples=tuple((us, 50.0) for _ in range(21)),
    )  # fmt: skip


def _fill_attempts(project: Path, count: int) -> None:
    draw = random.Random(2)
    newest: dict[str, str] = {}
    attempts, events = [], []
    for number in range(count):
        kernel, at = KERNELS[number % len(KERNELS)], START + timedelta(minutes=number)
        content = f"{number}".encode()
        parent = newest.get(kernel)
        one = create_attempt(
            kernel=kernel, variant="v0", target="cpu", files={"a.cpp": digest_content(content)},
            at=at, parent=parent,
        )  # fmt: skip
        attempts.append(one)
        shared = {"attempt": one.id, "kernel": kernel, "origin": "here", "device": "A CPU",
                  "workload": "medium"}  # fmt: skip
        us = 50.0 * draw.uniform(0.4, 1.0)
        events.append(create_event(
            kind="bench", at=at, verdict="faster", candidate_us=us, seconds=2.0, **shared
        ))  # fmt: skip
        if parent:
            outcome = ChangeOutcome(
                parent=parent, fixes=("unroll-ilp",), result="faster", measured=1.1,
                interval=(1.05, 1.15),
            )  # fmt: skip
            events.append(create_event(kind="outcome", at=at, outcome=outcome, **shared))
        if number % 3:
            newest[kernel] = one.id
    with open_attempts(project) as store:
        store.add(attempts, events, [])


def _fill_sessions(project: Path, count: int) -> None:
    for number in range(count):
        day = START + timedelta(hours=12 * number)
        name = f"{day.date()}-{number:03d}"
        steps = tuple(
            Step(name=step, status="ok", found=f"{step} went well", seconds=3.0)
            for step in ("environment", "build", "check", "bench", "gate", "recommend")
        )
        entry = SessionEntry(session=name, at=day, goal="triage", by="triage", steps=steps)
        session = Session(
            session=name, opened=day, goal="softmax at twice torch", kernel=KERNELS[0],
            entries=(entry,),
        )  # fmt: skip
        create_session(session, project / "sessions")
        if number == count - 1:
            set_open_session(project, name)


def _serve_and_time(project: Path) -> None:
    program = "import sys; from kernelkb.cli import start; sys.exit(start())"
    with subprocess.Popen(
        [sys.executable, "-c", program, "web", "--no-browser", "--port", "0"],
        cwd=project,
        env={**os.environ, "KERNELKB_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            line = server.stdout.readline() if server.stdout else ""
            found = re.search(r"http://[^/]+", line)
            if found is None:
                raise SystemExit(f"the server did not start: {line}")
            time.sleep(15)  # it loads the knowledge meanwhile; a person opens the page later
            _time_views(found[0])
        finally:
            server.terminate()


def _time_views(url: str) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        found: dict[str, list[Load]] = {path: [] for path in VIEWS}
        for _ in range(REPEATS):
            for path in VIEWS:
                found[path].append(_load(browser, url, path))
        browser.close()
    _print_table(found)


class Load(NamedTuple):
    """What one load of a view took."""

    paint_ms: float
    server_ms: float
    """Until its last byte was there."""
    sizes: dict[str, float]


def _load(browser: Any, url: str, path: str) -> Load:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.goto(f"{url}/knowledge/stop-rules?token={TOKEN}")
    tab.goto(url + path)
    for _ in range(100):  # a busy machine paints late
        tab.wait_for_timeout(100)
        if _read_paint(tab) >= 0:
            break
    found = Load(_read_paint(tab), _read_wait(tab), _read_sizes(tab))
    context.close()
    return found


def _print_table(found: dict[str, list[Load]]) -> None:
    floor = statistics.median(one.paint_ms for one in found[EMPTY])
    print(
        f"{'view':50} {'median':>7} {'least':>6} {'server':>7} {'page':>7} {'script':>7}   ms to "
        "the first paint, of it the server; kB; ratio to an empty page"
    )
    for path, loads in found.items():
        paints, sizes = [one.paint_ms for one in loads], loads[-1].sizes
        middle, wait = statistics.median(paints), statistics.median(one.server_ms for one in loads)
        print(
            f"{path[:50]:50} {middle:7.0f} {min(paints):6.0f} {wait:7.0f} "
            f"{sizes['page'] / 1e3:7.1f} {sizes['script'] / 1e3:7.1f} {middle / floor:6.2f}"
        )


def _read_paint(tab: Any) -> float:
    script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
    return float(tab.evaluate(script))


def _read_wait(tab: Any) -> float:
    script = (
        "(it => it.responseEnd - it.requestStart)(performance.getEntriesByType('navigation')[0])"
    )
    return float(tab.evaluate(script))


def _read_sizes(tab: Any) -> dict[str, float]:
    script = """() => {
      const all = performance.getEntriesByType('resource');
      const scripts = all.filter(one => one.name.endsWith('.js'));
      return {
        page: performance.getEntriesByType('navigation')[0].decodedBodySize,
        script: scripts.reduce((sum, one) => sum + one.decodedBodySize, 0),
      };
    }"""
    return dict(tab.evaluate(script))


if __name__ == "__main__":
    main()
