"""What runs now: builds, checks, benches, searches, started from anywhere; as it goes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, KbError
from kernelkb.loading.kernels import find_kernel_folders, load_kernel
from kernelkb.model.kernels.tuning import TuningResult, TuningTrial
from kernelkb.record.running import RunningCommand, find_running, list_running, stamp_running
from kernelkb.record.tuning_journal import read_journal
from kernelkb.render.html.charts import place_convergence
from kernelkb.web.site import Site, WebPage

COMMANDS = ("triage", "bench", "build", "profile", "tune")
"""What the page starts."""
_MAX_SHOWN = 12
_MAX_SEARCHES = 3
_RECENT_S = 1800.0
"""A search without a trial for as long is not shown."""
_POLL_S = 1.0
_JUDGE_S = 5.0
_BEAT_S = 15.0
"""A stream without news says so after this, so that a closed browser is noticed."""
_MAX_STREAM_S = 1800.0
"""A stream ends after this; the browser opens another one."""
_STARTED: list[subprocess.Popen[bytes]] = []


class RunRow(NamedTuple):
    """One step of a command, as the page shows it."""

    text: str
    look: str
    """``ok``, ``warning``, ``failure``, ``now``, ``waiting`` or ``notice``."""
    found: str
    seconds: float | None
    interval: tuple[float, float] | None
    speedup: float | None


class RunView(NamedTuple):
    """A command with its steps."""

    run: RunningCommand
    rows: tuple[RunRow, ...]
    state: str
    """``running``, ``done``, ``ended`` or ``killed``."""
    seconds: float
    judge: str
    """Where the judge stands; empty where none runs."""


class SearchView(NamedTuple):
    """A search of configurations, with its trials so far."""

    title: str
    trials: int
    best_us: float | None
    best: dict[str, int]
    rejected: dict[str, int]
    """Trials without a time, by reason."""
    charts: tuple[Any, ...]
    age_s: float
    """Since the last trial."""


def show_live(*, writes: bool = False) -> WebPage:
    """Return what runs, and what ran lately."""
    values = {**collect_runs(), "commands": COMMANDS if writes else (), "kernels": _list_kernels()}
    return WebPage("live.html", "Live", "live", values)


def collect_runs() -> dict[str, Any]:
    """Return what the template of the runs shows."""
    project = get_project_path()
    runs = [_view(run) for run in list_running(project, _MAX_SHOWN)]
    return {"runs": runs, "searches": _list_searches(project)}


def _list_kernels() -> list[tuple[str, list[str]]]:
    """Return the kernels of the project itself, each with its variants."""
    project = get_project_path()
    found = []
    for name, path in sorted(find_kernel_folders(project).items()):
        if path.is_relative_to(project):
            with suppress(KbError):
                variants = load_kernel(name, project).kernel.variants
                found.append((name, [one.id for one in variants]))
    return found


def _view(run: RunningCommand) -> RunView:
    rows: list[RunRow] = []
    judge = ""
    for event in run.events:
        kind, text = event.get("kind"), str(event.get("text", ""))
        if kind == "judge":
            judge = str(event.get("folder", ""))
        elif kind == "result":
            name = " ".join(str(event[k]) for k in ("name", "variant") if event.get(k))
            rows = [row for row in rows if not (row.look == "now" and row.text == name)]
            rows.append(_make_result(name, event, text))
        elif kind == "notice":
            rows.append(RunRow(text, "notice", "", None, None, None))
        elif rows and rows[-1].look in ("now", "waiting"):
            rows[-1] = RunRow(text, "waiting" if kind == "waiting" else "now", "", None, None, None)
        else:
            look = "waiting" if kind == "waiting" else "now"
            rows.append(RunRow(text, look, "", None, None, None))
    if not run.is_running:
        rows = [row for row in rows if row.look not in ("now", "waiting")]
    state = "running" if run.is_running else "done" if run.end == "done" else "ended"
    if not run.is_running and run.end is None:
        state = "killed"
    last = run.events[-1].get("at", run.begun) if run.events else run.begun
    seconds = (time.time() if run.is_running else float(last)) - run.begun
    said = _read_judge(judge) if run.is_running and judge else ""
    return RunView(run, tuple(rows), state, max(seconds, 0.0), said)


def _make_result(name: str, event: dict[str, Any], text: str) -> RunRow:
    interval, speedup = event.get("interval"), event.get("speedup")
    pair = interval if isinstance(interval, list) and len(interval) == 2 else None
    return RunRow(
        name,
        str(event.get("status", "ok")),
        text,
        float(event.get("seconds") or 0.0),
        (float(pair[0]), float(pair[1])) if pair else None,
        float(speedup) if isinstance(speedup, int | float) else None,
    )


def _read_judge(folder: str) -> str:
    """Return what the judge itself wrote last: which runner runs, after how many pairs."""
    try:
        text = (Path(folder) / "progress").read_text(encoding="utf-8")[:400]
    except (OSError, ValueError):
        return ""
    step, _, count = text.partition("\n")
    return f"{step}, after {count.strip()} pairs or cases" if count.strip().isdecimal() else step


def _list_searches(project: Path) -> list[SearchView]:
    found = []
    now = time.time()
    for path in (project / ".kb" / "tuning").glob("*.jsonl"):
        with suppress(OSError):
            found.append((path.stat().st_mtime, path))
    recent = [(at, path) for at, path in sorted(found, reverse=True) if now - at < _RECENT_S]
    views = []
    for at, path in recent[:_MAX_SEARCHES]:
        with suppress(KbError):
            views.append(_view_search(path.stem, read_journal(path), now - at))
    return views


def _view_search(title: str, trials: list[TuningTrial], age_s: float) -> SearchView:
    timed = [one for one in trials if one.time_us]
    best = min(timed, key=lambda one: one.time_us or 0.0, default=None)
    rejected: dict[str, int] = {}
    for one in trials:
        if one.status != "timed":
            rejected[one.status] = rejected.get(one.status, 0) + 1
    return SearchView(
        title,
        len(trials),
        best.time_us if best else None,
        dict(best.configuration) if best else {},
        dict(sorted(rejected.items(), key=lambda pair: -pair[1])),
        tuple(place_convergence(_make_result_so_far(trials)))[:1],
        age_s,
    )


def _make_result_so_far(trials: list[TuningTrial]) -> TuningResult:
    return TuningResult(
        kernel="", variant="", target="cuda", workload="", device="",
        combination_count=0, feasible_count=0, trials=tuple(trials),
        seconds=0.0, device_s=0.0, journal="",
    )  # fmt: skip


async def stream_runs(site: Site, render: Callable[[Site], str]) -> AsyncIterator[str]:
    """Yield the runs as server-sent events, whenever a running command wrote something.

    It looks at the sizes of some files every second, and at nothing of the device. What the judge
    says of itself changes often and is looked at every five seconds only.
    """
    seen, begun, last = None, time.monotonic(), 0.0
    judged, judge = 0.0, ""
    while time.monotonic() - begun < _MAX_STREAM_S:
        project = get_project_path()
        if time.monotonic() - judged > _JUDGE_S:
            judged, judge = time.monotonic(), await asyncio.to_thread(_find_judge, project)
        stamp = (stamp_running(project), await asyncio.to_thread(_stamp_searches, project), judge)
        if stamp != seen:
            html = await asyncio.to_thread(render, site)
            data = "\n".join(f"data: {line}" for line in html.splitlines())
            yield f"event: runs\n{data}\n\n"
            seen, last = stamp, time.monotonic()
        elif time.monotonic() - last > _BEAT_S:
            yield ": still here\n\n"
            last = time.monotonic()
        await asyncio.sleep(_POLL_S)


def _find_judge(project: Path) -> str:
    """Return what the judge of a running command says; empty where none runs."""
    for run in list_running(project, 3):
        folders = [one.get("folder") for one in run.events if one.get("kind") == "judge"]
        if run.is_running and folders:
            return _read_judge(str(folders[-1]))
    return ""


def _stamp_searches(project: Path) -> tuple[tuple[str, int], ...]:
    found = []
    with suppress(OSError), os.scandir(project / ".kb" / "tuning") as entries:
        found = [(one.name, one.stat().st_size) for one in entries]
    return tuple(sorted(found))


def start_command(command: str, kernel: str, variant: str) -> None:
    """Start a command on a kernel of the project, as the command line does.

    Raises:
        BadValueError: It is none of those that the page starts.
        UnknownNameError: There is no such kernel or variant.
    """
    if command not in COMMANDS:
        raise BadValueError(f"the page starts {', '.join(COMMANDS)}; not {command[:40]!r}")
    known = dict(_list_kernels())
    if kernel not in known:
        raise BadValueError(f"{kernel[:60]!r} is no kernel of this project")
    if variant and variant not in known[kernel]:
        raise BadValueError(f"{kernel} has no variant {variant[:60]!r}")
    words = [command, kernel, *(["--variant", variant] if variant and command != "triage" else [])]
    if variant and command == "triage":
        words += ["--variant", variant]
    program = "import sys; from kernelkb.cli import start; sys.exit(start())"
    _STARTED[:] = [one for one in _STARTED if one.poll() is None]
    _STARTED.append(
        subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=get_project_path(),
            start_new_session=True,  # it goes on where the page's server ends
        )
    )


def stop_command(name: str) -> None:
    """Ask a command of this project to end; it cleans up after itself.

    Raises:
        BadValueError: It does not run any more.
    """
    run = find_running(name, get_project_path())
    if run is None or not run.is_running or not run.can_stop or run.process <= 1:
        raise BadValueError("it does not run any more")
    try:
        os.kill(run.process, signal.SIGTERM)
    except OSError as error:
        raise BadValueError(f"it cannot be stopped: {error.strerror}") from error
