"""Command line of ``kb-mcp``: transport, allowed clients, toolsets and workspace."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from kernelkb import __version__
from kernelkb.errors import did_you_mean
from kernelkb.safety.http_access import HttpConfig, is_loopback
from kernelkb_mcp.server_config import TOOLSETS, ServerConfig

_EXAMPLES = """\
examples:
  kb-mcp                                   over stdio, in the project around this folder
  kb-mcp --read-only                       knowledge and advice; builds, runs and writes nothing
  kb-mcp --toolsets knowledge,sessions     without the tools that compile and run code
  kb-mcp --workspace . --workspace ../ops  a second folder that may be read and built
  kb-mcp --run-programs                    profile_kernel(command='python train.py') runs it
  kb-mcp --http --port 8765                over HTTP on this machine, with a token
  kb-mcp --http --token-file ~/.kb-token   the token of a file (mode 600), or of KERNELKB_TOKEN
"""
_REMOTE_WARNING = (
    "everyone who can reach this port and has the token can compile and run code here with your "
    "rights, and the token crosses the network in the clear unless a proxy adds TLS"
)


def parse_command_line(argv: Sequence[str] | None = None) -> tuple[ServerConfig, HttpConfig | None]:
    """Parse the command line; without an ``HttpConfig`` the server uses stdio.

    Raises:
        SystemExit: 2 after a usage error (on stderr), 0 after --help or --version.
    """
    parser = _build_parser()
    given = parser.parse_args(argv)
    launch = ServerConfig(
        toolsets=_parse_toolsets(parser, given.toolsets),
        read_only=given.read_only,
        run_programs=given.run_programs,
        workspace=_resolve_folders(parser, given.workspace),
    )
    if not given.http:
        for name in (
            "host",
            "port",
            "allow_remote",
            "allowed_host",
            "allowed_origin",
            "token_file",
        ):
            if getattr(given, name) != parser.get_default(name):
                parser.error(
                    f"--{name.replace('_', '-')} needs --http; without it the server uses stdio"
                )
        return launch, None
    host = given.host or "127.0.0.1"
    if not is_loopback(host) and not given.allow_remote:
        parser.error(
            f"--host {host} is not loopback: add --allow-remote if you mean that {_REMOTE_WARNING}"
        )
    return launch, HttpConfig(
        host=host,
        port=8765 if given.port is None else given.port,
        allowed_hosts=tuple(given.allowed_host),
        allowed_origins=tuple(given.allowed_origin),
        token_file=given.token_file,
    )


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kb-mcp",
        description="Serve KernelKB to an MCP client: over stdio, or over HTTP with --http.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kb-mcp {__version__}")
    what = parser.add_argument_group("what clients may do")
    what.add_argument(
        "--read-only",
        action="store_true",
        help="only the knowledge tools, and nothing is written; overrides --toolsets",
    )
    what.add_argument(
        "--toolsets", metavar="A,B", help=f"which of {', '.join(TOOLSETS)}; all by default"
    )
    what.add_argument(
        "--run-programs",
        action="store_true",
        help="profile_kernel(command=...) runs any program, with your rights and outside of every "
        "workspace",
    )
    what.add_argument(
        "--workspace",
        metavar="DIR",
        action="append",
        default=[],
        help="folder; nothing of yours outside of it is read, built or run; repeatable; "
        "the project around the working directory by default",
    )
    _add_http(parser.add_argument_group("HTTP, always with a bearer token"))
    return parser


def _add_http(web: argparse._ArgumentGroup) -> None:
    web.add_argument("--http", action="store_true", help="serve streamable HTTP at /mcp")
    web.add_argument("--host", help="address to listen on; 127.0.0.1 by default")
    web.add_argument(
        "--port", type=_parse_port, help="8765 by default; 0 chooses a free port and prints it"
    )
    web.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token; default: KERNELKB_TOKEN, else a new one is printed at start",
    )
    web.add_argument(
        "--allow-remote", action="store_true", help=f"allow any --host: {_REMOTE_WARNING}"
    )
    web.add_argument(
        "--allowed-host",
        metavar="NAME[:PORT]",
        action="append",
        default=[],
        help="another name by which clients call this server; repeatable",
    )
    web.add_argument(
        "--allowed-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="a web page's origin, as http://localhost:6274, that may call; none by default",
    )


def _parse_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def _parse_toolsets(parser: argparse.ArgumentParser, text: str | None) -> tuple[str, ...]:
    if text is None:
        return tuple(TOOLSETS)
    chosen = [name.strip() for name in text.split(",")]
    for name in chosen:
        if name not in TOOLSETS:
            near = did_you_mean(name, TOOLSETS)
            parser.error(f"unknown toolset {name!r}{near}; there are {', '.join(TOOLSETS)}")
    return tuple(chosen)


def _resolve_folders(parser: argparse.ArgumentParser, names: Sequence[str]) -> tuple[Path, ...]:
    folders = tuple(Path(name).expanduser().resolve() for name in names)
    for folder in folders:
        if not folder.is_dir():
            parser.error(f"--workspace {folder} is not a folder; name an existing one")
        if folder == Path(folder.anchor):
            parser.error(f"--workspace {folder} would exclude nothing; name the project's folder")
    return folders
