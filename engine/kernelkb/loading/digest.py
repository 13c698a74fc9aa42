"""Digests and time stamps of the knowledge files, to tell whether a cache is current.

Imports nothing slow: every start of kb calls it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from kernelkb.safety.workspace import read_bytes

try:  # hashlib loads OpenSSL, 2 ms of a start of 40 ms
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b


FileStamps = tuple[tuple[str, int, int, int], ...]
"""Path, bytes, time of the last edit in nanoseconds, and inode of every file."""


STABLE_AGE_NS = 2_000_000_000
"""An edit that is younger may be followed by another one that looks the same."""
_RESCAN_INTERVAL_NS = 1_000_000_000
"""Between two scans of the shipped files: a scan takes twice as long as a decision."""
_last_scan: dict[str, tuple[int, int, FileStamps]] = {}


def list_yaml_files(root: str) -> list[str]:
    """Return every YAML file below ``root``, relative, with forward slashes, sorted."""
    paths: list[str] = []
    for folder, _, names in os.walk(root):
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        prefix = "" if inside == "." else f"{inside}/"
        paths += [prefix + name for name in names if name.endswith(".yaml")]
    return sorted(paths)


def compute_cache_key(root: str, overlay: str | None = None) -> str:
    """Return 128 bits of BLAKE2b over every knowledge file's relative path and bytes.

    Args:
        root: The knowledge folder.
        overlay: A project's knowledge folder; None if it has none.
    """
    return _hash_folders(blake2b(digest_size=16), root, overlay)


def find_cache_key(root: str, overlay: str | None = None) -> str:
    """Return what ``compute_cache_key`` does; files are read again only where one was edited.

    An edit of a project's own counts at once, one of the shipped files within a second.
    """
    found = scan_shipped(root), *((read_file_stamps(overlay),) if overlay else ())
    if time.time_ns() - max(latest for latest, _ in found) < STABLE_AGE_NS:
        return compute_cache_key(root, overlay)
    return _compute_key(root, overlay, tuple(stamps for _, stamps in found))


@lru_cache(maxsize=4)
def _compute_key(root: str, overlay: str | None, _stamps: tuple[FileStamps, ...]) -> str:
    return compute_cache_key(root, overlay)


def scan_shipped(folder: str) -> tuple[int, FileStamps]:
    """Return what ``read_file_stamps`` does, at most a second old."""
    now = time.monotonic_ns()
    when, latest, files = _last_scan.get(folder, (0, 0, ()))
    if not files or now - when > _RESCAN_INTERVAL_NS:
        latest, files = read_file_stamps(folder)
        _last_scan[folder] = (now, latest, files)
    return latest, files


def read_file_stamps(root: str) -> tuple[int, FileStamps]:
    """Return the time of the last edit, in nanoseconds since 1970, and the stamp of every file.

    Reads no file. Two edits of the same length within one tick of the file system's clock have
    the same stamp, so a stamp is proof only when its last edit lies some time back.
    """
    latest = 0
    files = []
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".yaml"):
                    stat = entry.stat()
                    latest = max(latest, stat.st_mtime_ns, stat.st_ctime_ns)
                    files.append((entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ino))
    return latest, tuple(files)


def compute_sha256(root: str, overlay: str | None = None) -> str:
    """Return the SHA-256 of the same bytes, which every answer prints."""
    from hashlib import sha256

    return _hash_folders(sha256(), root, overlay)


def _hash_folders(hasher: Any, root: str, overlay: str | None) -> str:
    for part in _iter_hash_parts(root, overlay):
        hasher.update(part)
    return str(hasher.hexdigest())


def _iter_hash_parts(root: str, overlay: str | None) -> Iterator[bytes]:
    for folder in (root, overlay) if overlay else (root,):
        for relative in list_yaml_files(folder):
            path = os.path.join(folder, relative)
            # Shipped files are trusted; resolving the links of each takes four times as long.
            body = _read_shipped_file(path) if folder == root else read_bytes(path)
            yield f"{relative}\0{len(body)}\0".encode()
            yield body
        yield b"\0\0"


def _read_shipped_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
