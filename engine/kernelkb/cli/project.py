"""The commands that set up a project, check this machine and add a variant to a kernel."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.cli.options import add_target_argument, parse_written_file
from kernelkb.cli.output import interruptible_measurement, print_json, print_lines, print_record
from kernelkb.errors import BadValueError
from kernelkb.safety.paths import read_kernel_name

if TYPE_CHECKING:
    from kernelkb.actions.init.init_project import InitResult


def add_init_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb init``."""
    parser.add_argument(
        "file", nargs="?", help="the kernel's source; default: the only kernel found"
    )
    parser.add_argument("--candidate", metavar="FILE", help="for a KernelBench task: its ModelNew")
    add_target_argument(parser, "auto goes by the source, for a KernelBench task by the machine")
    parser.add_argument("--name", help="the kernel's; default: the file's, or the operation's")
    parser.add_argument(
        "--from",
        dest="program",
        metavar="COMMAND",
        help="run this program and record the calls of --op, or the launches of the file's kernel",
    )
    parser.add_argument(
        "--op",
        metavar="NAME",
        help="with --from: my_op, module:function, torch.softmax, ns::op, or a Triton kernel",
    )
    parser.add_argument("--timeout", type=float, metavar="S", help="of --from; default: 600")
    parser.add_argument("--kernel", metavar="NAME", help="which function of a file with several")
    parser.add_argument(
        "--set",
        dest="answers",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="say what the source does not: 'x=[rows, 64]', x.role=input, x.dtype=float16, "
        "eps=1e-6, reference=mine; a name alone takes the guess for it",
    )


def run_init(options: Namespace) -> int:
    """Set up KernelKB in a project: a kernel.yaml for its kernel, sessions/, the MCP entry.

    Exits 1 while something is left to fill in, or the draft fails where it is run, or does not
    repeat the calls that were recorded.

    kb init src/add.cu
    kb init other/add.cu --name other_add
    kb init src/ops.cu --kernel layer_norm
    kb init src/add.cu --set 'x=[rows, cols]' --set reference=mine
    kb init 23_Softmax.py --candidate mine.py
    kb init --from "python train.py --steps 3" --op my_op
    kb init src/add.cu --from "./app 4096"
    """
    result = _init_from(options)
    if options.json:
        print_json(result)
        return int(bool(result.to_fill) or not result.is_usable)
    print_lines(
        [
            *(f"wrote {name}" for name in result.written),
            *(f"kept  {name}" for name in result.kept),
            *(f"warning: {text}" for text in result.warnings),
            *(f"say {mark}" for mark in result.to_fill),
        ]
    )
    run = None
    is_complete = result.is_usable and not result.to_fill
    if is_complete and any(name.endswith("/kernel.yaml") for name in result.written):
        from kernelkb.actions.init.draft_run import run_draft

        with interruptible_measurement("init"):
            run = run_draft(result.kernel)
        print_lines(filter(None, [run.text]))
    print_lines([f"next: {(run and run.next) or result.next}"])
    if result.say not in ("", result.next):
        print_lines([f"or, where each guess is right: {result.say}"])
    return int(not is_complete or (run is not None and run.is_unusable))


def _init_from(options: Namespace) -> InitResult:
    if options.program is None and options.op is None:
        from kernelkb.actions.init.init_project import init_project

        return init_project(
            options.file,
            options.candidate,
            options.target,
            options.name,
            options.kernel,
            options.answers,
        )
    limit = {} if options.timeout is None else {"timeout_s": options.timeout}
    if options.program is not None and options.file and not (options.op or options.candidate):
        from kernelkb.actions.init.init_observed import init_run

        with interruptible_measurement("init --from"):
            return init_run(
                options.file,
                options.program,
                options.kernel,
                options.name,
                options.answers,
                **limit,
            )
    if options.program is None or options.op is None or options.file or options.candidate:
        raise BadValueError(
            "--from takes --op of a Python program, or the file of a C++ program's kernel: "
            'kb init --from "python train.py --steps 3" --op my_op; '
            'kb init k.cu --from "./app 4096"'
        )
    from kernelkb.actions.init.init_observed import init_observed

    with interruptible_measurement("init --from"):
        return init_observed(options.program, options.op, options.name, **limit)


