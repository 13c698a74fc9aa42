"""Disassembles compiled files, and analyses their code without a GPU and without running it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import mmap
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import KbError, format_install_command, format_pip_command
from kernelkb.model.answers.source_place import KernelFacts, StaticFact, StaticReport
from kernelkb.safety.workspace import MAX_REPORT_BYTES, read_bytes
from kernelkb.sass.function import SassFunction, parse_disassembly
from kernelkb.sass.static_facts import (
    add_source_text,
    count_opcodes,
    find_static_facts,
    measure_code,
)

_PACKAGE = "nvidia-cuda-nvdisasm"
_TIMEOUT_S = 60.0
_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_CUDA_MACHINE = 190
_MAX_IMAGE_BYTES = 256 * 2**20

_MAX_SECONDS = 60.0
_MAX_CODE_BYTES = 4 * 2**20
"""Machine code of one image; nvdisasm takes 0.5 s for 0.1 MB."""
_SERIALISED = re.compile(
    r"\(C75\d\d\) Potential Performance Loss: wgmma\.mma_async instructions are serialized due to "
    r"(?P<reason>.+?) in (?:the )?function '(?P<name>[^']+)'"
)
_SIZED_VALUE, _FRAME_SIZE = 4, 0x11
"""In ``.nv.info``: an attribute with a value of its own size, and ``EIATTR_FRAME_SIZE``, of which
that is a symbol and its bytes."""
_FUNCTION = re.compile(r"Function properties for '?(?P<name>[\w$]+)'?")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")

_DIGITS = 32
_FILE_HASH = re.compile(rb"_[0-9a-f]{8}(?=_)|(?<=_)[0-9a-f]{8}")
_CODE_SECTIONS = (".text", ".rodata", ".nv.constant", ".data")
"""Beginnings of the names of what runs: instructions and constants. Lines and symbols are left out;
those of a kernel in an unnamed namespace hold a hash of the file."""


def explain_missing_disassembler() -> str:
    """Return why machine code is not read where there is no nvdisasm, and the cure."""
    cure = f"{format_install_command('reports')}, or put a CUDA toolkit on PATH"
    return f"reading machine code takes nvdisasm: {cure}"


class CodeSymbol(NamedTuple):
    """A function in a cubin."""

    position: int
    """In the symbol table."""
    name: str
    """Mangled."""
    size: int
    """In bytes."""


def find_disassembler() -> str | None:
    """Return the path of nvdisasm: from its own package, or else from PATH; None without."""
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.name == "nvdisasm" and os.access(path, os.X_OK):
            return str(path)
    return shutil.which("nvdisasm")


def disassemble(cubin: bytes, names: Sequence[str] | None = None) -> list[SassFunction]:
    """Return the functions of a cubin, with lines where it was compiled with them.

    Args:
        cubin: An ELF image for one architecture.
        names: Mangled names of those that are wanted; all by default.

    Raises:
        KbError: nvdisasm is missing, or cannot read the image.
    """
    tool = find_disassembler()
    if tool is None:
        raise KbError(explain_missing_disassembler())
    words = [tool, "-c", "-hex", "-gi"]
    if names is not None:
        indices = [str(one.position) for one in list_symbols(cubin) if one.name in names]
        if not indices:
            return []
        words += ["-fun", ",".join(indices)]
    with os.fdopen(os.memfd_create("cubin"), "wb") as file:  # nothing is left if this is killed
        file.write(cubin)
        file.flush()
        try:
            done = subprocess.run(
                [*words, f"/proc/self/fd/{file.fileno()}"], pass_fds=[file.fileno()],
                capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KbError(f"nvdisasm failed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        faults = [line for line in said if "warning" not in line.lower()] or said
        raise KbError(f"nvdisasm cannot read the code: {faults[0]}")
    return parse_disassembly(done.stdout)


def list_symbols(cubin: bytes) -> list[CodeSymbol]:
    """Return the functions that a cubin defines; none where it is damaged.

    Raises:
        KbError: The pyelftools package is missing.
    """
    try:
        from elftools.common.exceptions import ELFError  # of an extra, as ncu-report is
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import SymbolTableSection
    except ImportError:
        raise KbError(explain_missing_disassembler()) from None
    try:
        table = ELFFile(io.BytesIO(cubin)).get_section_by_name(".symtab")
        rows = (
            list(enumerate(table.iter_symbols())) if isinstance(table, SymbolTableSection) else []
        )
    except (ELFError, struct.error, ValueError, UnicodeDecodeError, AttributeError):
        return []
    return [
        CodeSymbol(index, symbol.name, symbol["st_size"])
        for index, symbol in rows
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]
    ]


def read_frame_sizes(cubin: bytes) -> dict[str, int]:
    """Return the bytes of a thread's stack frame in each function, by mangled name.

    None of a damaged image, and none without the pyelftools package.
    """
    try:
        from elftools.common.exceptions import ELFError  # of an extra
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import SymbolTableSection
    except ImportError:
        return {}
    found: dict[str, int] = {}
    try:
        elf = ELFFile(io.BytesIO(cubin))
        notes, symbols = elf.get_section_by_name(".nv.info"), elf.get_section_by_name(".symtab")
        if notes is None or not isinstance(symbols, SymbolTableSection):
            return {}
        data, at = notes.data(), 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form != _SIZED_VALUE:
                continue
            if attribute == _FRAME_SIZE:
                index, frame = struct.unpack_from("<II", data, at)
                found[symbols.get_symbol(index).name] = frame
            at += size
    except (ELFError, struct.error, ValueError, UnicodeDecodeError, AttributeError):
        return {}
    return found


def iter_cubins(data: bytes | mmap.mmap, holding: bytes = b"") -> Iterator[bytes]:
    """Yield the CUDA images that a file contains, such as a report or a library, in their order.

    Args:
        data: The file.
        holding: What an image must hold.
    """
    at = data.find(_MAGIC)
    while at >= 0:
        size = _measure_image(data, at)
        if size and data.find(holding, at, at + size) >= 0:
            yield data[at : at + size]
        at = data.find(_MAGIC, at + max(size, 1))


def _measure_image(data: bytes | mmap.mmap, at: int) -> int:
    """Return the size of an ELF image for CUDA at an offset; 0 where there is none."""
    if len(data) - at < _HEADER.size or data[at + 4 : at + 6] != b"\x02\x01":
        return 0
    (_, machine, _, _, programs_at, sections_at, _, header_size, program_size, program_count,
     section_size, section_count, _) = _HEADER.unpack_from(data, at)  # fmt: skip
    ends = (
        header_size, programs_at + program_size * program_count,
        sections_at + section_size * section_count,
    )  # fmt: skip
    size = int(max(ends))
    fits = size <= min(len(data) - at, _MAX_IMAGE_BYTES)
    return size if machine == _CUDA_MACHINE and fits else 0


def digest_code(files: Sequence[Path]) -> str | None:
    """Return a digest of the machine code in some files; None where none can be read.

    Args:
        files: Libraries or cubins. Constants of the code that launches a kernel count, too, without
            the hash of the file in the names of kernels.
    """
    running = hashlib.sha256()
    found = False
    for path in files:
        try:
            data = read_bytes(path, MAX_REPORT_BYTES)
        except OSError:
            return None
        images = list(iter_cubins(data))
        parts = list(_iter_code(images))
        if data not in images:
            parts += [_FILE_HASH.sub(b"", part) for part in _iter_code([data])]
        for content in sorted(parts):
            running.update(struct.pack("<Q", len(content)) + content)
            found = True
    return running.hexdigest()[:_DIGITS] if found else None


def _iter_code(images: Iterable[bytes]) -> Iterator[bytes]:
    try:
        from elftools.common.exceptions import ELFError  # of an extra
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return
    for image in images:
        try:
            for section in ELFFile(io.BytesIO(image)).iter_sections():
                is_stored = section["sh_type"] != "SHT_NOBITS"
                if is_stored and section.name.startswith(_CODE_SECTIONS):
                    yield section.data()
        except (ELFError, struct.error, ValueError, UnicodeDecodeError, AttributeError):
            continue


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
