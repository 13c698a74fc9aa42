"""Takes a kernel's files to another host: packs them as bytes, unpacks them as a private project.

What arrives is written only below one folder of the user's cache that no other user may enter, in
a project named by a digest of the content.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kernelkb.errors import BadValueError, EnvironmentGapError
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.build.folders import find_source_files
from kernelkb.model.kernels.kernel import Kernel
from kernelkb.safety.paths import cache_folder, shipped_folder
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import read_bytes

MAX_PACKED_BYTES = 32 * 2**20
"""Largest sum of the files of one kernel; chosen: sources are far smaller."""
MAX_PACKED_FILES = 2000
_UNUSED_S = 7 * 24 * 3600.0
_UNFINISHED_PREFIX = ".unpacking-"


class PackedKernel(NamedTuple):
    """A kernel's files, as they travel."""

    kernel: str
    """The kernel's id."""
    folder: str
    """Its folder, relative to the project: ``kernels/attention``."""
    files: Mapping[str, bytes]
    """Content by path, relative to the project, with slashes."""

    @property
    def digest(self) -> str:
        """Return a digest of names and content, 32 hex digits."""
        running = hashlib.sha256(f"{self.kernel}\0{self.folder}\0".encode())
        for name, content in sorted(self.files.items()):
            running.update(f"{name}\0{len(content)}\0".encode() + content)
        return running.hexdigest()[:32]


def pack_kernel(source: KernelFolder, project: Path) -> PackedKernel:
    """Read the folder of a kernel, and what it uses of the project outside of the folder.

    That is: every file of the folder that is not hidden; files of a kernel beside it that the
    kernel.yaml names, as ``../attention/a.cu``, with the Python files beside those; and headers of
    the project that these include. Headers of other places are not sent: each host has its own.

    Args:
        source: The kernel, shipped or of the project.
        project: The project's root.

    Raises:
        BadValueError: A file lies outside of the project, or all are too large to send.
    """
    place = _find_place(source.folder, project)
    files: dict[str, bytes] = {}
    size = 0
    for path in _list_files(source.folder, source.kernel):
        name = place.name_file(path)
        if name in files:
            continue
        files[name] = read_bytes(path)
        size += len(files[name])
        if size > MAX_PACKED_BYTES or len(files) > MAX_PACKED_FILES:
            raise BadValueError(
                f"{source.kernel.id} has more than {MAX_PACKED_BYTES // 2**20} MiB or "
                f"{MAX_PACKED_FILES} files (up to {name}), which is not sent to workers; move what "
                "the kernel does not need out of its folder"
            )
    return PackedKernel(source.kernel.id, place.own, files)


def unpack_kernel(packed: PackedKernel, root: Path | None = None) -> Path:
    """Write the files into a project of their own, unless it is there; return the project's root.

    Args:
        packed: The files, as another host sent them.
        root: The folder of such projects; by default one in the user's cache folder.

    Raises:
        BadValueError: A path leads out of the project, or the files are too large.
        EnvironmentGapError: The folder cannot be written, or belongs to another user.
    """
    _require_harmless(packed)
    base = root or _default_root()
    project = base / packed.digest
    try:
        _require_private(base)
        if not _is_whole(project, packed):
            _write_project(packed, base, project)
        os.utime(project)
    except OSError as error:
        gap = f"{error.filename or base} cannot be written ({error.strerror})"
        cure = describe_write_cure(error, "set XDG_CACHE_HOME to a folder that you may write to")
        raise EnvironmentGapError(gap, cure) from error
    return project


def remove_unused_projects(root: Path | None = None, unused_s: float = _UNUSED_S) -> None:
    """Remove the projects, with their builds, that nothing was unpacked to for a week."""
    with suppress(OSError):
        for folder in (root or _default_root()).iterdir():
            if time.time() - folder.lstat().st_mtime > unused_s and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)


def _default_root() -> Path:
    return Path(cache_folder()) / "worker-projects"


