"""Lines that let a source for an older CUDA toolkit compile with the present one."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADERS = (
    (r"\b(?:__)?half2?\b", "cuda_fp16.h"),
    (r"\b(?:__)?nv_bfloat162?\b", "cuda_bf16.h"),
)
"""Element types, and the header that a source may leave to who includes it."""
_RENAMED = {
    "CUSPARSE_MV_ALG_DEFAULT": "CUSPARSE_SPMV_ALG_DEFAULT",
    "CUSPARSE_COOMV_ALG": "CUSPARSE_SPMV_COO_ALG1",
    "CUSPARSE_CSRMV_ALG1": "CUSPARSE_SPMV_CSR_ALG1",
    "CUSPARSE_CSRMV_ALG2": "CUSPARSE_SPMV_CSR_ALG2",
    "CUSPARSE_MM_ALG_DEFAULT": "CUSPARSE_SPMM_ALG_DEFAULT",
    "CUSPARSE_CSRMM_ALG1": "CUSPARSE_SPMM_CSR_ALG1",
    "cudaThreadSynchronize": "cudaDeviceSynchronize",
    "cudaThreadExit": "cudaDeviceReset",
}
"""Names that CUDA 12 and 13 no longer have."""
_REMOVED_MEMBERS = {
    "clockRate": "multiProcessorCount",
    "memoryClockRate": "memoryBusWidth",
    "computeMode": "major",
    "deviceOverlap": "asyncEngineCount",
    "kernelExecTimeoutEnabled": "integrated",
}
"""Members of cudaDeviceProp that CUDA 13 no longer has, and one of the same type."""
_PREFETCH = """\
static inline cudaMemLocation kb_locate(int device) {
  const bool is_host = device == cudaCpuDeviceId;
  return {is_host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, is_host ? 0 : device};
}
"""
_OVERLOADS = {
    "cudaMemPrefetchAsync": """\
static inline cudaError_t cudaMemPrefetchAsync(
    const void* data, size_t bytes, int device, cudaStream_t stream = 0) {
  return cudaMemPrefetchAsync(data, bytes, kb_locate(device), 0, stream);
}
""",
    "cudaMemAdvise": """\
static inline cudaError_t cudaMemAdvise(
    const void* data, size_t bytes, cudaMemoryAdvise advice, int device) {
  return cudaMemAdvise(data, bytes, advice, kb_locate(device));
}
""",
}
"""Functions of managed memory that take a cudaMemLocation since CUDA 13."""


def draft_compatibility(text: str, headers: Sequence[str] = ()) -> str:
    """Return lines that stand before a source's include; empty where it needs none.

    Args:
        text: What the source holds.
        headers: What the files hold that it includes.
    """
    text = "\n".join((text, *headers))
    lines = [
        f"#include <{header}>\n"
        for pattern, header in _HEADERS
        if re.search(pattern, text) and not re.search(rf"#\s*include\s*[<\"]{header}", text)
    ]
    names = {name: new for name, new in _RENAMED.items() if re.search(rf"\b{name}\b", text)}
    removed = {
        name: new
        for name, new in _REMOVED_MEMBERS.items()
        if re.search(rf"(?:\.|->)\s*{name}\b", text)
    }
    overloads = [body for name, body in _OVERLOADS.items() if re.search(rf"\b{name}\s*\(", text)]
    if names:
        lines.append("// Names that newer toolkits have changed.\n")
        lines += [f"#define {name} {new}\n" for name, new in names.items()]
    if removed or overloads:
        inner = [f"#define {name} {new}\n" for name, new in removed.items()]
        inner += [_PREFETCH, *overloads] if overloads else []
        head = "// What CUDA 13 has removed; the source's own main, which uses it, is not called.\n"
        lines += [head, "#if CUDART_VERSION >= 13000\n", *inner, "#endif\n"]
    return "".join(lines)
