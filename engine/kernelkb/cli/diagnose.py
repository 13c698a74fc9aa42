"""``kb diagnose``: known failures in the log of a build, a load or a run."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from kernelkb.actions.advice.diagnose import diagnose_log
from kernelkb.cli.options import add_json_argument
from kernelkb.errors import KbError
from kernelkb.render.text.symptoms import format_diagnosis_lines


def add_diagnose_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``kb diagnose``."""
    parser.add_argument("log", metavar="LOG", nargs="?", default="-", help="a file; - is stdin")
    parser.add_argument("--gpu", metavar="NAME", help="the GPU that the build was for")
    add_json_argument(parser)


def run_diagnose(options: Namespace) -> int:
    """Name the known failures in the log of a build, a load or a run, each with its cure.

    The first cause comes first, warnings come last. Without a known failure it prints the first
    error line and how much was read. Exits 1 when the log shows a known failure or warning.

    kb diagnose build.log
    python setup.py build_ext 2>&1 | kb diagnose -
    """
    result = diagnose_log(_read_log(options.log), options.gpu)
    if options.json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        source = "stdin" if options.log == "-" else options.log
        lines = format_diagnosis_lines(
            result["symptoms"], result["first_error"], result["read"], source
        )
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(result["symptoms"]))


def _read_log(path: str) -> str:
    if path == "-":
        return sys.stdin.buffer.read().decode("utf-8", errors="replace")
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise KbError(f"cannot read {path}: {error.strerror}") from error
