"""How near kernels of known mix come to the ceilings that ``kb env --measure`` learnt of this GPU.

    python -m benchmarks.ceilings --out FILE     (a GPU machine with nvcc: within four minutes)
    python -m benchmarks.ceilings --table FILE   the table of such a file again, anywhere
    python -m benchmarks.ceilings --dry-run      tiny calls on a CPU: whether all of it runs
    python -m benchmarks.ceilings --library DIR  (with ncu) profiles of 30 calls of libraries, for
                                                 benchmarks.zoo stop --library DIR

The kernels of ``ceilings.cu`` do one kind of work each; the calls of ``library_calls.py`` are those
of cuBLAS, cuDNN, cub and torch. What each must move and do is known by construction; its ceiling is
what ``kernelkb.device_math.roofline.find_mix_ceiling`` says, as in answers of ``kb``.
A ceiling is right where a kernel that is known to be at it takes its time within 8 %.
FILE gets a line of JSON after each kernel: the peaks first, then the kernels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.library_calls import CALLS

from kernelkb.actions.kernels.measure_variant import measure_gpu_peaks
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics, list_rates
from kernelkb.device_math.roofline import Mix, find_mix_ceiling, flatten_rates, time_mix
from kernelkb.errors import KbError
from kernelkb.measure.machine.host import find_cuda_tool, find_nvcc

SOURCE = Path(__file__).with_suffix(".cu")
ROOT = Path(__file__).parent.parent
WITHIN = 0.08
ALLOWED_S = 230.0
"""For all of it; kernels that are left then are named as not run."""
KERNEL_S, CALL_S, COMPILE_S, GROUP_S = 20.0, 40.0, 120.0, 60.0
CALLS_S = 70.0
"""Of these, what is kept for the calls of libraries."""
SHIPPED = "h200"
"""The GPU whose ceilings a dry run takes."""
PROFILED = (
    *("add fp32", "add bf16", "mul fp16", "exp fp32", "gelu bf16", "silu fp32"),
    *("softmax", "log_softmax", "layer_norm", "cumsum rows", "flip", "transpose"),
    *("cast", "clone", "sum", "max", "sum of rows", "sum of columns"),
    *("argmax", "matrix by vector", "cumsum", "index_select 2 KiB", "embedding 256 B", "take 4 B"),
    *("matmul bf16", "matmul fp8", "conv 3x3", "attention", "scatter_add 1M", "avg_pool"),
)
"""The 30 calls whose profiles are taken, in groups of six."""
_GROUP = 6


class Row(NamedTuple):
    """A kernel with its time and its ceiling."""

    kernel: str
    us: float
    ceiling_us: float | None
    """None: a rate that it needs was not measured."""
    resource: str
    lacks: tuple[str, ...]
    """Parts of its mix without a rate."""
    at_ceiling: bool

    @property
    def is_right(self) -> bool:
        """Whether it takes the time of its ceiling."""
        return self.ceiling_us is not None and abs(self.us / self.ceiling_us - 1) <= WITHIN


def build_mix(fields: Mapping[str, Any]) -> Mix:
    """Return the mix of a line of JSON."""
    work = tuple((str(pipe), float(count)) for pipe, count in fields.get("work", ()))
    return Mix(**{**fields, "work": work})


def find_rates(peaks: Mapping[str, Any] | None, device: str | None) -> dict[str, Any]:
    """Return the ceilings of the GPU as an answer takes them.

    Args:
        peaks: The fields of ``PracticalPeaks`` that were measured; None: those that are shipped.
        device: Id of the GPU.
    """
    rules = load_compiled_rules()
    known = complete_metrics(rules, flatten_rates(peaks or {}), device)
    return list_rates(rules, known, device)[0]


def judge(rates: Mapping[str, Any], line: Mapping[str, Any]) -> Row:
    """Return a measured kernel beside its ceiling."""
    mix = build_mix(line["mix"])
    ceiling = find_mix_ceiling(rates, mix)
    lacks = tuple(part.resource for part in time_mix(rates, mix) if part.us is None)
    return Row(
        str(line["kernel"]),
        float(line["us"]),
        None if ceiling is None else ceiling.us,
        "" if ceiling is None else ceiling.resource,
        lacks,
        bool(line["at_ceiling"]),
    )


def format_table(lines: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table of the lines of a file."""
    kept = list(lines)
    first: Mapping[str, Any] = next((line for line in kept if "peaks" in line), {})
    rates = find_rates(first.get("peaks"), first.get("device", SHIPPED))
    rows = [judge(rates, line) for line in kept if "us" in line]
    heads = f"{'ceiling us':>11}{'measured us':>12}{'ratio':>7}  {'by':<15}at its ceiling"
    yield f"{'kernel':<26}{heads}"
    for row in rows:
        ceiling, ratio = "?", ""
        if row.ceiling_us is not None:
            ceiling, ratio = f"{row.ceiling_us:.1f}", f"{row.us / row.ceiling_us:.2f}"
        mark = "yes" if row.at_ceiling else ""
        if row.at_ceiling and row.ceiling_us is not None and not row.is_right:
            mark = "yes, missed"
        lacks = f" not measured: {', '.join(row.lacks)}" if row.lacks else ""
        by = f"{row.resource:<15}{mark}{lacks}"
        yield f"{row.kernel:<26}{ceiling:>11}{row.us:>12.1f}{ratio:>7}  {by}"
    for line in kept:
        if "error" in line:
            yield f"{line.get('kernel', 'peaks'):<26} {line['error']}"
    known = [row for row in rows if row.at_ceiling and row.ceiling_us is not None]
    right = sum(row.is_right for row in known)
    yield f"{right} of {len(known)} known to be at their ceiling are within {WITHIN:.0%}"
    if lacking := sum(row.at_ceiling and row.ceiling_us is None for row in rows):
        yield f"{lacking} have no ceiling here: kb env --measure did not learn it"


