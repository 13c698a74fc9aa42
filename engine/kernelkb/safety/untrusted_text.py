"""Cleans text from compilers, kernels and profilers before it is printed or sent to a client."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Collection
from typing import Any

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?"
    r"|[@-Z\\-_])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# Control characters except tab and newline; bidirectional and zero-width marks; Unicode tags.
_HIDDEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff"
    "\U000e0000-\U000e007f]"
)
# JSON cannot hold half a surrogate pair.
_SURROGATES = re.compile("[\ud800-\udfff]")
MAX_TEXT_LENGTH = 4000
"""Characters, so that one log fits into a tool's answer of 8 kB."""


def remove_hidden(text: str) -> str:
    """Return text without escape sequences and hidden characters."""
    return text if text.isprintable() else _HIDDEN_CHARACTERS.sub("", _ESCAPES.sub("", text))


class CleanStream(io.TextIOWrapper):
    """A stream for text that removes what a terminal would obey, whatever is written to it."""

    def write(self, text: str) -> int:
        """Write text without escape sequences and hidden characters."""
        return super().write(remove_hidden(text))


class StyledStream:
    """A stream that passes escape sequences, for text that is clean and was styled."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text as it is."""
        if isinstance(self._stream, CleanStream):
            return io.TextIOWrapper.write(self._stream, text)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def clean_stream(name: str) -> None:
    """Let everything that is written to ``sys.stdout`` or ``sys.stderr`` pass a ``CleanStream``.

    Letters that the locale lacks are written as escapes of Python.

    Args:
        name: Of the stream.
    """
    stream = getattr(sys, name)
    clean = CleanStream(
        stream.buffer,
        stream.encoding,
        "backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    setattr(sys, name, clean)


def parse_json(text: str, *, strict: bool = True) -> Any:
    """Return the value of JSON that others wrote.

    Args:
        text: The JSON.
        strict: Whether texts in it hold no control characters.

    Raises:
        ValueError: It is no JSON, is nested too deeply, or holds half a surrogate pair, which no
            file and no answer can.
    """
    try:
        value = json.loads(text, strict=strict)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError("half a surrogate pair is no text") from error
    return value


def sanitize_text(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return text without escape sequences and hidden characters; a long one loses its middle.

    Args:
        text: Any text.
        max_length: Characters of the result, at most.
    """
    if len(text) <= max_length and text.isprintable():
        return text
    bare = _SURROGATES.sub("\ufffd", remove_hidden(text))
    if len(bare) <= max_length:
        return bare
    head = (max_length - 5) * 2 // 3
    return f"{bare[:head]} ... {bare[len(bare) - (max_length - 5 - head) :]}"


def to_one_line(text: str, max_length: int = 600) -> str:
    """Return the sanitized text as one line, with semicolons between its lines."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return sanitize_text("; ".join(line for line in lines if line), max_length)


def quote_excerpt(text: str, max_length: int = 160) -> str:
    """Return a sanitized excerpt in quotation marks, its own replaced by apostrophes."""
    return f'"{to_one_line(text, max_length).replace(chr(34), chr(39))}"'


_EXPRESSION_NODES = (
    *(ast.Expression, ast.Call, ast.Attribute, ast.Name, ast.Load, ast.Constant, ast.BinOp),
    *(ast.UnaryOp, ast.Tuple, ast.List, ast.Subscript, ast.Slice, ast.Compare, ast.keyword),
    *(ast.operator, ast.unaryop, ast.cmpop),
)
_TORCH_CALL = re.compile(
    r"torch\.(?:nn\.functional\.|special\.|linalg\.|fft\.)?(?!load|save|hub|from_file|jit|ops)[a-z]\w*"
)


def is_torch_expression(text: str, names: Collection[str]) -> bool:
    """Whether a text is arithmetic of torch on some variables, and nothing that reads a file.

    Args:
        text: An expression of Python.
        names: The variables that it may use.
    """
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError):
        return False
    words = [n.value for n in nodes if isinstance(n, ast.keyword) and _is_option(n)]
    return all(node in words or _is_plain(node, names) for node in nodes)


def _is_option(node: ast.keyword) -> bool:
    """Whether a keyword argument chooses a way to compute by a word, as ``reduction="none"``."""
    word = node.value.value if isinstance(node.value, ast.Constant) else None
    return node.arg in WORD_OPTIONS and isinstance(word, str) and word.isidentifier()


WORD_OPTIONS = (
    *("approximate", "compute_mode", "indexing", "mode", "norm", "ord", "padding", "padding_mode"),
    *("reduce", "reduction", "rounding_mode", "side"),
)
"""Keyword arguments of torch whose value may be a word."""
_NUMBER_CALLS = ("abs", "bool", "float", "int", "len", "max", "min", "range", "sum")
"""Functions of Python that make numbers of numbers."""


def _is_plain(node: ast.AST, names: Collection[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names or node.id == "torch" or node.id in _NUMBER_CALLS
    if isinstance(node, ast.Attribute):
        path = ast.unparse(node)
        is_torch = re.fullmatch(r"torch(?:\.\w+)+", path)
        return not node.attr.startswith("_") and (
            not is_torch or path in _TORCH_PARTS or bool(_TORCH_CALL.fullmatch(path))
        )
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, (str, bytes))
    return isinstance(node, _EXPRESSION_NODES)


_TORCH_PARTS = ("torch.nn", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft")
