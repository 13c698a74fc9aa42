"""A call to draft: parameters and launch facts that the source shows, and what is asked for."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.model.base import Target

SourceKind = str
"""cuda, torch-extension, tvm-ffi; embedded: CUDA text in strings of a Python file; kernelbench,
candidate; else the name of one of the languages in ``kernelkb.scaffold.python.python_source``."""
ParameterRole = Literal["input", "output", "size", "number", "stream"]
CallStyle = Literal["pointers", "torch", "tvm-ffi", "python", "bound"]
"""How a function takes its arrays. bound: a module exports it, and its text is in another file."""
_ROLE_ORDER = ("input", "output", "size", "stream")


class Parameter(NamedTuple):
    """One parameter of a function."""

    name: str
    type: str
    """As written, without ``const``, ``__restrict__``, ``std::`` and the pointer's ``*``."""
    role: ParameterRole
    dtype: str | None = None
    """Element type of an array; None for a scalar and for a type that kernel.yaml does not have."""
    is_read: bool = False
    """For an output: the kernel also reads it, so its values before the call matter."""
    is_certain: bool = True
    """False for an output that is only passed to code which may write it."""
    is_index: bool = False
    """An array whose elements are subscripts of another array."""
    shape: tuple[str, ...] = ()
    """Of an array: names of sizes, and numbers, outermost first; empty where it is unknown."""
    candidate: tuple[str, ...] = ()
    """What an unknown shape may be; a person decides."""
    use: str = ""
    """The line that uses an array of unknown shape, as ``line 3: y[i] = x[j];``."""
    value: str = ""
    """Of a number: the expression that is passed for it; empty where none is known."""


class Function(NamedTuple):
    """A kernel, or a host function that launches one."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    is_kernel: bool = False
    """A ``__global__`` function, which needs a launcher."""
    scope: str = ""
    """Its namespaces, as a call needs them before the name: ``a::b::``."""
    returns: str = ""
    """Its return type; empty for Python."""
    template: tuple[str, ...] = ()
    """Names of its template's parameters."""
    max_threads: str | None = None
    """Threads per block, the first argument of ``__launch_bounds__``; an expression, or None."""
    is_flat: bool = False
    """One thread per element of a 1-D grid, without dynamic shared memory."""
    takes_shared_memory: bool = False
    """It declares dynamic shared memory, whose size is a launch parameter."""
    style: CallStyle = "pointers"
    line: int = 0
    """Where it is defined, from 1; 0 where the file only names it."""
    launches: tuple[str, ...] = ()
    """Kernels that it starts, itself or through functions of its file."""

    @property
    def is_variant(self) -> bool:
        """Whether it has KernelKB's C interface: inputs, outputs, int64 sizes, then a stream."""
        roles = [parameter.role for parameter in self.parameters]
        sizes = (each for each in self.parameters if each.role == "size")
        return (
            not self.is_kernel
            and self.style == "pointers"
            and self.returns in ("int", "int32_t")
            and all(size.type == "int64_t" for size in sizes)
            and "output" in roles
            and roles.count("stream") == 1
            and "number" not in roles
            and roles == sorted(roles, key=_ROLE_ORDER.index)
        )


class SourceSummary(NamedTuple):
    """The kernels and launchers of one source file."""

    kind: SourceKind
    functions: tuple[Function, ...]
    """What can be drafted: launchers before kernels that no launcher of the file starts."""
    target: Target = "cuda"
    """``cuda`` where the file names anything of CUDA."""
    has_main: bool = False
    """It defines ``main``, which a launcher that includes it must rename."""
    missing_functions: tuple[str, ...] = ()
    """Functions that a torch extension uses and another file must define."""
    side_effect_lines: tuple[int, ...] = ()
    """Lines of a Python file that run code when it is imported, counted from 1."""
    embedded: str = ""
    """CUDA text in the strings of a Python file."""


class DraftRequest(NamedTuple):
    """A function of a source, and the folder that it gets."""

    name: str
    """The kernel's id."""
    function: Function
    """The kernel or launcher to draft for."""
    summary: SourceSummary
    text: str
    """What the source holds."""
    include: str
    """The source's path, relative to the kernel's folder."""
    target: Target
    flags: tuple[str, ...] = ()
    """Compiler flags, such as folders of headers."""
    others: tuple[str, ...] = ()
    """Paths of the files that define the functions it uses and does not define."""
    uses_torch: bool = False
    """Whether the file includes torch's headers: then it is a torch extension."""
    headers: tuple[str, ...] = ()
    """What the project's files hold that the source includes."""
    callers: tuple[str, ...] = ()
    """What files hold that include the source and launch its kernel."""
