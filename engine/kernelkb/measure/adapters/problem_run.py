"""Builds a ComputeEval problem with a candidate and runs its test and benchmark in a sandbox.

The problem's commands are the user's; the candidate's code runs inside the programs that they
build, so these run as a candidate does, and their exit status is all that is known of them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kernelkb.measure.build.compiler_output import find_first_error
from kernelkb.measure.machine.tools import find_nvcc
from kernelkb.measure.process.compiler_sandbox import sandbox_command
from kernelkb.measure.process.scratch_folders import remove_afterwards
from kernelkb.measure.process.subprocesses import ProcessResult, run_supervised
from kernelkb.model.kernels.foreign import ComputeEvalProblem, SourceFile

_SANDBOX_SCRIPT = Path(__file__).parents[1] / "process" / "candidate_sandbox.py"
_DEFAULT_TIMEOUT_S = 60.0
_BUILD_TIMEOUT_S = 300.0
_FILE_BYTES = 256 * 2**20
_AF_UNIX = 1
_TIME_LINE = re.compile(r"^COMPUTE_EVAL_TIME_MS:\s*([0-9.eE+-]+)\s*$", re.MULTILINE)
_SHELL_CHARACTERS = re.compile(r"[|&;<>()$`*?\[\]{}~#=\n]")


class Workspace(NamedTuple):
    """A folder with a problem's files and a candidate's, and a folder for logs beside it."""

    folder: Path
    problem: ComputeEvalProblem
    uses_gpu: bool

    def build(self) -> str | None:
        """Run the build command; return the compiler's first error, None where there is none."""
        if self.problem.build_command is None:
            return None
        nvcc = find_nvcc()
        tools = [str(Path(nvcc).parent)] if nvcc else []
        toolkit = [Path(nvcc).resolve().parents[1]] if nvcc else []
        argv = ["/bin/sh", "-c", self.problem.build_command]
        path = os.pathsep.join([*tools, os.environ.get("PATH", "")])
        end = run_supervised(
            sandbox_command(argv, self.folder, toolkit),
            log=self.folder.parent / "build.log",
            timeout_s=_BUILD_TIMEOUT_S,
            env={"TMPDIR": str(self.folder), "PATH": path},
            cwd=self.folder,
        )
        if end.timed_out:
            return f"error: the build took longer than {_BUILD_TIMEOUT_S:.0f} s"
        return find_first_error(end.output) if end.returncode else None

    def run(self, command: str) -> ProcessResult:
        """Run a command in the sandbox of a candidate; a shell only where it needs one."""
        words = shlex.split(command)
        plain = not _SHELL_CHARACTERS.search(command)
        program = self._find_program(words[0]) if words and plain else None
        argv = [program, *words[1:]] if program else ["/bin/sh", "-c", command]
        policy = {
            "families": [] if self.uses_gpu else [_AF_UNIX],
            "folder": str(self.folder),
            "writable": [],
            "fork": program is None,
            "file_bytes": _FILE_BYTES,
        }
        return run_supervised(
            [sys.executable, "-P", str(_SANDBOX_SCRIPT), json.dumps(policy), *argv],
            log=self.folder.parent / "run.log",
            timeout_s=self.problem.timeout_seconds or _DEFAULT_TIMEOUT_S,
            env={"TMPDIR": str(self.folder)},
            cwd=self.folder,
        )

    def _find_program(self, word: str) -> str | None:
        return str(self.folder / word) if "/" in word else shutil.which(word)

    def read_layers(self) -> tuple[str, ...]:
        """Return the sandbox layers of the last run.

        They are written before the candidate's code starts, to a file that it could change.
        """
        try:
            rows = json.loads((self.folder / "layers.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        return tuple(str(row) for row in rows) if isinstance(rows, list) else ()


@contextmanager
def open_workspace(
    problem: ComputeEvalProblem, files: Iterable[SourceFile], *, uses_gpu: bool
) -> Iterator[Workspace]:
    """Write a problem's and a candidate's files to a new folder; it is removed at the end.

    A candidate's file replaces one of the context that has its path.
    """
    with remove_afterwards(Path(tempfile.mkdtemp(prefix="kernelkb-"))) as parent:
        folder = parent / "problem"
        folder.mkdir()
        for file in (*problem.context_files, *problem.test_files, *files):
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.content, encoding="utf-8")
        yield Workspace(folder, problem, uses_gpu)


def parse_reported_ms(output: str) -> float | None:
    """Return the last milliseconds that a benchmark program reported; None: none above 0."""
    found = _TIME_LINE.findall(output)
    try:
        value = float(found[-1]) if found else 0.0
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
