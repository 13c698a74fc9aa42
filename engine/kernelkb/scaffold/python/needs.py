"""What a launcher needs that its file does not hold: a release of Triton, kernels, processes."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator

from kernelkb.scaffold.draft import Function, to_field_name
from kernelkb.scaffold.python.block_bounds import find_power
from kernelkb.scaffold.python.functions import iter_parts
from kernelkb.scaffold.python.indices import LENGTHS, STARTS
from kernelkb.scaffold.python.nodes import iter_checks, list_words, walk_own

_GONE = (
    (r"triton\.(?:ops|code_gen|impl)\b", "3.0"),
    (r"(?:tl|triton\.language)\.libdevice\b", "3.0"),
    (r"triton\.language\.math import libdevice\b", "3.0"),
    (r"tl\.(?:math|libdevice)\.(?:tanh|pow|sigmoid|erfinv|log1p|expm1|rint|round|atan2?)\b", "3.0"),
    (r"tl\.(?:any|all)_of\b|tl\.globaltimer\b", "3.0"),
    (r"tl\._experimental_(?:make_tensor_descriptor|descriptor_\w+)\b", "3.4"),
)
"""What is gone, and the release without it."""


_DISTRIBUTED = re.compile(r"\bdist\.\w+\(|torch\.distributed|symm_mem|SymmetricMemory|nvshmem")


def list_needs(function: Function, text: str) -> list[str]:
    """Return a sentence for each thing that a launcher needs, and that a draft cannot give it.

    Args:
        function: The launcher.
        text: What its file holds.
    """
    tree = ast.parse(text)
    warnings = list_gone(tree, function)
    defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    others = [each for each in function.launches if each.rpartition(".")[2] not in defined]
    bound = [ast.unparse(n.targets[0]) for n in tree.body if isinstance(n, ast.Assign)]
    if others and not {*others} & {*bound}:
        warnings.append(
            f"{', '.join(others)} of another file: what its blocks need of sizes was not read; "
            "check the sizes of the workloads"
        )
    warnings += [
        f"{kernel}: configurations of {names} were not read, and no mask keeps its blocks inside "
        "the arrays: check the sizes of the workloads"
        for kernel, names in function.unread
    ]
    warnings += _describe_parts(function)
    own = [n for n in ast.walk(tree) if getattr(n, "lineno", 0) == function.line]
    body = next((n for n in own if isinstance(n, ast.FunctionDef)), None)
    warnings += [*_list_unread(function, body), *_list_dropped(function, body)] if body else []
    if body and (used := _DISTRIBUTED.search(ast.unparse(body))):
        warnings.append(
            f"{function.name} uses {used[0].rstrip('(')}: it runs in several processes, a draft "
            "in one"
        )
    return warnings


def _list_dropped(function: Function, body: ast.FunctionDef) -> list[str]:
    """Return which of the things that a launcher returns are no outputs of its draft."""
    returned = [n.value for n in walk_own(body) if isinstance(n, ast.Return) and n.value]
    parts = dict(iter_parts(returned[-1])) if returned else {}
    taken = {p.value.removesuffix(".to_dense()") for p in function.parameters if p.type == "return"}
    texts = {ast.unparse(each) for pick, each in parts.items() if pick in taken}
    left = [ast.unparse(e) for e in parts.values() if not isinstance(e, ast.Constant)]
    left = [each for each in dict.fromkeys(left) if each not in texts]
    if not taken - {""} or not left:
        return []
    line = returned[-1].lineno
    return [f"line {line} returns {', '.join(left)}, too: taken as no arrays, and not checked"]


def _list_unread(function: Function, body: ast.FunctionDef) -> list[str]:
    """Return a sentence for each check of a size by a function that is not understood."""
    sizes = {dim for each in function.parameters for dim in each.shape}
    found = []
    for check, _ in iter_checks(body):
        known = {call for n in ast.walk(check) if find_power(n) for call in ast.walk(n)}
        for call in ast.walk(check):
            if not isinstance(call, ast.Call) or call in known:
                continue
            words = [w for each in call.args for w in re.findall(r"\w+", ast.unparse(each))]
            own = [word for word in dict.fromkeys(words) if word in sizes]
            found += _list_transposed(function, check, call)
            is_own = isinstance(call.func, ast.Name) and not hasattr(builtins, call.func.id)
            if is_own and own:
                found.append(
                    f"line {check.lineno}: assert {ast.unparse(check)}: what it needs of "
                    f"{', '.join(own)} was not read; check the sizes of the workloads"
                )
    return [*dict.fromkeys(found)]


def _list_transposed(function: Function, check: ast.expr, call: ast.Call) -> list[str]:
    """Return that a check wants a step of 1 along another axis than the last, which arrays have."""
    asked = re.fullmatch(r"(\w+)\.stride\((-?\d+)\)", ast.unparse(call))
    shapes = [p.shape for p in function.parameters if asked and p.name == asked[1] and p.shape]
    is_one = re.search(re.escape(ast.unparse(call)) + r" [!=]= 1\b", ast.unparse(check))
    if not asked or not is_one or not shapes or int(asked[2]) in (-1, len(shapes[0]) - 1):
        return []
    return [
        f"line {check.lineno}: {ast.unparse(check)}: a draft passes arrays whose last stride is 1; "
        f"pass a transposed view of {asked[1]} in launch.py"
    ]


def _describe_parts(function: Function) -> list[str]:
    """Return that arrays that bound parts of others, each drawn alone, may not fit each other."""
    arrays = [p for p in function.parameters if p.type == "tensor" and p.role == "input"]
    starts = [p.name for p in arrays if STARTS.search(to_field_name(p.name))]
    lengths = [p.name for p in arrays if LENGTHS.search(to_field_name(p.name))]
    sizes = [p.name for p in function.parameters]
    sizes += [dim for p in function.parameters for dim in p.shape]
    most = [name for name in sizes if _MOST.match(to_field_name(name))]
    lengths = [name for name in lengths if name not in starts]
    places = [p.name for p in arrays if any(p.asks_fill)]
    if (starts and lengths) or (most and (starts or lengths)):
        return [
            f"{', '.join([*starts, *lengths, *most[:1]])} are places or lengths of parts of "
            "arrays, each drawn alone: parts may overlap, be too long or end outside of their "
            "array; kb init --from records those of a run"
        ]
    if len(places) > 1:
        return [
            f"{', '.join(places)} are places in other arrays, each drawn alone: they may not fit "
            "each other; kb init --from records those of a run"
        ]
    return []


_MOST = re.compile(r"max_?\w*len")
"""A name of the most elements that a part has."""


def list_gone(tree: ast.Module, function: Function) -> list[str]:
    """Return a sentence for each part of Triton that a launcher needs and new releases do not have.

    Args:
        tree: Of its file.
        function: The launcher.
    """
    defined = {n.name: n for n in ast.walk(tree) if isinstance(n, _Definition)}
    reached, found = {function.name, *function.launches}, dict[str, str]()
    for _ in range(_MAX_CALLS):
        inner = (w for name in reached & defined.keys() for w in list_words(defined[name]))
        reached |= {*inner} & defined.keys()
    for node in _iter_run(tree, reached):
        for used in _list_used(node):
            for pattern, release in _GONE:
                if match := re.match(pattern, used):
                    line = getattr(node, "lineno", 0)
                    found.setdefault(match[0], f"{match[0]} (line {line}) is gone since {release}")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.kwarg and _is_kernel(node):
            words = f"**{node.args.kwarg.arg} of {node.name} (line {node.lineno})"
            found[words] = f"{words} is of Triton 1: since 2.0 a kernel names its constants"
    return [f"Triton: {each}, so the file fails with a newer release" for each in found.values()]


_MAX_CALLS = 4
_Definition = ast.FunctionDef | ast.ClassDef


def _iter_run(node: ast.AST, reached: Collection[str]) -> Iterator[ast.AST]:
    """Yield what loading a file, and calling some of its functions, runs and does not only try."""
    yield node
    for each in ast.iter_child_nodes(node):
        is_tried = isinstance(each, ast.Try) and each.handlers
        if is_tried or (isinstance(each, ast.If) and "version" in ast.unparse(each.test)):
            continue
        is_idle = isinstance(node, ast.Module) and isinstance(each, _Definition)
        if is_idle and each.name not in reached:  # type: ignore[attr-defined]
            yield from (n for d in each.decorator_list for n in ast.walk(d))  # type: ignore[attr-defined]
        else:
            yield from _iter_run(each, reached)


def _list_used(node: ast.AST) -> list[str]:
    """Return what a statement imports, or the dotted name that an expression is."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        is_package = node.module and not node.level
        return [f"{node.module}.{a.name}" for a in node.names] if is_package else []
    return [ast.unparse(node)] if isinstance(node, ast.Attribute) else []


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(each) for each in function.decorator_list)