def measure_peaks() -> dict[str, Any]:
    """Return the first line of a file: the peaks of the GPU, learnt now; or why there are none."""
    try:
        peaks = measure_gpu_peaks()
    except KbError as error:
        return {"peaks": None, "device": SHIPPED, "error": f"ceilings of {SHIPPED} taken: {error}"}
    return {"peaks": peaks.model_dump(mode="json"), "device": peaks.device}


def start_compiler(folder: Path) -> subprocess.Popen[str]:
    """Start to compile ``ceilings.cu`` to a program of that name in a folder."""
    command = [find_nvcc() or "nvcc", "-O3", "-std=c++17", "-arch=native"]
    command += ["-o", str(folder / SOURCE.stem), str(SOURCE)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def time_written(
    compiler: subprocess.Popen[str], folder: Path, until: float
) -> Iterator[dict[str, Any]]:
    """Yield a line for each kernel of ``ceilings.cu``; one that fails is a line with its error."""
    program = folder / SOURCE.stem
    try:
        _, said = compiler.communicate(timeout=COMPILE_S)
        if compiler.returncode:
            raise subprocess.CalledProcessError(compiler.returncode, "nvcc", stderr=said)
        names = run_program([str(program), "list"]).splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        compiler.kill()
        yield {"kernel": SOURCE.name, "error": describe_failure(error)}
        return
    for name in names:
        if time.monotonic() > until:
            yield {"kernel": name, "error": "not run: no time is left"}
            continue
        try:
            yield dict(json.loads(run_program([str(program), name])))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            yield {"kernel": name, "error": describe_failure(error)}


def run_program(command: Sequence[str]) -> str:
    """Return what a program printed.

    Raises:
        subprocess.SubprocessError: It failed or took too long.
    """
    done = subprocess.run(command, check=True, timeout=KERNEL_S, capture_output=True, text=True)
    return done.stdout.strip()


def describe_failure(error: Exception) -> str:
    """Return the last line that a program printed, or what Python says of its end."""
    printed = getattr(error, "stderr", None) or b""
    text = printed.decode(errors="replace") if isinstance(printed, bytes) else str(printed)
    return (text.strip().splitlines() or [str(error)])[-1]


def time_calls(names: Sequence[str], until: float, *, tiny: bool) -> Iterator[dict[str, Any]]:
    """Yield a line for each call; after one that ends its process, another goes on behind it."""
    left = list(names)
    while left and time.monotonic() < until:
        command = [sys.executable, "-m", "benchmarks.library_calls", "time"]
        command += [*(["--tiny"] if tiny else []), *left]
        limit = min(CALL_S * len(left), max(1.0, until - time.monotonic()))
        before = len(left)
        end, began = yield from _read_calls(command, left, limit)
        if left and began is None and len(left) == before:  # it cannot run at all
            yield from ({"kernel": name, "error": end} for name in left)
            return
        if left and began == left[0]:
            yield {"kernel": left.pop(0), "error": end}
    yield from ({"kernel": name, "error": "not run: no time is left"} for name in left)


def _read_calls(
    command: Sequence[str], left: list[str], limit_s: float
) -> Generator[dict[str, Any], None, tuple[str, str | None]]:
    """Yield the lines of a child as they come, and take their names from ``left``.

    Returns:
        How it ended, and what it had begun last.
    """
    deadline = ["timeout", "--kill-after=5", f"{limit_s:.0f}"]
    began = None
    with subprocess.Popen(
        [*deadline, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        for text in child.stdout or ():
            line = json.loads(text) if text.startswith("{") and text.endswith("}\n") else {}
            began = line.get("begins", began)
            if line.get("kernel") in left:
                left.remove(line["kernel"])
                yield line
    return f"its process ended with {child.returncode}", began


def run_all(out: Path, *, dry: bool) -> int:
    """Measure everything, write each line as it comes, and print the table."""
    until = time.monotonic() + ALLOWED_S
    lines: list[dict[str, Any]] = []
    with out.open("w", encoding="utf-8") as file, tempfile.TemporaryDirectory() as folder:

        def keep(found: Iterable[dict[str, Any]]) -> None:
            for line in found:
                lines.append(line)
                file.write(f"{json.dumps(line)}\n")
                file.flush()

        if not dry:
            compiler = start_compiler(Path(folder))
            keep([measure_peaks()])
            keep(time_written(compiler, Path(folder), until - CALLS_S))
        keep(time_calls(list(CALLS), until, tiny=dry))
    print("\n".join(format_table(lines)))
    if dry:
        print(f"a dry run: tiny calls on a CPU, ceilings of {SHIPPED}; the times mean nothing")
    return 0


def profile_library(folder: Path) -> int:
    """Write a report of each group of calls, and ``calls.jsonl`` with the work of each call."""
    folder.mkdir(parents=True, exist_ok=True)
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        print("ncu was not found")
        return 2
    until = time.monotonic() + 195.0
    with (folder / "calls.jsonl").open("w", encoding="utf-8") as file:
        for number in range(0, len(PROFILED), _GROUP):
            names, report = PROFILED[number : number + _GROUP], f"library-{number // _GROUP}"
            limit = min(GROUP_S, until - time.monotonic())
            if limit < 1:
                print(f"not profiled: {', '.join(names)}: no time is left")
                continue
            command = ["timeout", "--signal=INT", "--kill-after=5", f"{limit:.0f}", ncu]
            command += ["--set", "full", "--profile-from-start", "off", "-f"]
            command += ["-o", str(folder / report), sys.executable]
            command += ["-m", "benchmarks.library_calls", "profile", *names]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            for text in done.stdout.splitlines():
                if text.startswith("{"):
                    row = {**json.loads(text), "report": f"{report}.ncu-rep"}
                    file.write(f"{json.dumps(row)}\n")
                    file.flush()
            if done.returncode:
                print(f"{report}: ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    print("\n".join(f"{one.name} {one.stat().st_size:,} bytes" for one in sorted(folder.iterdir())))
    return 0


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that may have ended early."""
    return [json.loads(text) for text in file.read_text("utf-8").splitlines() if text.endswith("}")]


def main() -> int:
    """Measure, print, or profile."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_mutually_exclusive_group(required=True)
    verbs.add_argument("--out", metavar="FILE", type=Path)
    verbs.add_argument("--table", metavar="FILE", type=Path)
    verbs.add_argument("--library", metavar="DIR", type=Path)
    verbs.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if options.table:
        print("\n".join(format_table(read_lines(options.table))))
        return 0
    if options.library:
        return profile_library(options.library.absolute())
    if options.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            return run_all(Path(folder) / "ceilings.jsonl", dry=True)
    return run_all(options.out, dry=False)


if __name__ == "__main__":
    sys.exit(main())
