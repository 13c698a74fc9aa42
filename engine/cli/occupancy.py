"""How many blocks of a launch fit on an SM, what limits it, and the smallest change that helps.

kb occupancy --gpu h100-sxm --threads 256 --registers 96
kb occupancy --arch sm_89 --threads 128 --registers 168 --dynamic-smem 128x64x2x3
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from kernelkb.cli.options import add_gpu_arguments, add_json_argument


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    add_gpu_arguments(parser)
    parser.add_argument("--threads", metavar="N", required=True, help="threads per block")
    parser.add_argument(
        "--registers", metavar="N", required=True, help="per thread, as kb build or ptxas -v says"
    )
    size = "bytes, 48KiB, or rows x columns x bytes x stages: 128x64x2x3"
    parser.add_argument("--static-smem", metavar="SIZE", default=0, help=f"declared: {size}")
    parser.add_argument("--dynamic-smem", metavar="SIZE", default=0, help="added by the launch")
    parser.add_argument(
        "--carveout", metavar="SIZE", help="preferred shared memory per SM: 64KiB or 50%%"
    )
    parser.add_argument("--barriers", metavar="N", default=0, help="named barriers of a block")
    parser.add_argument("--grid", metavar="N", help="blocks of the launch, for its waves")
    parser.add_argument("--blocks", metavar="N", help="what would allow so many blocks per SM")
    add_json_argument(parser)


def run(options: Namespace) -> int:
    """Print the answer; return 1 when the launch would fail."""
    from kernelkb.actions.occupancy import OccupancyQuery, analyze_occupancy
    from kernelkb.render.occupancy import format_occupancy_lines

    found = analyze_occupancy(
        OccupancyQuery(
            threads=options.threads,
            registers=options.registers,
            gpu=options.gpu,
            architecture=options.arch,
            static_smem=options.static_smem,
            dynamic_smem=options.dynamic_smem,
            carveout=options.carveout,
            barriers=options.barriers,
            grid=options.grid,
            blocks=options.blocks,
        )
    )
    if options.json:
        sys.stdout.write(json.dumps(found, indent=2, allow_nan=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in format_occupancy_lines(found))
    return int(not found["possible"])
