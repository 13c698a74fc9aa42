"""Replaces a file as a whole: a full disk or a kill leaves the old one as it was."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, body: str | bytes) -> None:
    """Write a file beside the old one, sync it to the disk, and rename it; keeps its mode.

    Args:
        path: The file, which need not exist; a link is followed. Its folder must exist.
        body: The content; text is written as UTF-8.

    Raises:
        OSError: The file cannot be written, and is as it was.
    """
    target = path.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    data = body.encode() if isinstance(body, str) else body
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
