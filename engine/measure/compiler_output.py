"""What compilers print → records: the first error, loops left scalar, registers and spills."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from engine.model.measurement import KernelResources, Loop

_ERROR = re.compile(
    r"^(?P<place>[^\s:(][^:(]*[:(]\d+\)?(?::\d+)?): (?:fatal |catastrophic )?error\s*(?:#[\w-]+)?: (?P<text>.+)$"
)
_ANY_ERROR = re.compile(r"(?:^|: )(?:fatal )?error\s*: .+|undefined reference.+|ptxas (?:fatal|error).+")
_GCC_LINE = re.compile(r"^(?P<file>.+?):(?P<line>\d+):\d+: +(?P<kind>missed|optimized): +(?P<text>.+)$")
_CLANG_LINE = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+):\d+: remark: (?P<text>.+?) \[-Rpass(?P<kind>-missed)?=loop-vectorize\]$"
)
_PTXAS_KERNEL = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_PTXAS_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<store>\d+) bytes spill stores, (?P<load>\d+) bytes spill loads"
)
_PTXAS_USED = re.compile(r"Used (?P<registers>\d+) registers(?:.*?, (?P<smem>\d+) bytes smem)?")
_LOOP_HEAD = re.compile(r"\b(?:for|while)\s*\(")


def first_error(output: str) -> str:
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


def loops_of(report: str, source: Path) -> tuple[Loop, ...]:
    """Return the innermost loops of a source that a vectorisation report speaks of.

    A loop that was vectorised once counts as vectorised: what stays scalar beside it is its tail.
    Outer loops never vectorise and are left out; the report does not tell them apart, the nesting
    of the source does.
    """
    vectorized: dict[int, str] = {}
    missed: dict[int, str] = {}
    lines = report.splitlines()
    for at, line in enumerate(lines):
        found = _GCC_LINE.match(line) or _CLANG_LINE.match(line)
        if found is None or Path(found["file"]).name != source.name:
            continue
        number, text = int(found["line"]), found["text"]
        if text.startswith(("loop vectorized", "vectorized loop")):
            vectorized.setdefault(number, text)
        elif text.startswith("couldn't vectorize loop"):
            missed.setdefault(number, _reason(lines[at + 1 : at + 2]))
        elif text.startswith("loop not vectorized"):
            missed.setdefault(number, text)
    outer = _outer_loops(source.read_text(encoding="utf-8", errors="replace"))
    missed = {n: why for n, why in missed.items() if n not in outer and n not in vectorized}
    missed = {n: why for n, why in missed.items() if "two or more consecutive inner" not in why}
    loops = [Loop(line=n, vectorized=True, reason=text) for n, text in vectorized.items()]
    loops += [Loop(line=n, vectorized=False, reason=text) for n, text in missed.items()]
    return tuple(sorted(loops, key=lambda loop: loop.line))


def _reason(following: list[str]) -> str:
    found = _GCC_LINE.match(following[0]) if following else None
    if found is None:
        return "no reason given"
    text = found["text"].removeprefix("not vectorized: ").rstrip(".")
    call = re.search(r"clobbers memory: .*?(?:__builtin_)?(\w+) \(", text)
    return f"it calls {call[1]}, which has no vector form here" if call else text


def _outer_loops(text: str) -> set[int]:
    """Return the lines of loops with another loop inside, or with calls to functions that loop."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    heads = [m.start() for m in _LOOP_HEAD.finditer(bare)]
    spans = {head: _extent(bare, head) for head in heads}
    looping = _looping_functions(bare, heads)
    outer: set[int] = set()
    for head, end in spans.items():
        body = bare[head:end]
        inner = any(head < other < end for other in heads)
        if inner or any(re.search(rf"\b{name}\s*\(", body) for name in looping):
            outer.add(bare.count("\n", 0, head) + 1)
    return outer


def _extent(text: str, head: int) -> int:
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


def _looping_functions(text: str, heads: Iterable[int]) -> set[str]:
    names: set[str] = set()
    for found in re.finditer(r"\b(\w+)\s*\([^;{}()]*\)\s*(?:noexcept\s*)?\{", text):
        if found[1] not in ("for", "while", "if", "switch"):
            end = _extent(text, found.start())
            if any(found.start() < head < end for head in heads):
                names.add(found[1])
    return names


def resources_of(log: str, kernels: tuple[str, ...]) -> tuple[KernelResources, ...]:
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
