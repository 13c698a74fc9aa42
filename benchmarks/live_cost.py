"""What a browser that follows a bench costs it: the same bench, in turns with and without one.

    python benchmarks/live_cost.py row_softmax --runs 50
    python benchmarks/live_cost.py row_softmax --target cuda --runs 50

Run it in a project with the kernel. ``kb web`` serves all the time; the two groups differ by the
reader of its live stream alone, a process of its own as a browser is. Of the candidate's time, and
of its speedup, which is paired and so less noisy, it prints the median of each group, and their
ratio with a bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

PROGRAM = "import sys; from kernelkb.cli import start; sys.exit(start())"
TOKEN = "benchmark" * 4
READER = """
import sys, urllib.request
url, token = sys.argv[1:]
asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
with urllib.request.urlopen(asked) as stream:
    for number, _ in enumerate(stream):
        if number == 0:
            print("follows", flush=True)
"""
DRAWS = 4000


class Found(NamedTuple):
    """What a bench told."""

    us: float
    """Time of the candidate."""
    speedup: float


def main() -> None:
    """Run the benches in random order, and compare the two groups."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernel")
    parser.add_argument("--variant", default=None)
    parser.add_argument("--workload", default=None)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--runs", type=int, default=50, help="of each group")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after these")
    options = parser.parse_args()
    words = ["bench", options.kernel, "--target", options.target, "--again", "--json"]
    words += ["--variant", options.variant] if options.variant else []
    words += ["--workload", options.workload] if options.workload else []
    order = [False, True] * options.runs
    random.Random(1).shuffle(order)
    found: dict[bool, list[Found]] = {False: [], True: []}
    began = time.monotonic()
    with _serve() as url:
        for number, is_followed in enumerate(order):
            if time.monotonic() - began > options.seconds:
                break
            with _follow(url) if is_followed else nullcontext():
                one = _bench(words)
            name = "followed" if is_followed else "alone"
            told = f"{one.us:.3f} us, {one.speedup:.4f}x" if one else "no time"
            print(f"{number + 1:4} {name:9} {told}", flush=True)
            found[is_followed] += [one] if one else []
    for what in Found._fields:
        alone, followed = ([getattr(one, what) for one in found[key]] for key in (False, True))
        _print_ratio(what, alone, followed)


def _bench(words: Sequence[str]) -> Found | None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False
    )
    try:
        told = json.loads(done.stdout)
        return Found(float(told["candidate_us"]), float(told["speedup"]))
    except (ValueError, KeyError, TypeError):  # it has no time
        return None


@contextmanager
def _serve() -> Iterator[str]:
    """Serve the page; yields its address."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "web", "--no-browser", "--read-only", "--port", "0"],
        env={**os.environ, "KERNELKB_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            found = re.search(r"http://[^/]+", server.stdout.readline() if server.stdout else "")
            if found is None:
                raise SystemExit("kb web did not start")
            yield found[0]
        finally:
            server.terminate()


@contextmanager
def _follow(url: str) -> Iterator[None]:
    """Read the stream of the page as a browser would, from its first event on."""
    with subprocess.Popen(
        [sys.executable, "-c", READER, f"{url}/live/stream", TOKEN], stdout=subprocess.PIPE
    ) as reader:
        try:
            if not (reader.stdout and reader.stdout.readline()):
                raise SystemExit("kb web sends no stream")
            yield
        finally:
            reader.kill()


def _print_ratio(what: str, alone: Sequence[float], followed: Sequence[float]) -> None:
    if not alone or not followed:
        raise SystemExit("no bench gave a time")
    draw = random.Random(2)
    ratios = sorted(
        statistics.median(draw.choices(followed, k=len(followed)))
        / statistics.median(draw.choices(alone, k=len(alone)))
        for _ in range(DRAWS)
    )
    low, high = ratios[int(0.025 * DRAWS)], ratios[int(0.975 * DRAWS)]
    ratio = statistics.median(followed) / statistics.median(alone)
    print(f"{what}, alone    {len(alone)} runs, median {statistics.median(alone):.4f}")
    print(f"{what}, followed {len(followed)} runs, median {statistics.median(followed):.4f}")
    print(f"{what}, followed / alone {ratio:.4f} [{low:.4f}, {high:.4f}]")


if __name__ == "__main__":
    main()
