"""Parses compiler output: the first error, (un)vectorised loops, registers and spills."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kernelkb.model.records.measurement import KernelResources, Loop

_ERROR = re.compile(
    r"^(?P<place>[^\s:(][^:(]*[:(]\d+\)?(?::\d+)?): "
    r"(?:fatal |catastrophic )?[Ee]rror\s*(?:#[\w-]+)?: (?P<text>.+)$"
)
_ANY_ERROR = re.compile(
    r"(?:^|: )(?:[Ff]atal )?[Ee]rror\s*: .+|undefined reference.+|ptxas (?:fatal|error).+"
)
_GCC_LINE = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+):\d+: +(?P<kind>missed|optimized): +(?P<text>.+)$"
)
_CLANG_LINE = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+):\d+: remark: (?P<text>.+?) "
    r"\[-Rpass(?:-missed)?=loop-vectorize\]$"
)
_PTXAS_KERNEL = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_PTXAS_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<store>\d+) bytes spill stores, "
    r"(?P<load>\d+) bytes spill loads"
)
_PTXAS_USED = re.compile(r"Used (?P<registers>\d+) registers(?:.*?, (?P<smem>\d+) bytes smem)?")
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
_HALF_REGISTER_BYTES = 8
"""Half of an SSE or NEON register, the narrowest vector that gcc reports."""
_LOOP_HEAD = re.compile(r"\b(?:for|while)\s*\(")


def find_first_error(output: str) -> str:
    """Return the first error as ``file:line: text``; else the last line printed."""
    for line in output.splitlines():
        error = _ERROR.match(line.strip())
        if error:
            place = re.sub(r"\((\d+)\)", r":\1", error["place"])
            return f"{Path(place).name}: {error['text']}"
    for line in output.splitlines():
        if _ANY_ERROR.search(line):
            return line.strip()
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "the compiler failed and printed nothing"


def parse_loops(report: str, source: Path) -> tuple[Loop, ...]:
    """Return the innermost loops of a source that a vectorisation report mentions.

    A remark may point at a loop's head, its pragma or its body; it is assigned to the smallest loop
    around it. A loop with one vectorised remark counts as vectorised, since its scalar remarks are
    about its tail. Vectors of half a register, which gcc uses for strided loads and for sums in
    strict order, do not count. Outer loops never vectorise and are left out; only the source, not
    the report, tells them from inner loops.
    """
    loops = _find_loops(source.read_text(encoding="utf-8", errors="replace"))
    results: dict[int, Loop] = {}
    lines = report.splitlines()
    for index, line in enumerate(lines):
        remark = _GCC_LINE.match(line) or _CLANG_LINE.match(line)
        if remark is None or Path(remark["file"]).name != source.name:
            continue
        text, head = remark["text"], _find_enclosing_loop(loops, int(remark["line"]))
        if head is None:
            continue
        if text.startswith(("loop vectorized", "vectorized loop")):
            if _uses_narrow_vectors(text):
                results.setdefault(head, Loop(line=head, vectorized=False, reason=text))
            elif head not in results or not results[head].vectorized:
                results[head] = Loop(line=head, vectorized=True, reason=text)
        elif text.startswith("couldn't vectorize loop"):
            reason = _parse_missed_reason(lines[index + 1 : index + 2])
            results.setdefault(head, Loop(line=head, vectorized=False, reason=reason))
        elif text.startswith("loop not vectorized"):
            results.setdefault(head, Loop(line=head, vectorized=False, reason=text))
    return tuple(results[line] for line in sorted(results))


def _uses_narrow_vectors(text: str) -> bool:
    width = re.search(r"using (\d+) byte vectors", text)
    return width is not None and int(width[1]) <= _HALF_REGISTER_BYTES


def _parse_missed_reason(following: list[str]) -> str:
    remark = _GCC_LINE.match(following[0]) if following else None
    if remark is None:
        return "no reason given"
    text = remark["text"].removeprefix("not vectorized: ").rstrip(".")
    call = re.search(r"clobbers memory: .*?(?:__builtin_)?(\w+) \(", text)
    return f"it calls {call[1]}, which has no vector form here" if call else text


class _LoopSpan(NamedTuple):
    """A loop in the source, by line numbers from 1; ``first`` includes a pragma above its head."""

    first: int
    head: int
    last: int
    innermost: bool


def _find_loops(text: str) -> list[_LoopSpan]:
    """Return every loop of a source; a loop that calls a function with loops is not innermost."""
    bare = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    heads = [m.start() for m in _LOOP_HEAD.finditer(bare)]
    looping = _find_looping_functions(bare, heads)
    rows = bare.splitlines()
    spans: list[_LoopSpan] = []
    for start in heads:
        end = _find_statement_end(bare, start)
        body = bare[start:end]
        inner = any(start < other < end for other in heads)
        calls = any(re.search(rf"\b{name}\s*\(", body) for name in looping)
        head = bare.count("\n", 0, start) + 1
        above = head > 1 and rows[head - 2].lstrip().startswith("#pragma")
        last = bare.count("\n", 0, end) + 1
        spans.append(_LoopSpan(head - above, head, last, innermost=not (inner or calls)))
    return spans


def _find_enclosing_loop(loops: list[_LoopSpan], line: int) -> int | None:
    """Return the head line of the innermost loop around a line; None outside of such loops."""
    around = [span for span in loops if span.first <= line <= span.last]
    smallest = min(around, key=lambda span: span.last - span.first, default=None)
    return smallest.head if smallest and smallest.innermost else None


def _find_statement_end(text: str, head: int) -> int:
    """Return where the statement that starts at ``head`` ends: its closing brace or semicolon."""
    depth, in_block = 0, False
    for index in range(head, len(text)):
        char = text[index]
        if char in "({":
            depth += 1
            in_block = in_block or char == "{"
        elif char in ")}":
            depth -= 1
            if depth == 0 and char == "}":
                return index
        elif char == ";" and depth == 0 and not in_block:
            return index
    return len(text)


def _find_looping_functions(text: str, heads: Iterable[int]) -> set[str]:
    """Return the names of functions whose bodies contain loops."""
    names: set[str] = set()
    for function in re.finditer(r"\b(\w+)\s*\([^;{}()]*\)\s*(?:noexcept\s*)?\{", text):
        if function[1] not in ("for", "while", "if", "switch"):
            end = _find_statement_end(text, function.start())
            if any(function.start() < head < end for head in heads):
                names.add(function[1])
    return names


def parse_resources(log: str, kernels: tuple[str, ...]) -> tuple[KernelResources, ...]:
    """Return the registers, stack, spills and static shared memory that ``ptxas -v`` prints.

    Args:
        log: Output of nvcc with ``-Xptxas -v``.
        kernels: Plain names of kernels; an entry function whose mangled name contains one is
            reported under it, any other under its mangled name.
    """
    resources: list[KernelResources] = []
    name, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if entry := _PTXAS_KERNEL.search(line):
            name, frame = entry["name"], (0, 0, 0)
        elif sizes := _PTXAS_FRAME.search(line):
            frame = (int(sizes["stack"]), int(sizes["store"]), int(sizes["load"]))
        elif name and (used := _PTXAS_USED.search(line)):
            resources.append(
                KernelResources(
                    kernel=next((k for k in kernels if k in name), name),
                    registers=int(used["registers"]),
                    stack_bytes=frame[0],
                    spill_store_bytes=frame[1],
                    spill_load_bytes=frame[2],
                    static_smem_bytes=int(used["smem"] or 0),
                )
            )
            name = ""
    return tuple(resources)
