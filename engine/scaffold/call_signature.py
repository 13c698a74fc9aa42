"""How a kernel is called, as far as its text shows."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.model.base import Target

SourceKind = Literal["cuda", "torch-extension", "triton", "kernelbench", "candidate"]
ParameterRole = Literal["input", "output", "size", "number", "stream"]
_ROLE_ORDER = ("input", "output", "size", "stream")


class Parameter(NamedTuple):
    """One parameter of a function."""

    name: str
    type: str
    """As it is written, without const, restrict and the pointer's star."""
    role: ParameterRole
    dtype: str | None = None
    """Of an array's elements, where we know the type."""
    is_read: bool = False
    """An array that is written, and read too: what it holds before the call matters."""
    is_certain: bool = True
    """Whether the text shows how an array is used; what is passed on may be written elsewhere."""
    is_index: bool = False
    """An array whose elements choose elements of another."""


class Function(NamedTuple):
    """A function that computes, or launches what computes."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    is_kernel: bool = False
    """A ``__global__`` function, which somebody has to launch."""
    scope: str = ""
    """Its namespaces, as they stand before the name in a call: ``a::b::``."""
    returns: str = ""
    template: tuple[str, ...] = ()
    """Names of its template's parameters."""
    max_threads: str | None = None
    """Of a block, as ``__launch_bounds__`` has it."""
    is_flat: bool = False
    """A kernel with one thread for each element, in one dimension, as far as its text shows."""
    takes_shared_memory: bool = False
    """Whether whoever launches it says how much shared memory it gets."""

    @property
    def is_variant(self) -> bool:
        """Whether it has KernelKB's own C interface: inputs, outputs, int64 sizes, a stream."""
        roles = [one.role for one in self.parameters]
        wide = all(one.type == "int64_t" for one in self.parameters if one.role == "size")
        return (
            not self.is_kernel
            and self.returns in ("int", "int32_t")
            and wide
            and "output" in roles
            and roles.count("stream") == 1
            and "number" not in roles
            and roles == sorted(roles, key=_ROLE_ORDER.index)
        )


class SourceSummary(NamedTuple):
    """What a file holds."""

    kind: SourceKind
    functions: tuple[Function, ...]
    """Launchers before kernels."""
    target: Target = "cuda"
    """Where it runs, as its text has it."""
    has_main: bool = False
    missing_functions: tuple[str, ...] = ()
    """Functions that an extension uses and another file defines."""
    side_effect_lines: tuple[int, ...] = ()
    """Lines of a Python file that do something whenever it is loaded."""
