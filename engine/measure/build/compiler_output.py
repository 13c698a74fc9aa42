"""What compilers print → records: the first error, loops left scalar, registers and spills."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kernelkb.model.measurement import KernelResources, Loop

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
_LOOP_HEAD = re.compile(r"\b(?:for|while)\s*\(")


def find_first_error(output: str) -> str:
    """Return the compiler's own first error, without what came before it."""
    for line in output.splitlines():
        found = _ERROR.match(line.strip())
        if found:
            place = re.sub(r"\((\d+)\)", r":\1", found["place"])
            return f"{Path(place).name}: {found['text']}"
    for line in output.splitlines():
        if _ANY_ERROR.search(line):
            return line.strip()
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "the compiler failed without a word"


def parse_loops(report: str, source: Path) -> tuple[Loop, ...]:
    """Return the innermost loops of a source that a vectorisation report speaks of.

    The compiler may place a remark at a loop's head, its pragma or its body: each is counted for
    the smallest loop around it. A loop that was vectorised once counts as vectorised, since what
    stays scalar beside it is its tail; vectors of half a register, which gcc makes of strided loads
    and of sums in strict order, do not count. Outer loops never vectorise and are left out; the
    nesting of the source tells them apart, the report does not.
    """
    nest = _find_loops(source.read_text(encoding="utf-8", errors="replace"))
    found: dict[int, Loop] = {}
    lines = report.splitlines()
    for at, line in enumerate(lines):
        said = _GCC_LINE.match(line) or _CLANG_LINE.match(line)
        if said is None or Path(said["file"]).name != source.name:
            continue
        text, place = said["text"], _find_enclosing_loop(nest, int(said["line"]))
        if place is None:
            continue
        if text.startswith(("loop vectorized", "vectorized loop")):
            if _uses_narrow_vectors(text):
                found.setdefault(place, Loop(line=place, vectorized=False, reason=text))
            elif place not in found or not found[place].vectorized:
                found[place] = Loop(line=place, vectorized=True, reason=text)
        elif text.startswith("couldn't vectorize loop"):
            why = _parse_missed_reason(lines[at + 1 : at + 2])
            found.setdefault(place, Loop(line=place, vectorized=False, reason=why))
        elif text.startswith("loop not vectorized"):
            found.setdefault(place, Loop(line=place, vectorized=False, reason=text))
    return tuple(found[line] for line in sorted(found))


def _uses_narrow_vectors(text: str) -> bool:
    used = re.search(r"using (\d+) byte vectors", text)
    return used is not None and int(used[1]) <= _HALF_REGISTER_BYTES


def _parse_missed_reason(following: list[str]) -> str:
    found = _GCC_LINE.match(following[0]) if following else None
    if found is None:
        return "no reason given"
    text = found["text"].removeprefix("not vectorized: ").rstrip(".")
    call = re.search(r"clobbers memory: .*?(?:__builtin_)?(\w+) \(", text)
    return f"it calls {call[1]}, which has no vector form here" if call else text


class _LoopSpan(NamedTuple):
    """A loop in the source: its lines, a pragma above it included."""

    first: int
    head: int
    last: int
    innermost: bool


def _find_loops(text: str) -> list[_LoopSpan]:
    """Return every loop of a source; one that calls a function with loops is not innermost."""
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
    """Return the head of the smallest loop around a line; None when that is no innermost loop."""
    around = [span for span in loops if span.first <= line <= span.last]
    smallest = min(around, key=lambda span: span.last - span.first, default=None)
    return smallest.head if smallest and smallest.innermost else None


def _find_statement_end(text: str, head: int) -> int:
    """Return where the statement that starts at ``head`` ends: its closing brace or semicolon."""
    depth, seen = 0, False
    for at in range(head, len(text)):
        char = text[at]
        if char in "({":
            depth += 1
            seen = seen or char == "{"
        elif char in ")}":
            depth -= 1
            if depth == 0 and char == "}":
                return at
        elif char == ";" and depth == 0 and not seen:
            return at
    return len(text)


def _find_looping_functions(text: str, heads: Iterable[int]) -> set[str]:
    names: set[str] = set()
    for found in re.finditer(r"\b(\w+)\s*\([^;{}()]*\)\s*(?:noexcept\s*)?\{", text):
        if found[1] not in ("for", "while", "if", "switch"):
            end = _find_statement_end(text, found.start())
            if any(found.start() < head < end for head in heads):
                names.add(found[1])
    return names


def parse_resources(log: str, kernels: tuple[str, ...]) -> tuple[KernelResources, ...]:
    """Return what ``ptxas -v`` said about each entry function, under the kernel's plain name."""
    found: list[KernelResources] = []
    name, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if entry := _PTXAS_KERNEL.search(line):
            name, frame = entry["name"], (0, 0, 0)
        elif sizes := _PTXAS_FRAME.search(line):
            frame = (int(sizes["stack"]), int(sizes["store"]), int(sizes["load"]))
        elif name and (used := _PTXAS_USED.search(line)):
            found.append(
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
    return tuple(found)
