"""What the text of a kernel says of how it is called. Reads, never compiles; guesses are told."""

from __future__ import annotations

import re

from kernelkb.model.base import Target
from kernelkb.scaffold import python_source
from kernelkb.scaffold.array_usage import analyze_array_usage
from kernelkb.scaffold.brackets import split_at_commas, strip_comments
from kernelkb.scaffold.c_declarations import Declaration, iter_declarations
from kernelkb.scaffold.call_signature import Function, Parameter, SourceSummary

_BINDING = re.compile(r'\b\w+\.def\(\s*"(\w+)"\s*,?\s*&?\s*(?:(\w+)\s*[,)])?')
_CUDA_MARKER = re.compile(r"cuda|<<<|__global__", re.IGNORECASE)
_CUDA_REJECTION = re.compile(r"!\s*[\w.]*\bis_cuda\b")
_DTYPES = {
    **dict.fromkeys(("float", "float32_t"), "float32"),
    "double": "float64",
    **dict.fromkeys(("half", "__half", "at::Half", "c10::Half"), "float16"),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "at::BFloat16", "c10::BFloat16"), "bfloat16"),
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    **dict.fromkeys(("int", "int32_t"), "int32"),
    **dict.fromkeys(("int64_t", "long", "long int", "long long", "long long int"), "int64"),
    **dict.fromkeys(("short", "int16_t"), "int16"),
    **dict.fromkeys(("uint8_t", "unsigned char"), "uint8"),
    **dict.fromkeys(("int8_t", "char", "signed char"), "int8"),
    "bool": "bool",
}
_INTEGER_WORDS = (
    "int",
    "long",
    "unsigned",
    "short",
    "char",
    "signed",
    "size_t",
    "ssize_t",
    "ptrdiff_t",
)
_SIZE_TYPE = re.compile(
    r"(?:unsigned\s+|signed\s+)?(?:int|long|long int|long long|long long int)|unsigned|s?size_t"
    r"|u?int(?:32|64)_t|ptrdiff_t"
)
_FLAT_INDEX = re.compile(
    r"(?:blockIdx\.x\s*\*\s*blockDim\.x|blockDim\.x\s*\*\s*blockIdx\.x)\s*\+\s*threadIdx\.x"
    r"|threadIdx\.x\s*\+\s*\(?\s*(?:blockIdx\.x\s*\*\s*blockDim\.x|blockDim\.x\s*\*\s*blockIdx\.x)"
)
_CAST_INDEX = re.compile(
    r"static_cast\s*<[^<>]*>\s*\(\s*((?:block|thread)(?:Idx|Dim)\.x)\s*\)"
    r"|\(\s*[\w:]+(?:\s+\w+)*\s*\)\s*((?:block|thread)(?:Idx|Dim)\.x)"
)
_MULTI_DIMENSION_INDEX = re.compile(r"\b(?:thread|block|grid)(?:Idx|Dim)\.[yz]\b")
_DYNAMIC_SHARED = re.compile(r"\bextern\s+(?:\w+\s+)*__shared__")
_DEFAULT_NAMES = {"input": "x", "output": "y", "size": "n", "number": "a", "stream": "stream"}


def summarize_source(name: str, text: str) -> SourceSummary | None:
    """Return what a file holds, None when there is no kernel in it."""
    if name.endswith(".py"):
        return python_source.summarize_python(text)
    code = strip_comments(text)
    is_cuda = name.endswith(".cu") or _CUDA_MARKER.search(
        _CUDA_REJECTION.sub("", f"{code}{_extract_includes(text)}")
    )
    target: Target = "cuda" if is_cuda else "cpu"
    found = list(iter_declarations(code))
    defined = {one.name: one for one in found if one.body}
    if "PYBIND11_MODULE" in defined:
        bound = _BINDING.findall(defined["PYBIND11_MODULE"].body)
        missing = [n for n in _list_used_functions(code, found, bound) if n not in defined]
        names = tuple(Function(n) for n, _ in bound)
        return SourceSummary(
            "torch-extension", names, target, missing_functions=tuple(dict.fromkeys(missing))
        )
    launchers = [
        _build_function(one, is_kernel=False) for one in found if one.body and one.is_extern
    ]
    kernels = [_build_function(one, is_kernel=True) for one in found if one.body and one.is_global]
    if not launchers and not kernels:
        return None
    return SourceSummary("cuda", (*launchers, *kernels), target, has_main="main" in defined)


