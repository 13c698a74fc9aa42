"""What to fix next, or what to measure, from the numbers at hand.

kb recommend --speedup 0.3 --occupancy 0.4
kb recommend --bandwidth 88% --metric over_fetch=3.9 --gpu "NVIDIA H100 80GB HBM3"
kb recommend --profile report.ncu-rep --kernel gemm --speedup 0.7
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from engine.actions.recommend import TARGETS, recommend
from engine.decide.answer import Recommendation
from engine.errors import BadValueError
from engine.render.answers import answer_lines


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--speedup", metavar="X", help="reference time / our time; above 1 is faster"
    )
    parser.add_argument(
        "--bandwidth", metavar="SHARE", help="share of peak memory bandwidth, 0 to 1"
    )
    parser.add_argument("--occupancy", metavar="SHARE", help="achieved occupancy, 0 to 1 or 40%%")
    parser.add_argument("--kernel-us", metavar="US", help="kernel duration in microseconds")
    parser.add_argument(
        "--gpu", metavar="NAME", help="the GPU, as the driver or kb show devices says"
    )
    parser.add_argument(
        "--target", choices=TARGETS, default="cuda", help="where the numbers are from"
    )
    parser.add_argument(
        "--profile", metavar="FILE", help="a report of Nsight Compute: .ncu-rep, or CSV pages"
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME",
        default="",
        help="name to use in the answer; with --profile a regular expression that picks kernels",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any other metric; repeat",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: Namespace) -> int:
    """Print the answer; return 1 when the gate says stop."""
    flags = {
        "speedup": options.speedup,
        "bandwidth": options.bandwidth,
        "occupancy": options.occupancy,
        "kernel-us": options.kernel_us,
    }
    headlines = {flag: value for flag, value in flags.items() if value is not None}
    metrics = dict(_pair(text) for text in options.metric)
    if options.profile is not None:
        result = _from_report(options, metrics, headlines)
    else:
        result = recommend(
            metrics,
            headlines=headlines,
            target=options.target,
            gpu=options.gpu,
            kernel=options.kernel,
        )
    if options.json:
        sys.stdout.write(json.dumps(result, indent=2, allow_nan=False) + "\n")
    else:
        for position, answer in enumerate(result["kernels"]):
            if position:
                sys.stdout.write("\n")
            sys.stdout.writelines(f"{line}\n" for line in answer_lines(answer))
    return int(any(answer["gate"]["verdict"] == "stop" for answer in result["kernels"]))


def _from_report(
    options: Namespace, metrics: dict[str, str], headlines: dict[str, str]
) -> Recommendation:
    from engine.actions.report import recommend_report  # reads files, so it imports more

    if options.target == "cpu":
        raise BadValueError("--profile reads reports of a GPU; leave --target cpu out")
    return recommend_report(
        options.profile, only=options.kernel, metrics=metrics, headlines=headlines, gpu=options.gpu
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadValueError(f"--metric {text!r} has no value; write --metric {name}=0.5")
    return name.strip(), value.strip()
