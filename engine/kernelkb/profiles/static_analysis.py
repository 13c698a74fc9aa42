"""Analyses the machine code of a compiled file, without a GPU and without running it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import KbError
from kernelkb.installing import format_pip_command
from kernelkb.model.answers.static_facts import KernelFacts, StaticFact, StaticReport
from kernelkb.profiles.disassembler import (
    disassemble,
    explain_missing_disassembler,
    find_disassembler,
    iter_cubins,
    list_symbols,
)
from kernelkb.safety.workspace import MAX_REPORT_BYTES, read_bytes
from kernelkb.sass.code_metrics import count_opcodes, measure_code
from kernelkb.sass.static_facts import add_source_text, find_static_facts

_MAX_SECONDS = 60.0
_MAX_CODE_BYTES = 4 * 2**20
"""Machine code of one image; nvdisasm takes 0.5 s for 0.1 MB."""
_SERIALISED = re.compile(
    r"\(C75\d\d\) Potential Performance Loss: wgmma\.mma_async instructions are serialized due to "
    r"(?P<reason>.+?) in (?:the )?function '(?P<name>[^']+)'"
)
_FUNCTION = re.compile(r"Function properties for '?(?P<name>[\w$]+)'?")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


class CompilerNotes(NamedTuple):
    """What ptxas says about functions, by mangled name."""

    spill_bytes: Mapping[str, int]
    """Bytes that spill stores and loads move."""
    serialised: Mapping[str, str]
    """Why the wgmma instructions of a function are serialised."""


def analyse(
    path: Path, compiler_output: str = "", source_folder: Path | None = None
) -> StaticReport:
    """Return what the machine code of a file shows.

    Args:
        path: A cubin, a library or a program with CUDA code in it.
        compiler_output: Of nvcc with ``-Xptxas -v``; tells spills from arrays.
        source_folder: Where sources may be read, to show lines and names; None: nowhere.

    Raises:
        KbError: The file cannot be read, or nvdisasm fails on it.
    """
    if find_disassembler() is None:
        return {"kernels": [], "reason": explain_missing_disassembler()}
    images = _read_images(path)
    if not images:
        return {
            "kernels": [],
            "reason": _explain_no_code(path),
        }
    notes = parse_compiler_notes(compiler_output)
    found = [
        _add_notes(find_static_facts(function, notes.spill_bytes.get(function.name)), notes)
        for image in images
        for function in disassemble(image)
    ]
    sources = _read_sources(found, source_folder)
    return {"kernels": [add_source_text(one, sources) for one in found], "reason": None}


def count_built_code(paths: Sequence[Path]) -> dict[str, float]:
    """Return the instructions by kind of all code for a GPU in some files; empty without."""
    try:
        functions = [one for path in paths for image in _read_images(path)
                     for one in disassemble(image)]  # fmt: skip
    except KbError:
        return {}
    return {name: float(count) for name, count in count_opcodes(functions).items()}


def measure_code_files(paths: Sequence[Path]) -> dict[str, float]:
    """Return the metrics of all machine code in some files, by metric id.

    Args:
        paths: Each as of ``analyse``.

    Raises:
        KbError: One cannot be read or holds none, or there is no nvdisasm, or that fails.
    """
    images = []
    for path in paths:
        images += (found := _read_images(path))
        if not found:
            raise KbError(_explain_no_code(path))
    return measure_code(one for image in images for one in disassemble(image))


def measure_built_code(paths: Sequence[Path]) -> dict[str, float]:
    """Return the metrics of all machine code in some files; empty where it cannot be read."""
    try:
        return measure_code_files(paths)
    except KbError:
        return {}


def _read_images(path: Path) -> list[bytes]:
    try:
        data = read_bytes(path, MAX_REPORT_BYTES)
    except OSError as error:
        raise KbError(f"{path} cannot be read: {error.strerror}") from error
    images = [one for one in iter_cubins(data) if _has_code(one)]
    return images or [one for one in _extract_compressed(path) if _has_code(one)]


def _has_code(image: bytes) -> bool:
    return 0 < sum(one.size for one in list_symbols(image)) <= _MAX_CODE_BYTES


def _extract_compressed(path: Path) -> Iterator[bytes]:
    """Yield the images that only cuobjdump, which decompresses them, finds; none without it."""
    tool = shutil.which("cuobjdump")
    if tool is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        words = [tool, "-xelf", "all", str(path.resolve())]
        try:
            subprocess.run(
                words, cwd=folder, capture_output=True, timeout=_MAX_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KbError(f"cuobjdump failed: {error}") from error
        for image in sorted(Path(folder).glob("*.cubin")):
            yield image.read_bytes()


def parse_compiler_notes(output: str) -> CompilerNotes:
    """Return what ptxas printed about each function."""
    spills: dict[str, int] = {}
    name = ""
    for line in output.splitlines():
        if found := _FUNCTION.search(line):
            name = found["name"]
        elif name and (found := _SPILLS.search(line)):
            spills[name] = int(found[1]) + int(found[2])
            name = ""
    serialised = {found["name"]: found["reason"] for found in _SERIALISED.finditer(output)}
    return CompilerNotes(spills, serialised)


def _add_notes(found: KernelFacts, notes: CompilerNotes) -> KernelFacts:
    """Return the facts with the compiler's own words about serialised wgmma instructions."""
    reason = notes.serialised.get(found["kernel"])
    if reason is None:
        return found
    words = f"wgmma instructions are serialised due to {reason}"
    known = [fact for fact in found["facts"] if fact["kind"] == "wgmma-serialised"]
    others = [fact for fact in found["facts"] if fact["kind"] != "wgmma-serialised"]
    base = known or [fact for fact in others if fact["kind"] == "tensor"]
    told: list[StaticFact] = [
        {**fact, "kind": "wgmma-serialised", "words": words, "notable": True} for fact in base[:1]
    ]
    return {**found, "facts": [*told, *others]}


def _read_sources(found: list[KernelFacts], folder: Path | None) -> dict[str, str]:
    """Return the text of each file of a place that lies in the folder."""
    if folder is None:
        return {}
    root = folder.resolve()
    names = {place["file"] for one in found for fact in one["facts"] for place in fact["places"]}
    sources = {}
    for name in sorted(names):
        path = Path(name)
        if path.is_absolute() and path.resolve().is_relative_to(root):
            try:
                sources[name] = read_bytes(path).decode("utf-8", errors="replace")
            except OSError:  # it was moved since the build
                continue
    return sources


def _explain_no_code(path: Path) -> str:
    install = format_pip_command("nvidia-cuda-cuobjdump")
    return (
        f"{path.name} holds no machine code that can be read: it is compressed, or for no GPU; put "
        f"cuobjdump on PATH ({install}), or compile it without -Xfatbin -compress-all"
    )
