"""An answer is whole when it is made: who wants another one makes a new one."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "engine" / "kernelkb"
ANSWER_TYPES = sorted((ENGINE / "model" / "answers").glob("*.py"))
READERS = [
    *sorted((ENGINE / "decide").rglob("*.py")),
    *sorted((ENGINE / "actions" / "advice").rglob("*.py")),
    *sorted((ENGINE / "actions" / "comparison").rglob("*.py")),
    *sorted((ENGINE / "render").rglob("*.py")),
    *sorted((ROOT / "mcp_server" / "kernelkb_mcp" / "views").rglob("*.py")),
]
"""Where answers are made and read."""
MUTATORS = {
    "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault",
    "sort", "update",
}  # fmt: skip


def list_answer_keys():
    trees = [ast.parse(path.read_text("utf-8")) for path in ANSWER_TYPES]
    return {
        field.target.id
        for tree in trees
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef) and "TypedDict" in ast.unparse(tree)
        for field in one.body
        if isinstance(field, ast.AnnAssign)
    }


KEYS = list_answer_keys()


def find_changes(source):
    """Yield each line that changes an answer which it did not make itself."""
    tree = ast.parse(source)
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    inner = {id(n): f for f in functions for n in ast.walk(f)}  # the innermost comes last
    for node in ast.walk(tree):
        for changed in list_changed_parts(node):
            if is_answer_part(changed) and not is_own(changed, inner.get(id(node))):
                yield node.lineno, ast.unparse(node)


def list_changed_parts(node):
    """Return the parts of values that a statement or a call changes in place."""
    if isinstance(node, ast.Assign | ast.Delete):
        return node.targets
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return [node.func.value] if node.func.attr in MUTATORS else []
    return []


def is_answer_part(changed):
    return any(
        isinstance(one, ast.Subscript)
        and isinstance(one.slice, ast.Constant)
        and one.slice.value in KEYS
        for one in iter_chain(changed)
    )


def iter_chain(part):
    """Yield ``a["x"][0]``, ``a["x"]`` and ``a`` of the first of them."""
    while isinstance(part, ast.Subscript | ast.Attribute):
        yield part
        part = part.value
    yield part


def is_own(changed, function):
    """Return whether the function made the value, or it holds metrics, whose names are no keys."""
    *_, base = iter_chain(changed)
    if not isinstance(base, ast.Name) or function is None:
        return False
    arguments = [*function.args.args, *function.args.kwonlyargs]
    typed = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}
    if typed.get(base.id) == "dict[str, float]":
        return True
    values = [
        one.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign | ast.AnnAssign)
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Name) and target.id == base.id
    ]
    return bool(values) and all(makes_new(value) for value in values)


def makes_new(value):
    """Return whether an expression makes a dictionary of its own."""
    if isinstance(value, ast.Dict | ast.DictComp):
        return True
    is_dump = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    return is_dump and value.func.attr == "model_dump"


def test_no_answer_is_changed_after_it_was_made():
    changes = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in READERS
        for line, text in find_changes(path.read_text("utf-8"))
    ]

    assert not changes


def test_the_keys_are_those_of_answers():
    assert {"diagnoses", "confidence", "fixes", "predicted_speedup", "next", "gate"} <= KEYS


@pytest.mark.parametrize(
    "planted",
    [
        'def f(match):\n    match.diagnosis["confidence"] = 0.5',
        'def f(answer):\n    answer["next"] += [1]',
        'def f(answer):\n    answer["diagnoses"][0]["fixes"].append(1)',
        'def f(answer):\n    answer["fixes"][:] = []',
        'def f(answer):\n    del answer["gate"]',
        'def f(rows):\n    row = rows[0]\n    row["fixes"] = []',
        'def f(advice):\n    other = advice.copy()\n    other["predicted_speedup"] = None',
    ],
)
def test_a_planted_change_is_found(planted):
    assert list(find_changes(planted))


@pytest.mark.parametrize(
    "honest",
    [
        'def f(answer):\n    return {**answer, "next": []}',
        'def f():\n    made = {}\n    made["next"] = []\n    return made',
        'def f(known: dict[str, float]):\n    known["floor_us"] = 1.0',
    ],
)
def test_what_makes_a_new_answer_is_not_accused(honest):
    assert not list(find_changes(honest))
