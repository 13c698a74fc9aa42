"""Small functions, modules that are read at once, folders that are seen at once."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "engine"
MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 40


def list_modules():
    found = [*(ROOT / "engine").rglob("*.py"), *(ROOT / "mcp_server").rglob("*.py")]
    assert found, "no modules found: this test would pass without looking at anything"
    return sorted(path for path in found if "_data" not in path.parts)


def iter_functions(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def test_no_module_is_longer_than_600_lines():
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in list_modules()}
    too_long = [f"{p.relative_to(ROOT)}: {n}" for p, n in lengths.items() if n > MAX_MODULE_LINES]

    assert not too_long


def test_no_function_is_longer_than_40_lines():
    """Docstring and signature count: a reader scrolls past them too."""
    too_long = [
        f"{path.relative_to(ROOT)}:{line}: {name}: {length}"
        for path in list_modules()
        for name, line, length in iter_functions(path)
        if length > MAX_FUNCTION_LINES
    ]

    assert not too_long


MAX_FILES = 20


def test_no_folder_has_more_than_20_files():
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in list_modules())

    assert {folder: n for folder, n in counts.items() if n > MAX_FILES} == {}


def list_importers():
    """The modules of both packages, each with the files that import it, wherever in the file."""
    names = {}
    for path in list_modules():
        package = ROOT / path.relative_to(ROOT).parts[0]
        names[".".join(path.relative_to(package).with_suffix("").parts)] = path
    importers = {name: set() for name in names}
    for path in [*list_modules(), *(ROOT / "benchmarks").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                used = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                used = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            else:
                continue
            for name in used & importers.keys():
                importers[name].add(path)
    return {names[name]: found for name, found in importers.items()}


def is_named_above(path):
    """Whether the README of its folder, or of one above it, names a module."""
    above = [folder / "README.md" for folder in path.parents if ROOT in folder.parents]
    return any(f"{path.name}`" in file.read_text("utf-8") for file in above if file.exists())


def test_a_module_that_one_other_imports_is_named_in_a_readme():
    """It is an idea of its own, which a reader looks for; else it belongs into its importer."""
    alone = [
        path
        for path, importers in list_importers().items()
        if len(importers) == 1 and path.name != "__init__.py" and ENGINE in path.parents
    ]

    assert [str(path.relative_to(ROOT)) for path in alone if not is_named_above(path)] == []


MAX_PAGE_LINES = 3500
"""Of the page of a project: Python, templates, style and its two scripts."""


def list_page_files():
    engine = ENGINE / "kernelkb"
    return [
        *engine.glob("web/*.py"),
        *engine.glob("web/static/page.js"),
        *engine.glob("render/html/templates/web/*"),
        engine / "render" / "html" / "diagrams.py",
        engine / "record" / "running.py",
        ROOT / "mcp_server" / "kernelkb_mcp" / "calls" / "apps.py",
    ]


def test_the_page_is_small_without_packing():
    """No line of Python escapes the formatter, and a line of style holds one rule."""
    texts = {path.name: path.read_text("utf-8") for path in list_page_files()}

    assert sum(len(text.splitlines()) for text in texts.values()) <= MAX_PAGE_LINES
    assert [name for name, text in texts.items() if "fmt: skip" in text] == []
    assert [line for line in texts["style.css"].splitlines() if line.count("}") > 1] == []
