"""Runs a program where its project, or its folder of temporary files, is on a full disk."""

import os
import subprocess
import sys

_PREPARE = """
set -e
mount -t tmpfs -o size=$2k none "$1"
cp -r "$3/." "$1/"
dd if=/dev/zero of="$1/filler" bs=1024 count=$(($4)) 2>/dev/null || true
cd "$5"
shift 5
exec "$@"
"""


def why_impossible(folder):
    """Return why no file system can be mounted here; None where it can."""
    done = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(folder)],
        capture_output=True,
        text=True,
    )
    return done.stderr.strip() or None if done.returncode else None


def command_on_full_disk(disk, project, argv, *, template, free_kib, size_kib=4096):
    """Return the command that runs ``argv`` in ``project`` with a full file system at ``disk``.

    ``template`` is copied to the disk first; then ``free_kib`` of its ``size_kib`` stay free.
    """
    used = sum(
        (4096 + path.lstat().st_size) // 1024 + 4 for path in [template, *template.rglob("*")]
    )
    filler = size_kib - used - free_kib if free_kib else size_kib
    words = [str(disk), str(size_kib), str(template), str(filler), str(project)]
    return ["unshare", "-rm", "sh", "-c", _PREPARE, "sh", *words, *argv]


def run_kb_on_full_disk(disk, project, words, **options):
    """Return the finished process of a ``kb`` command."""
    program = "import sys; from kernelkb.cli import start; sys.exit(start())"
    argv = command_on_full_disk(disk, project, [sys.executable, "-c", program, *words], **options)
    env = dict(os.environ)
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, env=env)
