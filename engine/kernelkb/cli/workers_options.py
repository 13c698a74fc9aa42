"""Where workers run, and how they are reached: options of several commands."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelkb.cluster.choice import TlsFiles
    from kernelkb.cluster.cluster import Cluster


def add_workers_arguments(parser: ArgumentParser) -> None:
    """Add where workers run, and how they are reached; see docs/workers.md."""
    parser.add_argument(
        "--workers",
        metavar="WHERE",
        help="auto: every GPU of this host; ssh:HOST,HOST; or a scheduler, tls://HOST:PORT",
    )
    parser.add_argument(
        "--listen", metavar="ADDRESS", help="with ssh: the address of this host for the others"
    )
    add_tls_arguments(parser)


def add_tls_arguments(parser: ArgumentParser) -> None:
    """Add the certificates."""
    for name, what in (
        ("ca-file", "who signed the others' certificates"),
        ("cert", "this host's certificate"),
        ("key", "the key of the certificate"),
    ):
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"PEM: {what}")


def read_tls_files(options: Namespace) -> TlsFiles:
    """Return the certificates that the options name."""
    from kernelkb.cluster.choice import TlsFiles

    return TlsFiles(options.tls_ca_file, options.tls_cert, options.tls_key)


def open_workers(options: Namespace) -> AbstractContextManager[Cluster]:
    """Start or join the workers that the options name; all GPUs of this host by default."""
    from kernelkb.cluster.choice import parse_workers
    from kernelkb.cluster.cluster import open_cluster

    choice = parse_workers(options.workers or "auto")
    return open_cluster(choice, listen=options.listen, tls=read_tls_files(options))
