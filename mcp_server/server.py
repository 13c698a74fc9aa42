"""Build the MCP server and serve it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from kernelkb import __version__
from kernelkb.errors import KbError
from kernelkb_mcp.completion import complete_on
from kernelkb_mcp.instructions import instructions
from kernelkb_mcp.jobs import Jobs
from kernelkb_mcp.options import Listen, parse
from kernelkb_mcp.prompts import add_prompts
from kernelkb_mcp.resources import CACHE_HINTS
from kernelkb_mcp.server_config import Launch, enter
from kernelkb_mcp.tasks import Tasks
from kernelkb_mcp.token import VARIABLE, token_from
from kernelkb_mcp.tool_adapter import KernelServer, strict_tool
from kernelkb_mcp.tools import (
    bench_kernel,
    build_kernel,
    check_environment,
    job,
    log_session,
    profile_kernel,
    read_entry,
    recommend_fix,
    search_knowledge,
)

_MODULES: tuple[Any, ...] = (
    search_knowledge,
    read_entry,
    recommend_fix,
    check_environment,
    build_kernel,
    bench_kernel,
    profile_kernel,
    job,
    log_session,
)
"""Each holds a function of its own name, a TITLE and HINTS."""

_LONG = ("build_kernel", "bench_kernel", "profile_kernel")
"""What a client with the tasks extension may get as a task."""
_LOOKS = read_entry.HINTS
"""Of every tool where the open session is not written to."""


def build_server(launch: Launch | None = None) -> KernelServer:
    """Return the server with the tools that it is launched with, in a fixed order."""
    chosen = launch or Launch()
    jobs = Jobs(chosen.inline_s)
    long = [name for name in _LONG if name in chosen.tools]
    modules = {module.__name__.rpartition(".")[2]: module for module in _MODULES}
    server = KernelServer(
        chosen,
        cache_hints=CACHE_HINTS,
        title="KernelKB",
        version=__version__,
        instructions=instructions(chosen.tools),
        log_level="WARNING",
        jobs=jobs,
        extensions=[Tasks(dict.fromkeys(long, "optional"), jobs)] if long else [],
        tools=[
            strict_tool(
                getattr(modules[name], name),
                modules[name].TITLE,
                _LOOKS if chosen.read_only else modules[name].HINTS,
            )
            for name in chosen.tools
            if name in modules
        ],
    )
    add_prompts(server)
    complete_on(server)
    return server


def main(argv: Sequence[str] | None = None) -> None:
    """Serve over stdio until the client closes it, or over HTTP; leave no child process behind."""
    launch, listen = parse(argv)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _end)
    _log_plainly()
    try:
        enter(launch)
        server = build_server(launch)
        gc.freeze()  # what is there by now lives to the end
        gc.enable()
        if listen is None:
            os.environ.pop(VARIABLE, None)  # it is no business of compilers and kernels
            server.run("stdio")
        else:
            _serve_http(server, listen)
    finally:
        _end_children()


def _log_plainly() -> None:
    """Log a line for a line: the SDK would load rich, 20 ms of each start, to draw columns."""
    import logging

    from mcp.server.mcpserver import server as sdk

    def plain(level: str = "WARNING") -> None:
        logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")

    vars(sdk)["configure_logging"] = plain


def _serve_http(server: KernelServer, listen: Listen) -> None:
    from kernelkb_mcp.http import serve

    try:
        serve(server, listen, token_from(listen.token_file))
    except (KbError, OSError) as error:
        said = (
            f"cannot listen on {listen.host}:{listen.port}: {error.strerror}"
            if isinstance(error, OSError)
            else str(error)
        )
        sys.stderr.write(f"kb-mcp: {said}\n")
        raise SystemExit(2) from error


def _end(number: int, _frame: FrameType | None) -> None:
    """End at once: the event loop may be waiting for input that never comes."""
    _end_children()
    os._exit(128 + number)


def _end_children() -> None:
    from kernelkb.measure.process.subprocesses import end_all
    from kernelkb.measure.process.worker_jobs import drop_scratch

    end_all()
    drop_scratch()
