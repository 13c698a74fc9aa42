"""Digests machine code, so that a change that changes nothing is noticed."""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kernelkb.profiles.disassembler import iter_cubins
from kernelkb.safety.workspace import MAX_REPORT_BYTES, read_bytes

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
