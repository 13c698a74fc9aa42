"""Texts of the program use the field's words."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPLACEMENTS = {
    r"nobody|somebody|whoever": "name who or what, or use the passive voice",
    r"mend(s|ed|ing)?": "fix, repair",
    r"woke|asleep": "triggered, idle",
}
"""Words that earlier texts used as metaphors, and what to write instead."""


def iter_texts(path):
    """Yield the line number and text of every string and docstring of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def find_words(folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, text in iter_texts(path):
                for words, instead in REPLACEMENTS.items():
                    if found := re.search(rf"\b({words})\b", text, re.IGNORECASE):
                        yield f"{path.relative_to(ROOT)}:{line}: {found[0]}: {instead}"


def test_texts_use_no_metaphors():
    assert list(find_words(["engine", "mcp_server"])) == []


def test_a_metaphor_is_found(tmp_path, monkeypatch):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "a.py").write_text('"""Whom the limit woke; nobody knows."""\n')
    monkeypatch.setitem(globals(), "ROOT", tmp_path)

    assert len(list(find_words(["engine"]))) == 2


def test_every_module_begins_with_a_sentence():
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "mcp_server").rglob("*.py")]:
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
        assert len(first.split()) > 3, path
        assert first.endswith((".", ":")), path
        assert "→" not in first, path


def test_no_class_name_is_used_twice():
    places = defaultdict(list)
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "mcp_server").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.name)

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