def add_env_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb env``."""
    add_target_argument(parser)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure what the GPU reaches in practice; later answers use it",
    )


def run_env(options: Namespace) -> int:
    """Print what this machine can build and measure, and the cure for every gap.

    Exits 1 when something required is missing.

    kb env --target cuda
    kb env --measure
    """
    from kernelkb.actions.project.bench_target import validate_machine
    from kernelkb.actions.sessions.sessions import step_to_begin
    from kernelkb.cli.screen import print_environment

    if options.measure:
        from kernelkb.actions.kernels.measure_variant import measure_gpu_peaks
        from kernelkb.render.text.measurements import format_peaks_lines

        with interruptible_measurement("env --measure"):
            peaks = measure_gpu_peaks()
        return print_record(peaks, format_peaks_lines(peaks), as_json=options.json)
    environment = validate_machine(options.target, fresh=True)
    if options.json:
        print_json(environment)
    else:
        print_environment(environment)
        if environment.machine is not None:
            print_lines([f"next: {step_to_begin().as_shell_words()}"])
    return int(environment.machine is None)


def add_variant_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb variant``."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = verbs.add_parser("add", help="copy a variant's file and register it in kernel.yaml")
    add.add_argument(
        "kernel", type=read_kernel_name, help="the kernel's name; kb show kernels lists them"
    )
    add.add_argument(
        "name", help="of the new variant: the fix that it will apply, or other words with hyphens"
    )
    add.add_argument(
        "--from", dest="source", metavar="ID", help="the variant to copy; default: the plain one"
    )
    add_target_argument(add, "needed where the copied variant exists for both")


def run_variant(options: Namespace) -> int:
    """Copy a variant under a new name, so that one change to it is timed against the original.

    A name that is a fix's id says in kernel.yaml that the variant applies that fix.

    kb variant add row_softmax parallelize-rows --from naive --target cpu
    """
    from kernelkb.actions.project.variants import add_variant

    added = add_variant(options.kernel, options.name, options.source, options.target)
    follow = added.next_step.as_shell_words()
    lines = [
        *(f"wrote {file}" for file in added.written),
        f"change one thing in {added.path}, then",
        f"next: {follow}",
    ]
    record = {**added.model_dump(mode="json"), "next": [follow]}
    return print_record(record, lines, as_json=options.json)


def add_web_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb web``."""
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=8766, help="default 8766; 0: a free one")
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="allow any --host: who has the token can run code here, and it crosses the network in "
        "the clear",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="the token of a file (mode 600); default: KERNELKB_TOKEN, else a new one is printed",
    )
    parser.add_argument("--read-only", action="store_true", help="nothing can be changed or run")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(
        "--export",
        type=parse_written_file,
        metavar="DIR",
        help="write a static copy instead of serving",
    )
    parser.add_argument("--session", metavar="ID", help="with --export: only this session")


def run_web(options: Namespace) -> int:
    """Serve the project as a page on this machine, or write a copy of it to a folder.

    kb web
    kb web --read-only --port 0 --no-browser
    kb web --export site
    kb web --export site --session 2026-11-21-gemm
    """
    if options.export is not None:
        from kernelkb.web.export import export_site

        count = export_site(options.export, options.session)
        record = {"folder": str(options.export), "pages": count}
        lines = [f"{count} pages in {options.export}; open {options.export / 'index.html'}"]
        return print_record(record, lines, as_json=options.json)
    if options.session is not None:
        raise BadValueError("--session chooses what --export writes; add --export DIR")
    from kernelkb.safety.http_access import HttpConfig
    from kernelkb.web.server import serve_page

    serve_page(
        HttpConfig(options.host, options.port, token_file=options.token_file),
        allow_remote=options.allow_remote,
        writes=not options.read_only,
        opens_browser=not options.no_browser and sys.stdout.isatty(),
    )
    return 0
