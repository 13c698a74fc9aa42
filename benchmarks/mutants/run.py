"""How many wrong kernels the check accepts: mutants of correct kernels, judged and classified.

    python benchmarks/mutants/run.py --target cpu --count 5000 --seed 1
    python benchmarks/mutants/run.py --target cuda --plan-only

Each mutant is one edit of a kernel below ``benchmarks/mutants/kernels``. The check is that of
``kb check``: its inputs, its cases, its limits; only the sandbox is left out. A mutant that it
accepts is compared with its original on thousands of inputs: equal or within rounding, or it
survives, and is listed with its line.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.mutants.program import main

    main()
