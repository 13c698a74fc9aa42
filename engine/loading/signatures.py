"""What the text of a kernel says of how it is called. Reads, never compiles; guesses are told."""

from __future__ import annotations

import ast
import re
from typing import Literal, NamedTuple

Kind = Literal["cuda", "torch-extension", "triton", "kernelbench", "candidate"]
Role = Literal["input", "output", "size", "number", "stream"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_GLOBAL = re.compile(r"__global__\s+(?:__launch_bounds__\([^)]*\)\s*)?void\s+(\w+)\s*\(([^)]*)\)")
_EXTERN = re.compile(r'extern\s+"C"\s+(?:\w+\s+)+?(\w+)\s*\(([^)]*)\)\s*\{')
_BOUND = re.compile(r'm\.def\(\s*"(\w+)"')
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "int": "int32",
    "int32_t": "int32",
    "int64_t": "int64",
    "uint8_t": "uint8",
    "int8_t": "int8",
}
_SIZES = ("int", "unsigned", "size_t", "int64_t", "int32_t", "long", "uint32_t", "unsigned int")


class Parameter(NamedTuple):
    """One parameter of a function."""

    name: str
    type: str
    """As it is written, without const and restrict."""
    role: Role
    dtype: str | None = None
    """Of an array's elements, where we know the type."""
    read: bool = False
    """An array that is written, and read too: what it holds before the call matters."""


class Function(NamedTuple):
    """A function that computes, or launches what computes."""

    name: str
    parameters: tuple[Parameter, ...]
    is_kernel: bool
    """A ``__global__`` function, which somebody has to launch."""


class Seen(NamedTuple):
    """What a file holds."""

    kind: Kind
    functions: tuple[Function, ...]
    """Launchers before kernels."""
    has_main: bool = False


def look(name: str, text: str) -> Seen | None:
    """Return what a file holds, None when there is no kernel in it."""
    if name.endswith(".py"):
        return _python(text)
    bare = _COMMENT.sub(" ", text)
    if "PYBIND11_MODULE" in bare:
        names = _BOUND.findall(bare)
        return Seen("torch-extension", tuple(Function(one, (), False) for one in names))
    launchers = [_function(bare, found, False) for found in _EXTERN.finditer(bare)]
    kernels = [_function(bare, found, True) for found in _GLOBAL.finditer(bare)]
    if not launchers and not kernels:
        return None
    has_main = re.search(r"\bmain\s*\(", bare) is not None
    return Seen("cuda", (*launchers, *kernels), has_main)


def _function(text: str, found: re.Match[str], is_kernel: bool) -> Function:
    """Return a function, with what its body says of arrays that are not const."""
    body = _body(text, found.end())
    parameters = tuple(_used(one, body, is_kernel) for one in _parameters(found[2]))
    return Function(found[1], parameters, is_kernel)


def _body(text: str, start: int) -> str:
    depth = 0
    for at in range(text.find("{", start - 1), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start : at + 1]
    return text[start:]


def _used(one: Parameter, body: str, is_kernel: bool) -> Parameter:
    """Tell an array that is only read from one that is written, and one that is both."""
    if one.role != "output" or not is_kernel:
        return one
    element = rf"\b{one.name}\s*\[[^\]]*\]\s*"
    written = re.findall(rf"{element}([-+*/|&^]|<<|>>)?=(?!=)", body)
    if not written and not re.search(rf"(?:atomic\w+\s*\(\s*&?|\*\s*){one.name}\b", body):
        return one._replace(role="input")
    reads = len(re.findall(element, body)) > len(written) or any(written)
    return one._replace(read=reads)


def _parameters(text: str) -> tuple[Parameter, ...]:
    found = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        constant = re.search(r"\bconst\b", part) is not None
        bare = re.sub(r"\b(?:const|__restrict__|__restrict|restrict|std::)\b|std::", " ", part)
        match = re.match(r"\s*(.+?)\s*(\*?)\s*(\w+)\s*$", bare)
        if match is None:
            continue
        kind, star, name = " ".join(match[1].split()), match[2], match[3]
        if kind.endswith("*"):
            kind, star = kind[:-1].strip(), "*"
        found.append(_parameter(name, kind, bool(star), constant))
    return tuple(found)


def _parameter(name: str, kind: str, pointer: bool, constant: bool) -> Parameter:
    if kind == "cudaStream_t" or (kind == "void" and pointer):
        return Parameter(name, kind, "stream")
    if pointer:
        return Parameter(name, kind, "input" if constant else "output", _DTYPES.get(kind))
    return Parameter(name, kind, "size" if kind in _SIZES else "number")


def _python(text: str) -> Seen | None:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if "ModelNew" in classes:
        return Seen("candidate", (Function("ModelNew", (), False),))
    if "Model" in classes and any(f.name == "get_inputs" for f in functions):
        return Seen("kernelbench", (Function("Model", (), False),))
    jitted = [f.name for f in functions if any("jit" in ast.unparse(d) for d in f.decorator_list)]
    if not jitted or "triton" not in text:
        return None
    launching = [
        f
        for f in functions
        if f.name not in jitted and any(f"{n}[" in ast.unparse(f) for n in jitted)
    ]
    return Seen("triton", tuple(Function(f.name, _arguments(f), False) for f in launching))


def _arguments(function: ast.FunctionDef) -> tuple[Parameter, ...]:
    return tuple(Parameter(a.arg, "tensor", "input") for a in function.args.args)
