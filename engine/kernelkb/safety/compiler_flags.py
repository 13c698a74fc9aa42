"""Allow-list of compiler flags in a kernel.yaml that a server builds.

Allowed flags change the generated code only. Flags that load plug-ins, start programs, read or
write files are too many to forbid one by one. The command line allows every flag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelkb.errors import ForbiddenPathError
from kernelkb.safety.workspace import list_readable_folders, resolve_inside

ALLOWED_FLAGS = (
    "-O*, -std=, -D, -U, -W*, -g, -m*, known -f*, -l*, -pthread, -I in the workspace; for nvcc "
    "--use_fast_math, --fmad= and its kin, -maxrregcount=, -lineinfo, -gencode=, -arch=, "
    "--expt-*, -Xptxas= with -v, -O*, -dlcm=, -dscm= and its warnings"
)
_F_NAMES = (
    "fast-math|finite-math-only|math-errno|trapping-math|associative-math|reciprocal-math|"
    "signed-zeros|unsafe-math-optimizations|rounding-math|unroll-loops|unroll-all-loops|"
    "tree-vectorize|tree-slp-vectorize|tree-loop-vectorize|vectorize|slp-vectorize|"
    "inline|inline-functions|strict-aliasing|strict-overflow|wrapv|omit-frame-pointer|openmp|"
    "openmp-simd|exceptions|rtti|PIC|pic|prefetch-loop-arrays|split-loops|peel-loops|ipa-pta|"
    "builtin|permissive|stack-protector|common|semantic-interposition|gcse|modulo-sched|plt|"
    "function-sections|data-sections|visibility-inlines-hidden|threadsafe-statics|"
    "cx-limited-range|cx-fortran-rules|unswitch-loops|tree-loop-distribution"
)
_F_VALUES = (
    r"visibility=(?:hidden|default)|fp-contract=(?:fast|on|off)|excess-precision=(?:fast|standard)"
    r"|(?:vect|simd)-cost-model=[a-z-]+|align-(?:loops|functions|jumps|labels)(?:=\d+)?"
    r"|(?:constexpr|template|bracket)-depth=\d+|constexpr-ops-limit=\d+"
)
_PTXAS_FLAG = (
    r"-v|-O[0-4]|-d[ls]cm=c[agsv]|-warn-(?:spills|lmem-usage|double-usage)"
    r"|--warn-on-(?:spills|local-memory-usage|double-precision-use)|--?maxrregcount=\d+"
    r"|--allow-expensive-optimizations=(?:true|false)|--verbose"
)
_ARCH = r"(?:compute|sm|lto)_\d+[af]?"
_ALLOWED_FLAG = re.compile(
    "|".join(
        (
            r"-O(?:[0-3sgz]|fast)?",
            r"--?std=(?:c|gnu)\+\+\d\w",
            r"-D[A-Za-z_]\w*(?:\([\w, ]*\))?(?:=[\x20-\x7e]*)?",
            r"-U[A-Za-z_]\w*",
            r"-W[a-z][a-z0-9=+-]*|-w|-pedantic|-pthread",  # no comma: -Wl,… -Wa,… -Wp,…
            r"-g[0-3]?|-G",
            r"-m(?!llvm)[a-z0-9][A-Za-z0-9.=+_-]*",
            rf"-f(?:no-)?(?:{_F_NAMES})",
            rf"-f(?:{_F_VALUES})",
            r"-l[A-Za-z0-9_+-]+",
            r"--?(?:use_fast_math|restrict|extra-device-vectorization|lineinfo)",
            r"--generate-line-info|--(?:expt-)?(?:relaxed-constexpr|extended-lambda)",
            r"--?(?:ftz|prec-div|prec-sqrt|fmad|rdc)=(?:true|false)",
            r"--?maxrregcount=\d+|--?(?:threads|split-compile|t)=\d+",
            r"--?default-stream=(?:legacy|null|per-thread)",
            rf"--?(?:gencode|generate-code)=arch={_ARCH},code=\[?{_ARCH}(?:,{_ARCH})*\]?",
            rf"--?(?:arch|gpu-architecture|code|gpu-code)=(?:{_ARCH}|native|all|all-major)",
            rf"(?:-Xptxas|--ptxas-options)=(?:{_PTXAS_FLAG})(?:,(?:{_PTXAS_FLAG}))*",
        )
    )
)


def find_disallowed_flag(flags: Sequence[str], folder: str) -> tuple[int, str] | None:
    """Return the index of the first flag that is not allowed, and the reason; None if all are.

    Without a workspace every flag is allowed.

    Args:
        flags: In command-line order, as ``-Xptxas`` may precede the flag that it passes on.
        folder: The folder that a relative ``-I`` is resolved against.
    """
    if list_readable_folders() is None:
        return None
    passes_on = False
    for index, flag in enumerate(flags):
        if passes_on:
            passes_on = False
            if re.fullmatch(_PTXAS_FLAG, flag):
                continue
            return (
                index,
                f"-Xptxas {flag!r} is not allowed on a server; allowed: {ALLOWED_FLAGS}",
            )
        passes_on = flag in ("-Xptxas", "--ptxas-options")
        if passes_on:
            continue
        if flag.startswith("-I") and len(flag) > 2 and flag.isprintable():
            try:
                resolve_inside(Path(folder, flag[2:]))
            except ForbiddenPathError as error:
                return index, str(error)
        elif not _ALLOWED_FLAG.fullmatch(flag):
            return index, f"flag {flag!r} is not allowed on a server; allowed: {ALLOWED_FLAGS}"
    return (len(flags) - 1, "-Xptxas is last and has no flag to pass on") if passes_on else None