class _Place(NamedTuple):
    """Where a kernel's folder is, here and in the copy."""

    folder: Path
    root: Path
    prefix: str
    """Put before paths that are relative to the root."""

    @property
    def own(self) -> str:
        return PurePosixPath(self.prefix, self.folder.relative_to(self.root)).as_posix()

    def name_file(self, path: Path) -> str:
        """Return a file's path in the copy.

        Raises:
            BadValueError: The file, or what it links to, lies outside of the project.
        """
        real = Path(os.path.realpath(path))
        for home in (self.folder, self.root):
            real_home = Path(os.path.realpath(home))
            if real.is_relative_to(real_home):
                named = Path(os.path.normpath(path.absolute()))
                if not named.is_relative_to(self.root):  # a header, whose links were followed
                    named = home / real.relative_to(real_home)
                break
        else:
            raise BadValueError(
                f"{path} is outside of the project {self.root}, and is not sent to workers; move "
                "it into the project"
            )
        return PurePosixPath(self.prefix, named.relative_to(self.root)).as_posix()


def _find_place(folder: Path, project: Path) -> _Place:
    absolute = Path(os.path.normpath(folder.absolute()))
    for kernels in (project.absolute() / "kernels", Path(shipped_folder("kernels")).absolute()):
        if absolute.is_relative_to(kernels):
            return _Place(absolute, kernels.parent, "")
    return _Place(absolute, absolute.parent, "kernels")  # the task of another project


def _list_files(folder: Path, kernel: Kernel) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one[0] != "." and one != "__pycache__")
        shown = (Path(where, name) for name in sorted(names) if name[0] != ".")
        yield from (path for path in shown if path.is_file())
    named = [*kernel.reference.files, *(one.file for one in kernel.baselines)]
    named += [one.file for one in kernel.extra_cases]
    for variant in kernel.variants:
        sources = (variant.source, *variant.also)
        named += sources
        if variant.is_compiled:
            flags = (flag[2:] for flag in variant.flags if flag.startswith("-I"))
            headers = [folder / name for name in flags if not Path(name).is_absolute()]
            for source in sources:
                yield from find_source_files(folder / source, headers)
    for name in named:
        yield folder / name
        if name.startswith("../") and name.endswith(".py"):  # it may import what is beside it
            yield from sorted((folder / name).parent.glob("*.py"))


def _require_harmless(packed: PackedKernel) -> None:
    """Raise BadValueError for what ``pack_kernel`` would not have made."""
    names = [packed.folder, *packed.files]
    hostile = next((one for one in names if not _is_inside(one)), None)
    if hostile is not None:
        raise BadValueError(f"{hostile!r} is no path inside a project; nothing was unpacked")
    size = sum(map(len, packed.files.values()))
    if size > MAX_PACKED_BYTES or len(packed.files) > MAX_PACKED_FILES:
        raise BadValueError(f"{len(packed.files)} files of {size} bytes are too many to unpack")


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    plain = name.isprintable() and "\\" not in name and all(len(one) < 256 for one in parts)
    return plain and len(parts) > 1 and not any(one in ("", ".", "..", ".kb") for one in parts)


def _require_private(base: Path) -> None:
    """Create the folder of the projects, which only this user may enter.

    Raises:
        EnvironmentGapError: It is a link, or belongs to another user.
        OSError: It cannot be created.
    """
    with suppress(FileExistsError):
        base.mkdir(mode=0o700, parents=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise EnvironmentGapError(
            f"{base} is not a folder of this user", "remove it, or set XDG_CACHE_HOME to another"
        )
    if found.st_mode & 0o077:
        base.chmod(0o700)


def _is_whole(project: Path, packed: PackedKernel) -> bool:
    """Return whether the project is there with this content, which a full disk may have cut."""
    try:
        return all(
            (project / name).read_bytes() == content for name, content in packed.files.items()
        )
    except OSError:
        return False


def _write_project(packed: PackedKernel, base: Path, project: Path) -> None:
    """Write a project beside its place and rename it; of two processes at once, one is first."""
    scratch = Path(tempfile.mkdtemp(prefix=_UNFINISHED_PREFIX, dir=base))
    try:
        (scratch / ".kb").mkdir()  # makes it a project
        for name, content in packed.files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(content)
        if project.is_dir() and not _is_whole(project, packed):
            with suppress(OSError):  # another process replaced it
                project.rename(base / f"{scratch.name}-damaged")
        with suppress(OSError):  # another process was first
            scratch.rename(project)
        if not _is_whole(project, packed):
            raise OSError(errno.EIO, "what was written differs", str(project))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
