"""Start-up stays cheap, decisions stay pure, and stdout stays free for the MCP protocol."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY_MODULES = frozenset(
    {
        "torch",
        "numpy",
        "mcp",
        "rich",
        "networkx",
        "pydantic",
        "yaml",
        "sqlalchemy",
        "jinja2",
    }
)
LIGHT_COMMANDS = [
    ["recommend", "--speedup", "0.3", "--occupancy", "0.4"],
    ["occupancy", "--gpu", "l4", "--threads", "256", "--registers", "96"],
    ["roofline", "--gpu", "l4", "--bytes", "1GiB"],
]

# A package that is not installed never reaches sys.modules, so the recorder also notes what the
# code looked for: a guarded `try: import numpy` counts, here and on a machine without numpy.
RECORDER_PROGRAM = """
import json, sys

class Recorder:
    sought = set()
    def find_spec(self, name, path=None, target=None):
        self.sought.add(name.partition(".")[0])

sys.meta_path.insert(0, Recorder())
code = None
{body}
seen = Recorder.sought | {{name.partition(".")[0] for name in sys.modules}}
with open(sys.argv[1], "w") as report:
    json.dump({{"code": code, "seen": sorted(seen)}}, report)
"""


def run_child(body, folder):
    """Run ``body`` in a fresh interpreter in ``folder``; return its code and what it imported."""
    report = folder / "report.json"
    outcome = subprocess.run(
        [sys.executable, "-c", RECORDER_PROGRAM.format(body=body), str(report)],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(report.read_text("utf-8"))


def list_loaded_modules(body, folder):
    return set(run_child(body, folder)["seen"])


def list_sources(*parts):
    """Return every module of the named packages, whether each is one file or a folder of them."""
    found = []
    for part in parts:
        module = ROOT / f"{part}.py"
        found += [module] if module.is_file() else (ROOT / part).rglob("*.py")
    assert found, "no modules found: this test would pass without looking at anything"
    return sorted(path for path in found if "_data" not in path.parts)


def iter_calls(path):
    """Yield the line and the dotted name of every call in a module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def iter_imports(path):
    """Yield the line and the top-level name of every import in a module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, (node.module or "").partition(".")[0]


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("kernelkb.cli", HEAVY_MODULES),
        ("kernelkb.decide", HEAVY_MODULES),
        ("kernelkb.device_math", HEAVY_MODULES),
        ("kernelkb_mcp.server", frozenset({"torch", "numpy", "networkx"})),
    ],
)
def test_import_loads_nothing_heavy(module, heavy, tmp_path):
    unwanted = heavy & list_loaded_modules(f"import {module}", tmp_path)

    assert not unwanted


@pytest.mark.parametrize("words", LIGHT_COMMANDS, ids=lambda words: words[0])
def test_a_second_answer_loads_nothing_heavy(words, tmp_path):
    """The first call fills the cache with the decision program; from then on it is enough."""
    body = f"from kernelkb.cli import main; code = main({words!r})"
    run_child(body, tmp_path)
    second = run_child(body, tmp_path)
    unwanted = HEAVY_MODULES & set(second["seen"])

    assert second["code"] in (0, 1), "2 means that it could not run"
    assert not unwanted


def test_the_recorder_notices_a_guarded_import(tmp_path):
    body = "try:\n    import torch_that_nobody_has\nexcept ImportError:\n    pass"

    assert "torch_that_nobody_has" in list_loaded_modules(body, tmp_path)


def test_one_module_writes_drafts_of_files():
    """A file that is renamed into place is synced first, and none is left on an error."""
    writers = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in list_sources("engine", "mcp_server")
        for line, name in iter_calls(path)
        if name.rpartition(".")[2] in ("mkstemp", "NamedTemporaryFile")
    ]

    assert [one.partition(":")[0] for one in writers] == ["engine/kernelkb/safety/files.py"]


def test_nothing_prints():
    """Over stdio, stdout carries the MCP protocol: one stray line breaks the session."""
    printing = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in list_sources("engine", "mcp_server")
        for line, name in iter_calls(path)
        if name == "print"
    ]

    assert not printing


def test_decisions_touch_nothing_outside_their_arguments():
    """Import-linter forbids the imports; this also sees builtins, and needs no installed tool."""
    modules = {"datetime", "io", "os", "pathlib", "random", "subprocess", "sys", "tempfile", "time"}
    builtins = {"open", "print", "input", "exec", "eval", "compile", "__import__"}
    impure = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in list_sources("engine/kernelkb/decide", "engine/kernelkb/device_math")
        for names, forbidden in ((iter_imports(path), modules), (iter_calls(path), builtins))
        for line, name in names
        if name in forbidden
    ]

    assert not impure


def test_kernels_is_data_and_not_a_package():
    """Another distribution owns the import name ``kernels``; an ``__init__.py`` would shadow it."""
    assert any((ROOT / "kernels").glob("*/kernel.yaml"))
    assert not list((ROOT / "kernels").rglob("__init__.py"))
