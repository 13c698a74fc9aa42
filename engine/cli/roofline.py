"""The fastest that a GPU could do some work, which roof binds, and what is left to gain.

kb roofline --gpu h100-sxm --bytes 1GiB --us 400
kb roofline --gpu l4 --bytes 96MiB --flop 1.1e12 --dtype fp16
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--gpu", metavar="NAME", required=True, help="as the driver or kb show devices says"
    )
    parser.add_argument(
        "--bytes", metavar="SIZE", help="that any correct kernel must move: 1GiB or 1073741824"
    )
    parser.add_argument("--flop", metavar="N", help="that any correct kernel must do: 2.5e9")
    parser.add_argument(
        "--dtype", metavar="TYPE", help="fp64 fp32 tf32 fp16 bf16 fp8; default: the fastest unit"
    )
    parser.add_argument("--us", metavar="US", help="what the kernel takes now, in microseconds")
    parser.add_argument(
        "--cold", action="store_true", help="the data is in no cache, however little it is"
    )
    parser.add_argument("--copy-gbps", metavar="GBPS", help="copy bandwidth as measured here")
    parser.add_argument("--launch-us", metavar="US", help="time of an empty kernel here")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print the answer."""
    from kernelkb.actions.roofline import RooflineQuery, analyze_roofline
    from kernelkb.render.roofline import format_roofline_lines

    found = analyze_roofline(
        RooflineQuery(
            gpu=options.gpu,
            bytes=options.bytes,
            flop=options.flop,
            dtype=options.dtype,
            us=options.us,
            cold=options.cold,
            copy_gbps=options.copy_gbps,
            launch_us=options.launch_us,
        )
    )
    if options.json:
        sys.stdout.write(json.dumps(found, indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in format_roofline_lines(found))
    return 0
