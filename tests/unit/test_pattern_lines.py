"""Each pattern of a symptom is shown by a line, so that none is there that no tool's text fits."""

import re
from pathlib import Path

import pytest
import yaml
from shipped_rules import program

from kernelkb.decide.symptoms import clean_log

DATA = Path(__file__).parents[1] / "data"
WHOLE = {"driver", "dynamo", "link", "nccl", "ptxas", "triton", "windows"}
"""Families of which each pattern of a message has its line."""

WITHOUT_A_LINE = 349
"""Patterns of the other families that no line shows yet, and of questions; it only falls."""

QUESTION = "(?i)"
"""How patterns begin that take a person's words and no tool's message."""


@pytest.fixture(scope="module")
def lines():
    rows = [r["log"] for p in DATA.glob("logs/*.yaml") for r in read(p)["messages"]]
    return "\n".join(clean_log(text).matched for text in [*rows, *read_lines()])


def read(path):
    return yaml.safe_load(path.read_text("utf-8"))


def read_lines():
    return read(DATA / "pattern_lines.yaml")["lines"]


def list_without(lines):
    """Return the family, symptom and pattern of what neither a line nor the example shows."""
    folder = Path(__file__).parents[2] / "knowledge" / "symptoms"
    return [
        (path.stem, row["id"], pattern)
        for path in sorted(folder.glob("*.yaml"))
        for row in read(path)["symptoms"]
        for pattern in row.get("log_patterns", ())
        if not re.search(pattern, f"{lines}\n{clean_log(row['example']).matched}", re.MULTILINE)
    ]


def test_each_pattern_of_whole_families_is_shown_and_the_others_grow_no_more(lines):
    without = list_without(lines)
    own = [row for row in without if row[0] in WHOLE and not row[2].startswith(QUESTION)]

    assert own == []
    assert len(without) <= WITHOUT_A_LINE, len(without)


def test_each_line_is_named():
    patterns = [p for row in program()["symptoms"] for p in row["log_patterns"]]

    texts = [clean_log(line).matched for line in read_lines()]
    assert [t for t in texts if not any(re.search(p, t, re.MULTILINE) for p in patterns)] == []
