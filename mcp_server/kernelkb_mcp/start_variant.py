"""Makes a kernel or a variant before build_kernel compiles it: ``kb init``, ``kb variant add``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver.exceptions import ToolError

from kernelkb.errors import BadValueError, KbError
from kernelkb_mcp.arguments import require_path
from kernelkb_mcp.next_call import format_step
from kernelkb_mcp.results import BuildResult, RestoredState
from kernelkb_mcp.tool_adapter import to_tool_error

if TYPE_CHECKING:
    from kernelkb.measure.machine.environment import TargetChoice
    from kernelkb.model.records.measurement import Build


def make_build_result(
    build: Build,
    done: str = "",
    *,
    setup: dict[str, Any] | None = None,
    restored: RestoredState | None = None,
) -> BuildResult:
    """Return the result of a build, after what was ``done`` before it."""
    from kernelkb.render.text.measurements import describe_build

    again = f"kernel={build.kernel!r}, variant={build.variant!r}, target={build.target!r}"
    follow = f"{'build' if build.error else 'bench'}_kernel({again})"
    words = describe_build(build)
    return BuildResult(
        summary=f"{done}; {words}" if done else words,
        build=build,
        setup=setup,
        restored=restored,
        next=(follow,),
    )


def set_up_and_build(
    file: str, kernel: str, variant: str | None, target: TargetChoice, arch: str | None
) -> BuildResult:
    """Draft a kernel's folder from its source, and build it unless something is to be filled in.

    Args:
        file: The source's path; ``PATH#FUNCTION`` for one of several kernels in it.
        kernel: The name that the kernel gets.
        variant: The variant to build; None: the first.
        target: Where it will run.
        arch: Build for this architecture, without a GPU.

    Raises:
        ToolError: ``file`` is the text of a source.
        BadValueError: The file holds no kernel, or the name belongs to another source.
    """
    path, _, function = file.partition("#")
    require_path("file", path)
    from kernelkb.actions.init.init_project import init_project
    from kernelkb.actions.kernels.building import build_variant

    try:
        made = init_project(path, target=target, name=kernel, kernel=function or None)
    except BadValueError as error:  # a menu ends with the command that takes the first function
        raise ToolError(str(error).replace(f"kb init {path} --kernel ", f"file={path}#")) from error
    setup = made.model_dump(mode="json")
    done = f"wrote {', '.join(made.written)}" if made.written else "set up already"
    if made.to_fill:
        marks = f"{len(made.to_fill)} lines of kernels/{made.kernel} are to be filled in"
        follow = ("fill in the lines of setup.to_fill", f"build_kernel(kernel={made.kernel!r})")
        return BuildResult(summary=f"{done}; {marks}", build=None, setup=setup, next=follow)
    try:
        built = build_variant(made.kernel, variant, target, arch)
    except (KbError, OSError) as error:
        raise ToolError(f"{done}; it was not built: {to_tool_error(error)}") from error
    return make_build_result(built, done, setup=setup)


def add_copy(source: str, kernel: str, name: str, target: TargetChoice) -> BuildResult:
    """Copy a variant to a new one, and register that; it is to be changed before it is built.

    Raises:
        UnknownNameError: There is no such kernel or variant.
        BadValueError: The new name is taken or is no name, or the target is not clear.
    """
    from kernelkb.actions.project.variants import add_variant

    added = add_variant(kernel, name, source, target)
    return BuildResult(
        summary=f"wrote {', '.join(added.written)}; {added.path} is to be changed",
        build=None,
        setup=added.model_dump(mode="json"),
        next=(f"change one thing in {added.path}", format_step(added.next_step)),
    )
