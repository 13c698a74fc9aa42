"""Disassembles cubins with nvdisasm, which needs no GPU, and digests machine code."""

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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import KbError
from kernelkb.installing import format_install_command
from kernelkb.safety.workspace import MAX_REPORT_BYTES, read_bytes
from kernelkb.sass.disassembly import parse_disassembly
from kernelkb.sass.function import SassFunction

_PACKAGE = "nvidia-cuda-nvdisasm"
_TIMEOUT_S = 60.0
_MAGIC = b"\x7fELF"
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_CUDA_MACHINE = 190
_MAX_IMAGE_BYTES = 256 * 2**20


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
        said = (done.stderr or done.stdout).strip().splitlines()
        raise KbError(f"nvdisasm cannot read the code: {said[-1] if said else 'it said nothing'}")
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


_DIGITS = 32
_FILE_HASH = re.compile(rb"_[0-9a-f]{8}(?=_)|(?<=_)[0-9a-f]{8}")
_CODE_SECTIONS = (".text", ".rodata", ".nv.constant", ".data")
"""Beginnings of the names of what runs: instructions and constants. Lines and symbols are left out;
those of a kernel in an unnamed namespace hold a hash of the file."""


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
        parts = list(_iter_code(images, _CODE_SECTIONS))
        if data not in images:
            parts += [_FILE_HASH.sub(b"", part) for part in _iter_code([data], _CODE_SECTIONS)]
        for content in sorted(parts):
            running.update(struct.pack("<Q", len(content)) + content)
            found = True
    return running.hexdigest()[:_DIGITS] if found else None


def _iter_code(images: Iterable[bytes], sections: tuple[str, ...]) -> Iterator[bytes]:
    try:
        from elftools.common.exceptions import ELFError  # of an extra
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return
    for image in images:
        try:
            for section in ELFFile(io.BytesIO(image)).iter_sections():
                is_stored = section["sh_type"] != "SHT_NOBITS"
                if is_stored and section.name.startswith(sections):
                    yield section.data()
        except (ELFError, struct.error, ValueError, UnicodeDecodeError, AttributeError):
            continue
