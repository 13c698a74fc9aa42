"""Parts of a file that the preprocessor leaves out, and headers that come with a toolkit."""

from __future__ import annotations

import re
from collections.abc import Collection

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(.*)")
_DEFINED = re.compile(r"defined\s*\(?\s*(\w+)\s*\)?")
_OF_COMPILERS = re.compile(
    r"__CUDA\w*|\w*USE_CUDA\w*|__NVCC\w*|__GNUC__|__linux\w*|__cplusplus|_?NDEBUG"
)
_TOOLKIT = re.compile(
    r"(?:torch|ATen|c10|cub|thrust|tvm|nv|pybind11|crt|nvtx3|cuda|cooperative_groups|cccl|cute"
    r"|cusparseLt|cutlass)/.*|cooperative_groups\.h|Python\.h|mma\.h|cuComplex\.h"
    r"|cuda(?:|_runtime|_runtime_api|_fp\d+|_bf16|_(?:awbarrier|pipeline)\w*|_occupancy|_stdint"
    r"|_device_runtime_api|_profiler_api|_(?:egl|gl|vdpau|d3d\d+)_interop|_texture_types"
    r"|_surface_types|Profiler|\w*Typedefs|GL|EGL|VDPAU|rt_platform)\.hp?p?"
    r"|cu(?:blas|blasLt|blasXt|blas_v2|blas_api|sparse|sparse_v2|solver\w*|fft|fftw|fftXt)\.h"
    r"|curand(?:|_kernel|_mtgp32\w*|_mrg32k3a|_globals|_philox\w*|_normal|_uniform|_poisson)\.h"
    r"|cupti\w*\.h|nccl(?:_net|_device)?\.h|cudnn(?:_\w+|_frontend)?\.h|npp\w*\.h"
    r"|nv(?:ml|rtc|JitLink|jpeg|vm|PTXCompiler|ToolsExt\w*)\.h|nvtx\w*\.h|nvfunctional"
    r"|(?:builtin|library|device|driver|vector|surface|texture)_types\.h|common_functions\.h"
    r"|channel_descriptor\.h|fatbinary_section\.h|host_(?:defines|config)\.h|math_functions\.hp?p?"
    r"|sm_\d+_\w+\.hp?p?|vector_functions\.hp?p?|device_(?:atomic_|double_)?functions\.hp?p?"
    r"|(?:surface|texture)(?:_indirect)?_functions\.h|driver_functions\.h|math_constants\.h"
    r"|device_launch_parameters\.h"
)


def is_of_toolkit(header: str) -> bool:
    """Whether a header is one of the CUDA toolkit, of torch or of a library beside them."""
    return _TOOLKIT.fullmatch(header) is not None


def drop_undefined_parts(text: str, defined: Collection[str]) -> str:
    """Return a text without the parts that stand for macros which nothing defines.

    A condition that is not decided by such names, as ``#if VERSION > 2``, leaves both of its parts.

    Args:
        text: What a file holds.
        defined: The macros that it, the files before it and the build define.
    """
    stack, lines = list[bool](), list[str]()
    for line in text.split("\n"):
        match = _DIRECTIVE.match(line)
        word = match[1] if match else ""
        if match and word in ("if", "ifdef", "ifndef"):
            stack.append(word != "ifndef" and _is_undefined(word, match[2], defined))
        elif match and stack and word == "endif":
            stack.pop()
        elif match and stack:
            stack[-1] = word == "elif" and _is_undefined("if", match[2], defined)
        lines.append("" if any(stack) else line)
    return "\n".join(lines)


def _is_undefined(word: str, condition: str, defined: Collection[str]) -> bool:
    """Whether a condition is that one of some macros is defined, and none of them is."""
    bare = re.sub(r"/[/*].*", "", condition).strip()
    parts = [f"defined {bare}"] if word == "ifdef" else bare.split("||")
    return all(
        any(_is_false(each.strip(" \t"), defined) for each in part.split("&&")) for part in parts
    )


def _is_false(test: str, defined: Collection[str]) -> bool:
    name = _DEFINED.fullmatch(test)
    is_known = name and (name[1] in defined or _OF_COMPILERS.fullmatch(name[1]))
    return test == "0" or (name is not None and not is_known)
