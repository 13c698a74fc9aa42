"""No program reads our own sentences back: what another part needs to know is a field.

A message may be worded better at any time, and code that looks into its words would change its
behaviour with it.
"""

import ast
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("engine", "mcp_server", "benchmarks")

PROSE_FIELDS = {
    "because", "cure", "detail", "effect", "error", "evidence", "falsifier", "found", "gap",
    "message", "next", "notes", "reason", "rejected", "summary", "unmeasured", "unrecorded",
    "warnings", "went_right", "went_wrong", "why",
}  # fmt: skip
"""Attributes and keys that hold sentences of ours."""
PROSE_NAMES = {"because", "cure", "detail", "falsifier", "reason", "warning", "warnings", "why"}
"""Variables that hold them."""

OUR_ERRORS = {
    item.name
    for item in ast.parse((ROOT / "engine/kernelkb/errors.py").read_text()).body
    if isinstance(item, ast.ClassDef)
}

TEXT_METHODS = {
    "count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "rfind",
    "rindex", "rpartition", "rsplit", "split", "splitlines", "startswith",
}  # fmt: skip
PATTERN_METHODS = {"findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"}

ALLOWED = {
    ("engine/kernelkb/cli/__init__.py", "main"): "prints each line of an error",
}
"""Functions, each with its reason."""


def is_prose(node, names):
    """Return whether an expression is a sentence of ours, or a list of them."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return node.attr in PROSE_FIELDS
    if isinstance(node, ast.Subscript):
        key = node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return key.value in PROSE_FIELDS
        return is_prose(node.value, names)
    if isinstance(node, ast.BoolOp):
        return any(is_prose(value, names) for value in node.values)
    if isinstance(node, ast.IfExp):
        return is_prose(node.body, names) or is_prose(node.orelse, names)
    if isinstance(node, ast.Call):
        return is_prose_call(node, names)
    return False


def is_prose_call(node, names):
    if isinstance(node.func, ast.Attribute):
        if node.func.attr == "get" and node.args and isinstance(node.args[0], ast.Constant):
            return node.args[0].value in PROSE_FIELDS
        if node.func.attr in TEXT_METHODS | {"lower", "strip", "rstrip", "lstrip"}:
            return is_prose(node.func.value, names)
    if isinstance(node.func, ast.Name) and node.func.id in ("str", "next", "list", "tuple"):
        return any(is_prose(argument, names) for argument in node.args)
    return False


def find_prose_names(function):
    """Return the variables of a function that hold prose: by name, or by what they are bound to."""
    names = set(PROSE_NAMES)
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name and catches_our_error(node.type):
            names.add(node.name)
    for _ in range(3):  # a name may be bound to another one
        for node in ast.walk(function):
            for target, value in iter_bindings(node):
                if isinstance(target, ast.Name) and is_prose(value, names):
                    names.add(target.id)
    return names


def catches_our_error(node):
    """Return whether an except clause names an error of ours alone; others have foreign text."""
    caught = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(one, ast.Name) and one.id in OUR_ERRORS for one in caught)


def iter_bindings(node):
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.comprehension):
        yield node.target, node.iter


def reads_prose(node, names):
    """Return whether an expression decides or cuts by the words of a sentence of ours."""
    if isinstance(node, ast.Compare):
        tests = zip(node.ops, node.comparators, strict=True)
        return any(
            isinstance(op, ast.In | ast.NotIn) and is_text(node.left) and is_prose(right, names)
            for op, right in tests
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    on_itself = node.func.attr in TEXT_METHODS and is_prose(node.func.value, names)
    by_pattern = node.func.attr in PATTERN_METHODS and any(
        is_prose(argument, names) for argument in node.args
    )
    return on_itself or by_pattern


def is_text(node):
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def find_readers(text):
    """Return ``(function, line)`` of each place that reads a sentence back."""
    found = set()
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        names = find_prose_names(function)
        found |= {
            (node.lineno, function.name) for node in ast.walk(function) if reads_prose(node, names)
        }
    return sorted(found)


def list_sources():
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def test_no_program_reads_our_own_sentences():
    readers = [
        f"{name}:{line} in {function}()"
        for path in list_sources()
        for name in [path.relative_to(ROOT).as_posix()]
        for line, function in find_readers(path.read_text())
        if (name, function) not in ALLOWED
    ]

    assert not readers, "add a field for what is read here:\n" + "\n".join(readers)


@pytest.mark.parametrize(
    "line",
    [
        "return row.detail.startswith('it ended')",
        "return any(text.startswith(BUSY) for text in bench.warnings)",
        "return (decision.falsifier or '').partition(':')[0]",
        "return re.search('kb show', str(error))",
        "return _SENTENCE.match(step.found)",
        "return 'ended the process with status' in detail",
        "gap, cure = raw['error'].split('; ', 1)",
        "return [w for w in bench.warnings if w.endswith('cool')]",
        "text = check.detail; return text.strip().removeprefix('x')",
        "return check['cases'][0].get('detail').find('x')",
        "return [step for step in answer['next'] if not step.startswith(CHANGE)]",
        "return any('change one thing' in text for text in kernel['next'])",
    ],
)
def test_reading_a_sentence_is_found(line):
    body = f"""
    def read(row, bench, decision, step, detail, raw, check):
        try:
            {line}
        except KbError as error:
            {line}
    """

    assert find_readers(textwrap.dedent(body))


@pytest.mark.parametrize(
    "line",
    [
        "return name.partition(':')[2]",
        "return re.search(pattern, output)",
        "return bench.disturbed_by in ('thermal', None)",
        "return symptom in check.warnings",
        "return row.detail == other.detail",
        "return f'{row.detail}; {row.cure}'",
    ],
)
def test_other_text_is_not_flagged(line):
    assert not find_readers(f"def read(*anything):\n    {line}\n")
