"""The decision view: numbers or a report in; path through a tree, gate and causes out."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.advice.recommend import recommend_from_metrics
from kernelkb.actions.advice.report_page import collect_contents
from kernelkb.actions.knowledge.knowledge import (
    draw_picture,
    group_entries_by_kind,
    knowledge_digest,
    load_project_knowledge,
)
from kernelkb.errors import BadValueError, KbError, UnknownNameError
from kernelkb.render.documents.entries import describe_reason
from kernelkb.render.html.diagrams import place_picture
from kernelkb.render.html.report_page import (
    KernelSection,
    KernelView,
    list_kernel_functions,
    list_page_values,
    show_kernel,
)
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import cache_folder
from kernelkb.web.knowledge import link_entries
from kernelkb.web.site import WebPage

DEFAULT_TREE = "performance-gate"
_MAX_METRICS = 40
_MAX_TYPED = 60
_KEPT_REPORTS = 30
_REPORT_ID = re.compile(r"[0-9a-f]{24}")
_ENDING = re.compile(r"\.(ncu-rep|nsys-rep|qdrep|sqlite|csv|json|json\.gz|txt|log)$")


FIELDS = {
    "speedup": ("Speedup", "reference time / our time", (0.05, 3.0, 0.05)),
    "bandwidth": ("Bandwidth", "share of the peak, 0 to 1", (0.0, 1.0, 0.01)),
    "occupancy": ("Occupancy", "share, 0 to 1", (0.0, 1.0, 0.01)),
    "kernel-us": ("Duration", "microseconds", None),
}
"""The headline values, as the flags of ``kb recommend``, each with its title, its hint, and lowest,
highest and step of its slider where the values have a range."""


class TypedNumbers(NamedTuple):
    """What stands in the form."""

    tree: str
    headlines: dict[str, str]
    metrics: dict[str, str]
    gpu: str
    target: str
    problem: str = ""
    """Of what was typed; empty if all can be read."""

    @property
    def text(self) -> str:
        """Return the further metrics as they are typed, one in a line."""
        return "\n".join(f"{name}={value}" for name, value in self.metrics.items())


def read_numbers(query: Mapping[str, str]) -> TypedNumbers:
    """Return what a form or a link holds."""
    typed = {name: query.get(name, "").strip()[:_MAX_TYPED] for name in FIELDS}
    metrics, problem = {}, ""
    lines = [line.strip() for line in re.split(r"[\n;,]", query.get("metrics", ""))]
    for line in [line for line in lines if line][:_MAX_METRICS]:
        name, equals, value = line.partition("=")
        if not equals or not value.strip():
            problem = f"{line[:80]} has no value; write it as over_fetch=3.9"
        else:
            metrics[name.strip()[:120]] = value.strip()[:_MAX_TYPED]
    return TypedNumbers(
        tree=query.get("tree", DEFAULT_TREE)[:80],
        headlines={name: value for name, value in typed.items() if value},
        metrics=metrics,
        gpu=query.get("gpu", "").strip()[:120],
        target="cpu" if query.get("target") == "cpu" else "cuda",
        problem=problem,
    )


def show_decision(asked: Mapping[str, str]) -> WebPage:
    """Return a tree with the path that numbers take, the gate, the causes and their gains.

    Args:
        asked: ``tree``, the fields of ``FIELDS``, ``metrics`` (lines of name=value), ``gpu`` and
            ``target``; all may be absent.
    """
    typed = read_numbers(asked)
    knowledge = load_project_knowledge()
    trees = {tree.id: tree for tree in knowledge.trees}
    tree = trees.get(typed.tree, trees[DEFAULT_TREE])
    problem, kernel = typed.problem, None
    try:
        picture = draw_picture(
            tree.id,
            typed.metrics,
            typed.headlines,
            target=typed.target,
            gpu=typed.gpu or None,
            says_titles=True,
        )
        kernel = _answer(typed) if typed.headlines or typed.metrics else None
    except KbError as error:
        problem = str(error)
        picture = draw_picture(tree.id, {}, {}, says_titles=True)
    values = {
        "typed": typed,
        "fields": FIELDS,
        "trees": trees,
        "tree": tree,
        "diagram": place_picture(picture),
        "taken": {box["id"] for box in picture["nodes"] if box["taken"]},
        "kernel": kernel,
        "problem": problem,
        "gpus": group_entries_by_kind(knowledge)["devices"],
        **list_functions(),
    }
    return WebPage("decision.html", "Decision", "decision", values)


def list_functions() -> dict[str, Any]:
    """Return what the template of a kernel calls: causes and metrics by their titles."""
    titles = link_entries().titles
    metrics = {one.id: one for one in load_project_knowledge().catalogue.metrics}
    return {
        **list_kernel_functions(),
        "say": lambda name: titles.get(name, name),
        "compare": partial(describe_reason, metrics=metrics),
    }


def _answer(typed: TypedNumbers) -> KernelView:
    found = recommend_from_metrics(
        typed.metrics, headlines=typed.headlines, target=typed.target, gpu=typed.gpu or None
    )
    section = KernelSection(found["kernels"][0], 1, ("", ""), None, None)
    return show_kernel(0, section)._replace(name="These numbers")


def _reports_folder() -> Path:
    return Path(cache_folder()) / "web-reports"


def keep_report(content: bytes, name: str) -> str:
    """Keep what was dropped or pasted, and return its id; the oldest of more than 30 go.

    Args:
        content: A report, what a profiler printed, or a trace.
        name: Of the file; only its ending counts.

    Raises:
        BadValueError: It is empty, or cannot be kept.
    """
    if not content.strip():
        raise BadValueError("nothing was sent; drop a report, or paste what ncu printed")
    ending = _ENDING.search(name.lower())
    key = hashlib.sha256(content).hexdigest()[:24]
    folder = _reports_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / f"{key}{ending[0] if ending else '.txt'}", content)
        kept = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in kept[:-_KEPT_REPORTS]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise BadValueError(f"the report cannot be kept: {error.strerror}") from error
    return key


def find_report(key: str) -> Path:
    """Return the file of a report that was kept.

    Raises:
        UnknownNameError: It is not kept any more.
    """
    found = list(_reports_folder().glob(f"{key}.*")) if _REPORT_ID.fullmatch(key) else []
    if not found:
        raise UnknownNameError("report", key[:40], (), "report --help")
    return found[0]


def show_report(asked: Mapping[str, str]) -> WebPage:
    """Return the page of a report: its kernels, their time budgets, causes and sources.

    Args:
        asked: ``key``: of ``keep_report``; ``kernel``, a regular expression; ``gpu``.

    Raises:
        KbError: It is no report, or it is not kept any more.
    """
    key = asked["key"]
    path = find_report(key)
    pattern, gpu = asked.get("kernel", "")[:200] or None, asked.get("gpu", "")[:120] or None
    stamp = os.stat(path).st_mtime_ns  # noqa: PTH116
    values = _read_report(str(path), stamp, pattern, gpu, knowledge_digest())
    return WebPage(
        "report_view.html",
        "Report",
        "decision",
        {**values, "key": key, "pattern": pattern, "reports": _list_reports(key)},
    )


@lru_cache(maxsize=8)
def _read_report(
    path: str, _stamp: int, pattern: str | None, gpu: str | None, _digest: str
) -> dict[str, Any]:
    shown = list_page_values(collect_contents(path, kernel_pattern=pattern, gpu=gpu))
    return {**shown, **list_functions()}


def _list_reports(but: str) -> dict[str, datetime]:
    """Return when each other report was kept, by its id; the newest first."""
    kept = {one.name.partition(".")[0]: one.stat().st_mtime for one in _reports_folder().iterdir()}
    newest = sorted(kept.items(), key=lambda pair: -pair[1])
    return {key: datetime.fromtimestamp(at, UTC) for key, at in newest if key not in ("", but)}


def show_two_reports(asked: Mapping[str, str]) -> WebPage:
    """Return what changed from report ``a`` to report ``b``, and the causes of both.

    Raises:
        KbError: One is no report, or is not kept any more.
    """
    from kernelkb.actions.comparison.compare_reports import compare_reports
    from kernelkb.actions.project.profile_reports import choose_reports
    from kernelkb.render.text.comparisons import format_report_comparison

    keys = asked.get("a", ""), asked.get("b", "")
    paths = [find_report(key) for key in keys]
    chosen = choose_reports(*(str(path) for path in paths))
    if chosen is None:
        raise BadValueError("only .ncu-rep files, CSV pages and traces can be compared")
    lines = list(format_report_comparison(compare_reports(*chosen, None)))
    sides = [
        _read_report(str(path), path.stat().st_mtime_ns, None, None, knowledge_digest())
        for path in paths
    ]
    values = {"lines": lines, "sides": sides, "keys": keys, **list_functions()}
    return WebPage("two_reports.html", "Two reports", "decision", values)
