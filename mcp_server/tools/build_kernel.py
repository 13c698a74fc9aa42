"""build_kernel: compile one variant, perhaps of an earlier state of its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.errors import KbError
from kernelkb_mcp.jobs import make_tool_call
from kernelkb_mcp.long_calls import run_long_call
from kernelkb_mcp.results import BuildResult, RestoredState
from kernelkb_mcp.tool_adapter import run_in_thread, to_tool_error
from kernelkb_mcp.tools.arguments import Change, Kernel, Target, Variant

if TYPE_CHECKING:
    from kernelkb.measure.machine.environment import TargetChoice
    from kernelkb.model.attempt import Attempt
    from kernelkb.model.measurement import Build
    from kernelkb.record.attempts.views import RestoredAttempt

TITLE = "Build a kernel variant"
# Not destructive: a restore keeps the files that it replaces. Not idempotent: ``best`` may name
# another attempt once a build of the first one has failed.
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)

Restore = Annotated[
    str | None,
    Field(
        max_length=32,
        description="First write an attempt back: its id, or best. Keeps what is there.",
    ),
]


async def build_kernel(
    ctx: Context,
    kernel: Kernel,
    variant: Variant = None,
    target: Target = "auto",
    change: Change = None,
    restore: Restore = None,
) -> Annotated[CallToolResult, BuildResult]:
    """Compile one variant and return the compiler's findings.

    CPU: which inner loops were vectorised, or why not. GPU: registers, spills, stack and shared
    memory. A compiler's error is a result, in build.error, with a cure.
    """
    if restore is not None:
        if change is not None:
            message = "restore takes a change back, and change names one; leave one of them out"
            raise ToolError(message)
        word = restore
        chosen = await run_in_thread(lambda: _find_attempt(word, kernel, variant, target))
        variant, target, restore = chosen.variant, chosen.target, chosen.id
    which = {"kernel": kernel, "variant": variant, "target": target}
    call = make_tool_call("build_kernel", **which, change=change, restore=restore)

    def work() -> BuildResult:
        from kernelkb.actions.building import build_variant

        if restore is None:
            return _build_result(build_variant(kernel, variant, target, change=change), None)
        from kernelkb.actions.restore_attempt import restore_attempt

        restored = restore_attempt(restore)
        try:
            return _build_result(build_variant(kernel, variant, target), restored)
        except (KbError, OSError) as error:
            done = _describe_restored(restored)
            raise ToolError(f"{done}; it was not built: {to_tool_error(error)}") from error

    return await run_long_call(ctx, BuildResult, call, work)


def _find_attempt(word: str, kernel: str, variant: str | None, target: TargetChoice) -> Attempt:
    from kernelkb.actions.restore_attempt import find_attempt_to_restore

    return find_attempt_to_restore(word, kernel, variant, target)


def _build_result(build: Build, restored: RestoredAttempt | None) -> BuildResult:
    from kernelkb.render.attempts import build_restored_object
    from kernelkb.render.measurements import describe_build

    again = f"kernel={build.kernel!r}, variant={build.variant!r}, target={build.target!r}"
    follow = f"{'build' if build.error else 'bench'}_kernel({again})"
    words = describe_build(build)
    if restored is None:
        return BuildResult(summary=words, build=build, next=(follow,))
    return BuildResult(
        summary=f"{_describe_restored(restored)}; {words}",
        build=build,
        restored=RestoredState.model_validate(build_restored_object(restored)),
        next=(follow,),
    )


def _describe_restored(restored: RestoredAttempt) -> str:
    from kernelkb.render.attempts import format_restored

    return "; ".join(format_restored(restored))
