"""What outsiders say about the server: one table; exit 1 where one of them complains.

    python tests/conformance/run.py           (make conformance)

The official conformance suite, the Inspector's command line, and the official SDKs of Python and
TypeScript, each against this checkout's server. The first run fetches Node and the suite by npm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from external_clients import run_clients
from install_suite import SuiteNotInstallableError, install_node
from official_suite import run_scenarios

EXIT_NOT_RUNNABLE = 2


def main() -> int:
    """Print the table; return 0 where all is well, 1 where not, 2 where nothing could be run."""
    argparse.ArgumentParser(description=__doc__, allow_abbrev=False).parse_args()
    began = time.monotonic()
    try:
        node = install_node()
    except SuiteNotInstallableError as error:
        sys.stderr.write(f"conformance: {error}\n")
        return EXIT_NOT_RUNNABLE
    print(f"{'':42}{'passed':>8}{'failed':>8}{'left out':>10}")
    seen = []
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "sessions").mkdir()
        for run_part in (run_scenarios, run_clients):
            for row in run_part(node, project):
                failed = len(row.failures)
                print(
                    f"{row.title:42}{row.passed_count:8}{failed:8}{row.left_out_count:10}",
                    flush=True,
                )
                seen.append(row)
    failures = [f"{row.title}: {failure}" for row in seen for failure in row.failures]
    total = (
        sum(row.passed_count for row in seen),
        len(failures),
        sum(row.left_out_count for row in seen),
    )
    print(f"{'all':42}{total[0]:8}{total[1]:8}{total[2]:10}  in {time.monotonic() - began:.0f} s")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
