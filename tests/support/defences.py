"""The tables of attacks and measurement errors in docs/trusting-the-numbers.md, from the tests.

A test that holds a defence says so: ``@pytest.mark.defends("H1", attack=…, defence=…)``; a further
test of the same row repeats the number alone. ``python tests/support/defences.py`` writes the page.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "trusting-the-numbers.md"
TABLE = re.compile(r"(<!-- begin ([A-Z]): .*? -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)
HEADS = {"H": "attack", "P": "attack", "R": "attack", "M": "error"}


class Row(NamedTuple):
    """One row of a table."""

    number: str
    """A letter, which names the table, and a number: ``H1``."""
    attack: str
    defence: str
    tests: tuple[str, ...]
    """As the page shows them: file, test, and whether it needs a GPU."""


def _iter_marks(path: Path) -> Iterator[tuple[str, dict[str, str], str]]:
    statements = ast.parse(path.read_text("utf-8")).body
    whole_file = any(
        isinstance(node, ast.Assign)
        and "pytestmark" in ast.unparse(node)
        and ".gpu" in ast.unparse(node)
        for node in statements
    )
    for node in statements:
        if not isinstance(node, ast.FunctionDef):
            continue
        needs_gpu = whole_file or any(
            ast.unparse(one).endswith("mark.gpu") for one in node.decorator_list
        )
        name = f"`{path.relative_to(ROOT)}::{node.name}`" + (" (gpu)" if needs_gpu else "")
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.defends":
                texts = {word.arg: ast.literal_eval(word.value) for word in mark.keywords}
                yield ast.literal_eval(mark.args[0]), texts, name


def list_rows() -> list[Row]:
    """Return every row, by letter and number.

    Raises:
        ValueError: Two tests describe one row, or none does.
    """
    texts: dict[str, dict[str, str]] = {}
    tests: dict[str, list[str]] = {}
    for path in sorted(ROOT.glob("tests/*/test_*.py")):
        for number, found, name in _iter_marks(path):
            tests.setdefault(number, []).append(name)
            if found and texts.setdefault(number, found) is not found:
                raise ValueError(f"{number} is described twice")
    if tests.keys() != texts.keys():
        raise ValueError(f"not described: {sorted(tests.keys() - texts.keys())}")
    rows = [Row(number, **texts[number], tests=tuple(tests[number])) for number in tests]
    return sorted(rows, key=lambda row: (row.number[0], int(row.number[1:])))


def render_page(text: str) -> str:
    """Return the page with its tables made anew."""
    rows = list_rows()

    def render(match: re.Match[str]) -> str:
        letter = match[2]
        lines = [f"| | {HEADS[letter]} | defence | test |", "|---|---|---|---|"]
        lines += [
            f"| {row.number} | {row.attack} | {row.defence} | {', '.join(row.tests)} |"
            for row in rows
            if row.number.startswith(letter)
        ]
        return match[1] + "\n".join(lines) + "\n" + match[4]

    return TABLE.sub(render, text)


if __name__ == "__main__":
    PAGE.write_text(render_page(PAGE.read_text("utf-8")), "utf-8")
