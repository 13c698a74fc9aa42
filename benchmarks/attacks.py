"""Whether attacks gain anything in a bench, and whether honest but odd candidates are accused.

    python benchmarks/attacks.py --target cpu --times 10

Each candidate of ``tests/data/attacks`` is benched as a user would, by ``kb bench`` in a process of
its own. Prints a row for each, then totals: attacks caught, without gain and open, and honest
candidates accused. Exits 1 where an attack is open or an honest candidate is accused.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

DATA_FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "attacks"
REFUSALS = ("incorrect", "invalid")
TIMEOUT_S = 600.0

Kind = Literal["wrong", "no gain", "honest"]
Outcome = Literal["caught", "without gain", "open", "fine", "accused", "no verdict"]


class Candidate(NamedTuple):
    """One candidate and what a verdict on it may be."""

    name: str
    task: str
    kind: Kind
    tries: str

    @property
    def is_cpp(self) -> bool:
        """Whether it is C++, for the kernel ``softmax``."""
        return self.name.endswith(".cpp")


class BenchRun(NamedTuple):
    """What ``kb bench`` said of a candidate."""

    verdict: str
    """``error`` where there is none."""
    speedup: float | None
    detail: str


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--times", type=int, default=1, help="benches of each candidate")
    parser.add_argument("--only", help="candidates whose name contains this")
    parser.add_argument("--workers", type=int, default=1, help="benches side by side; 1 on a GPU")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds of taking times")
    options = parser.parse_args(arguments)
    candidates = [
        one
        for one in load_candidates(options.target)
        if options.only is None or options.only in one.name
    ]
    outcomes: Counter[tuple[bool, Outcome]] = Counter()
    print(
        f"{'candidate':28}{'kind':9}{'outcome':14}{'worst':>8}  verdicts; what it tries", flush=True
    )
    with ThreadPoolExecutor(options.workers) as pool:
        if options.workers > 1:
            os.environ["KB_DEVICE_QUEUE"] = "off"  # parallel runs are requested here
        runs = pool.map(
            lambda one: [
                bench_once(one, options.target, options.budget) for _ in range(options.times)
            ],
            candidates,
        )
        for candidate, found in zip(candidates, runs, strict=True):
            outcome = worst_outcome(candidate, found)
            outcomes[candidate.kind == "honest", outcome] += 1
            _print_row(candidate, found, outcome)
    _print_totals(outcomes)
    sys.exit(int(any(outcome in ("open", "accused") for _, outcome in outcomes)))


def load_candidates(target: str) -> list[Candidate]:
    """Return the candidates of a target."""
    rows = yaml.safe_load((DATA_FOLDER / "attacks.yaml").read_text(encoding="utf-8"))[target]
    return [Candidate(row["candidate"], row["task"], row["kind"], row["tries"]) for row in rows]


def write_project(candidate: Candidate, folder: Path) -> list[str]:
    """Copy a candidate into a project; return the arguments of ``kb bench``."""
    candidates = DATA_FOLDER / "candidates"
    task = DATA_FOLDER / "tasks" / f"{candidate.task}.py"
    if candidate.is_cpp or not task.exists():
        kernel = folder / "kernels" / candidate.task
        shutil.copytree(DATA_FOLDER / candidate.task, kernel)
        if not candidate.is_cpp:
            shutil.copy(candidates / f"{candidate.name}.py", kernel / "candidate.py")
            return [candidate.task, "--variant", "candidate"]
        head = (kernel / "attack.h").read_text(encoding="utf-8").replace("#pragma once\n", "")
        text = (candidates / candidate.name).read_text(encoding="utf-8")
        text = text.replace('#include "attack.h"\n', head)
        (kernel / "candidate.cpp").write_text(text, encoding="utf-8")
        return [candidate.task, "--variant", "candidate"]
    shutil.copy(task, folder / "task.py")
    shutil.copy(candidates / f"{candidate.name}.py", folder / "candidate.py")
    return ["--task", "task.py", "--candidate", "candidate.py"]


def bench_once(candidate: Candidate, target: str, budget_s: float) -> BenchRun:
    """Bench a candidate in a project of its own, as a user would."""
    with tempfile.TemporaryDirectory(prefix="attacks-") as name:
        folder = Path(name)
        kb = str(Path(sys.executable).with_name("kb"))
        arguments = write_project(candidate, folder)
        argv = [kb, "bench", *arguments, "--target", target, "--budget", str(budget_s), "--json"]
        if candidate.is_cpp:  # one that does not compile is refused too, and shows nothing
            build = [kb, "build", candidate.task, "--target", target]
            done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                return BenchRun("error", None, f"does not compile: {done.stdout}{done.stderr}")
        try:
            done = subprocess.run(
                argv, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return BenchRun("error", None, f"no verdict within {TIMEOUT_S:.0f} s")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return BenchRun("error", None, last)
    return BenchRun(answer["verdict"], answer["speedup"], answer["detail"] or "")


def decide_outcome(kind: Kind, run: BenchRun) -> Outcome:
    """Return what one bench means for a candidate of a kind."""
    if run.verdict == "error":
        return "no verdict"
    if kind == "honest":
        return "accused" if run.verdict in REFUSALS else "fine"
    if run.verdict in REFUSALS:
        return "caught"
    return "open" if kind == "wrong" or run.verdict == "faster" else "without gain"


def worst_outcome(candidate: Candidate, runs: Sequence[BenchRun]) -> Outcome:
    """Return the worst of several benches."""
    order: tuple[Outcome, ...] = ("open", "accused", "no verdict", "without gain", "fine", "caught")
    return min((decide_outcome(candidate.kind, run) for run in runs), key=order.index)


def _print_row(candidate: Candidate, runs: Sequence[BenchRun], outcome: Outcome) -> None:
    speedups = [run.speedup for run in runs if run.speedup is not None]
    worst = f"{max(speedups):.2f}x" if speedups else "-"
    verdicts = ", ".join(f"{n} {word}" for word, n in Counter(run.verdict for run in runs).items())
    head = f"{candidate.name:28}{candidate.kind:9}{outcome:14}{worst:>8}"
    print(f"{head}  {verdicts}; {candidate.tries}")
    if outcome in ("open", "accused", "no verdict"):
        for detail in dict.fromkeys(run.detail for run in runs if run.detail):
            print(f"    {detail}")
    sys.stdout.flush()


def _print_totals(outcomes: Counter[tuple[bool, Outcome]]) -> None:
    attacks = {word: n for (is_honest, word), n in outcomes.items() if not is_honest}
    honest = {word: n for (is_honest, word), n in outcomes.items() if is_honest}
    tried = sum(attacks.values())
    print(f"{tried} attacks: {attacks.get('caught', 0)} caught, "
          f"{attacks.get('without gain', 0)} without gain, {attacks.get('open', 0)} open, "
          f"{attacks.get('no verdict', 0)} without a verdict")  # fmt: skip
    print(f"{sum(honest.values())} honest candidates: {honest.get('accused', 0)} accused, "
          f"{honest.get('no verdict', 0)} without a verdict")  # fmt: skip


if __name__ == "__main__":
    main()