def defines_any(text: str, names: tuple[str, ...]) -> bool:
    """Say whether C text defines one of some functions."""
    return any(one.body and one.name in names for one in iter_declarations(strip_comments(text)))


def _extract_includes(text: str) -> str:
    return " ".join(re.findall(r"^[ \t]*#[ \t]*include[^\n]*", text, re.MULTILINE))


def _list_used_functions(
    code: str, found: list[Declaration], bound: list[tuple[str, str]]
) -> list[str]:
    """List the functions that an extension binds, or declares and uses."""
    used = [one.name for one in found if not one.body]
    used = [name for name in used if len(re.findall(rf"\b{name}\b", code)) > 1]
    return [*used, *(called for _, called in bound if called)]


def _build_function(one: Declaration, *, is_kernel: bool) -> Function:
    """Return a function, with what its body says of arrays that are not const."""
    taken = _parse_parameters(one.parameters, is_kernel=is_kernel)
    parameters = [_classify_array(each, one.body) if is_kernel else each for each in taken]
    body, shared = one.body, _DYNAMIC_SHARED.search(one.body) is not None
    places = _CAST_INDEX.sub(lambda cast: cast[1] or cast[2], body)
    flat = (
        _FLAT_INDEX.search(places) is not None
        and _MULTI_DIMENSION_INDEX.search(body) is None
        and not shared
    )
    return Function(
        one.name,
        tuple(parameters),
        is_kernel,
        one.scope,
        one.returns,
        one.template,
        one.max_threads,
        is_flat=flat,
        takes_shared_memory=shared,
    )


def _classify_array(one: Parameter, body: str) -> Parameter:
    """Tell an array that is only read from one that is written, and one that is both."""
    if one.role not in ("input", "output"):
        return one
    seen = analyze_array_usage(one.name, body)
    one = one._replace(is_index=seen.is_index)
    if one.role == "input":
        return one
    if not seen.is_written and not seen.is_passed_on:
        return one._replace(role="input")
    return one._replace(is_read=seen.is_read, is_certain=seen.is_written and not seen.is_passed_on)


def _parse_parameters(text: str, *, is_kernel: bool) -> list[Parameter]:
    found = [_parse_parameter(part) for part in split_at_commas(text) if part != "void"]
    last = found[-1] if found and not is_kernel else None
    if last and last.type == "void" and last.role == "output":
        found[-1] = last._replace(role="stream")
    names = [one.name for one in found]
    for at, one in enumerate(found):
        letter = _DEFAULT_NAMES[one.role]
        numbered = (f"{letter}{number}" for number in range(len(found)))
        free = [letter] if letter == "stream" else [n for n in numbered if n not in names]
        names[at] = one.name or free[0]
    return [one._replace(name=name) for one, name in zip(found, names, strict=True)]


def _parse_parameter(text: str) -> Parameter:
    bare_text = re.sub(r"\b(?:__restrict__|__restrict|restrict|__grid_constant__)\b", " ", text)
    bare_text = re.sub(r"=.*$", "", bare_text, flags=re.DOTALL).strip()
    bare_text, dimensions = re.subn(r"\[[^\]]*\]\s*$", "", bare_text)
    pointed, star, after = bare_text.rpartition("*")
    if not star:
        pointed, after = _split_type_and_name(bare_text)
    name = re.sub(r"\bconst\b", "", after).strip()
    constant = re.search(r"\bconst\b", pointed) is not None
    kind = " ".join(re.sub(r"\b(?:const|volatile)\b|\bstd::", " ", pointed).split())
    if kind == "cudaStream_t" or (kind == "void" and "stream" in name and not constant):
        return Parameter(name, kind, "stream")
    if "*" in kind or kind.endswith("&"):
        return Parameter(name, kind, "number")
    if star or dimensions:
        return Parameter(name, kind, "input" if constant else "output", _DTYPES.get(kind))
    return Parameter(name, kind, "size" if _SIZE_TYPE.fullmatch(kind) else "number")


def _split_type_and_name(text: str) -> tuple[str, str]:
    """Take a parameter's type from its name, which may be absent."""
    found = re.fullmatch(r"(.*[\s&>])(\w+)", text, re.DOTALL)
    if found is None or found[2] in _INTEGER_WORDS or found[1].strip() in ("const", "volatile"):
        return text, ""
    return found[1], found[2]
