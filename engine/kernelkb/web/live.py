"""What runs now: builds, checks, benches, searches, started from anywhere; as it goes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, KbError
from kernelkb.loading.kernels import find_kernel_folders, load_kernel
from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult, TuningTrial
from kernelkb.model.records.history import Measurement
from kernelkb.record.measurements.store import open_store
from kernelkb.record.running import (
    KEPT_FILES,
    RunningCommand,
    list_running,
    running_folder,
    stamp_files,
)
from kernelkb.record.tuning_journal import read_journal
from kernelkb.render.html.charts import IntervalPicture, place_convergence, place_intervals
from kernelkb.web.site import Site, WebPage

COMMANDS = ("triage", "bench", "build", "profile", "tune")
"""What the page starts."""
_MAX_SHOWN = 12
_MAX_SEARCHES = 3
_RECENT_S = 1800.0
"""A search without a trial for as long is not shown."""
_SAMPLED = ("sm_mhz", "sm_max_mhz", "temperature_c", "power_w")
_POLL_S = 1.0
_BEAT_S = 15.0
"""A stream without news says so after this, so that a closed browser is noticed."""
END = threading.Event()
"""Set as the server ends, so that open streams do."""
_STARTED: list[subprocess.Popen[bytes]] = []


class RunRow(NamedTuple):
    """One step of a command, as the page shows it."""

    text: str
    look: str
    """``ok``, ``warning``, ``failure``, ``now``, ``waiting`` or ``notice``."""
    found: str = ""
    seconds: float | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    baseline: str = ""

    @property
    def picture(self) -> IntervalPicture:
        """Where the interval lies on an axis that shows 1; only with one."""
        low, high = self.interval or (1.0, 1.0)
        shown = ConfirmedConfiguration.model_construct(low=low, high=high, gain=self.speedup or low)
        return place_intervals([shown])[0]


class RunView(NamedTuple):
    """A command with its steps."""

    run: RunningCommand
    rows: tuple[RunRow, ...]
    state: str
    """``running``, ``done``, ``ended`` or ``killed``."""
    seconds: float
    gpu: Mapping[str, Any] | None
    """Clocks, power and temperature as they were sampled last; None where no GPU was timed."""
    incumbent: Measurement | None
    """The fastest valid time of this kernel from before."""


def show_live(_: Mapping[str, str]) -> WebPage:
    """Return what runs, and what ran lately."""
    values = {**collect_runs(), "commands": COMMANDS, "kernels": _list_kernels()}
    return WebPage("live.html", "Live", "live", values)


def collect_runs() -> dict[str, Any]:
    """Return what the template of the runs shows."""
    project = get_project_path()
    runs = []
    for run in list_running(project, _MAX_SHOWN):
        with suppress(TypeError, ValueError, LookupError):  # its file holds nonsense
            runs.append(_view(run, project))
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


def _view(run: RunningCommand, project: Path) -> RunView:
    rows: list[RunRow] = []
    judge, gpu = "", None
    for event in run.events:
        kind, text = event.get("kind"), str(event.get("text", ""))
        if kind == "judge":
            judge = str(event.get("folder", ""))
        elif kind == "gpu":
            gpu = {"text": "", **event, **{name: float(event[name]) for name in _SAMPLED}}
        elif kind == "result":
            name = " ".join(str(event[k]) for k in ("name", "variant") if event.get(k))
            rows = [row for row in rows if not (row.look == "now" and row.text == name)]
            rows.append(_make_result(name, event, text))
        else:
            rows = _add_event(rows, RunRow(text, {"step": "now"}.get(str(kind), str(kind))))
    if not run.is_running:
        rows = [row for row in rows if row.look not in ("now", "waiting")]
    elif judge:
        rows += _read_judge(judge)
    state = "ended" if run.end else "killed"
    state = "running" if run.is_running else "done" if run.end == "done" else state
    seconds = (time.time() if run.is_running else run.told) - run.begun
    incumbent = _find_incumbent(run.what, run.begun, project) if state != "killed" else None
    return RunView(run, tuple(rows), state, max(seconds, 0.0), gpu, incumbent)


def _add_event(rows: list[RunRow], new: RunRow) -> list[RunRow]:
    """Return the rows with what is done now at the end; a step goes on when its wait is over."""
    if new.look == "notice":
        return [*rows, new]
    kept = [row for row in rows if row.look != "waiting"]
    if new.look == "now":
        was_waiting = len(kept) < len(rows) and kept and kept[-1].look == "now"
        kept = [row for row in kept if row.look != "now" or was_waiting]
        return kept if was_waiting else [*kept, new]
    return [*kept, new]


def _make_result(name: str, event: dict[str, Any], text: str) -> RunRow:
    bounds, speedup = event.get("interval"), event.get("speedup")
    pair = (float(bounds[0]), float(bounds[1])) if bounds and len(bounds) == 2 else None
    told = str(event.get("baseline") or "its baseline") if pair else ""
    seconds, status = float(event.get("seconds") or 0.0), str(event.get("status", "ok"))
    return RunRow(name, status, text, seconds, speedup, pair, told)


def _read_judge(folder: str) -> list[RunRow]:
    """Return what the judge wrote last: which runner runs, and what the pairs say so far."""
    try:
        text = (Path(folder) / "progress").read_text(encoding="utf-8")[:400]
    except (OSError, ValueError):
        return []
    step, count, so_far, *_ = *text.split("\n"), "", ""
    if not step:
        return []  # it is being written
    done = f"{count} pairs or workloads done" if count.isdecimal() and count != "0" else ""
    speedup, low, high, *rival = *so_far.split(), "", "", ""
    with suppress(ValueError):  # no interval yet
        pair, told = (float(low), float(high)), f"{' '.join(rival).strip()}, so far"
        return [RunRow(f"runs: {step}", "now", done, None, float(speedup), pair, told)]
    return [RunRow(f"runs: {step}", "now", done)]


@lru_cache(maxsize=64)
def _find_incumbent(what: str, begun: float, project: Path) -> Measurement | None:
    """Return the best time of a kernel before a command began; it is looked for once."""
    words = what.split()
    if len(words) < 2 or words[0] not in COMMANDS:
        return None
    with suppress(KbError), open_store(project, writes=False) as store:
        before = [one for one in store.best(words[1]) if one.at.timestamp() < begun]
        return max(before, key=lambda one: one.at, default=None)
    return None


def _list_searches(project: Path) -> list[dict[str, Any]]:
    """Return the searches of configurations that go on, each with its trials so far."""
    now, views = time.time(), []
    folder = project / ".kb" / "tuning"
    for name, _, at in sorted(stamp_files(folder), key=lambda one: -one[2])[:_MAX_SEARCHES]:
        if name.endswith(".jsonl") and now - at < _RECENT_S:
            with suppress(KbError):
                views.append(_view_search(Path(name).stem, read_journal(folder / name)))
    return views


def _view_search(title: str, trials: list[TuningTrial]) -> dict[str, Any]:
    so_far = TuningResult.model_construct(trials=tuple(trials))
    timed = [one for one in trials if one.time_us]
    rejected = Counter(one.status for one in trials if one.status != "timed")
    return {
        "title": title,
        "trials": len(trials),
        "best": min(timed, key=lambda one: one.time_us or 0.0, default=None),
        "rejected": rejected.most_common(),
        "why": [one.detail for one in trials if one.detail and not one.time_us][-1:],
        "charts": list(place_convergence(so_far))[:1],
    }


async def stream_runs(site: Site, render: Callable[[Site], str]) -> AsyncIterator[str]:
    """Yield the runs as server-sent events, whenever a running command wrote something.

    It looks at the sizes of some files, and at what the judge says of itself, every second; at
    nothing of the device.
    """
    seen, last = None, 0.0
    while not END.is_set():
        project = get_project_path()
        stamp = await asyncio.to_thread(_stamp, project)
        if stamp != seen:
            html = await asyncio.to_thread(render, site)
            data = "\n".join(f"data: {line}" for line in html.splitlines())
            yield f"event: runs\n{data}\n\n"
            seen, last = stamp, time.monotonic()
        elif time.monotonic() - last > _BEAT_S:
            yield ": still here\n\n"
            last = time.monotonic()
        await asyncio.sleep(_POLL_S)


def _stamp(project: Path) -> tuple[Any, ...]:
    """Return what changes whenever there is something new to show."""
    judges = [
        _read_judge(str(event.get("folder", "")))
        for run in list_running(project, 3)
        if run.is_running
        for event in run.events
        if event.get("kind") == "judge"
    ]
    folders = running_folder(project), project / ".kb" / "tuning"
    return *map(stamp_files, folders), judges[-1:]


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
    words = [command, kernel, *(["--variant", variant] if variant else [])]
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
    runs = list_running(get_project_path(), KEPT_FILES)
    run = next((one for one in runs if one.id == name), None)
    if run is None or not run.is_running or not run.can_stop or run.process <= 1:
        raise BadValueError("it does not run any more")
    try:
        os.kill(run.process, signal.SIGTERM)
    except OSError as error:
        raise BadValueError(f"it cannot be stopped: {error.strerror}") from error
