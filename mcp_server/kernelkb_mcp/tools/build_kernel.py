"""build_kernel: compile one variant; before that set it up, copy it, or restore it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from kernelkb.errors import BadValueError, KbError
from kernelkb_mcp.calls.arguments import Change, Kernel, Target, Variant, require_path
from kernelkb_mcp.calls.jobs import make_tool_call
from kernelkb_mcp.calls.long_calls import run_long_call
from kernelkb_mcp.calls.tool_adapter import (
    get_server_config,
    result_from_record,
    run_in_thread,
    to_tool_error,
)
from kernelkb_mcp.views.next_call import format_step
from kernelkb_mcp.views.results import BuildResult, RestoredState

if TYPE_CHECKING:
    from kernelkb.actions.init.init_project import InitResult
    from kernelkb.measure.machine.environment import TargetChoice
    from kernelkb.model.records.history import Attempt
    from kernelkb.model.records.measurement import Build
    from kernelkb.record.attempt_tree import RestoredAttempt

TITLE = "Build a kernel variant"
# Not destructive: a restore keeps the files that it replaces. Not idempotent: ``best`` may name
# another attempt once a build of the first one has failed.
HINTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)

Restore = Annotated[
    str | None,
    Field(max_length=32, description="Write back an attempt: id or best."),
]

Arch = Annotated[str | None, Field(max_length=12, description="No GPU: 9.0 or sm_90.")]
Source = Annotated[str | None, Field(description="Set up a source: PATH[#NAME].")]
CopyOf = Annotated[str | None, Field(max_length=60, description="Add variant as its copy.")]
_FROM = "--from "
Answers = Annotated[list[str] | None, Field(description="To to_fill: x=[m,k]; --from CMD.")]


async def build_kernel(
    ctx: Context,
    kernel: Kernel,
    variant: Variant = None,
    target: Target = "auto",
    arch: Arch = None,
    file: Source = None,
    say: Answers = None,
    add_from: CopyOf = None,
    change: Change = None,
    restore: Restore = None,
) -> Annotated[CallToolResult, BuildResult]:
    """Compile a variant; first set it up from a source, add or restore it.

    CPU: loops vectorised, or why not. GPU: registers, spills, shared memory. Errors: build.error.
    """
    _refuse_mixture(variant, {"file": file, "add_from": add_from, "restore": restore}, change)
    if (word := restore) is not None:
        chosen = await run_in_thread(lambda: _find_attempt(word, kernel, variant, target))
        variant, target, restore = chosen.variant, chosen.target, chosen.id
    which = {"kernel": kernel, "variant": variant, "target": target, "arch": arch}
    first = {"file": file, "add_from": add_from, "restore": restore, "change": change}
    call = make_tool_call("build_kernel", **which, **first)
    source = _read_set_up(file, say or ())
    if source.program and not get_server_config(ctx).run_programs:
        return result_from_record(_refuse_program(source, kernel))

    def work() -> BuildResult:
        from kernelkb.actions.kernels.measure_variant import build_variant

        if file is not None:
            return set_up_and_build(source, kernel, variant, target, arch)
        if add_from is not None:
            return add_copy(add_from, kernel, variant or "", target)
        if restore is not None:
            return _restore_and_build(restore, kernel, variant, target, arch)
        return make_build_result(build_variant(kernel, variant, target, arch, change))

    return await run_long_call(ctx, BuildResult, call, work)


def _refuse_mixture(
    variant: str | None, first: Mapping[str, str | None], change: str | None
) -> None:
    """Raise ToolError for arguments that exclude each other."""
    given = [name for name, value in first.items() if value is not None]
    if len(given) > 1:
        raise ToolError(f"{given[0]} and {given[1]} are two beginnings; give one of them")
    if given and change is not None:
        message = f"{given[0]} writes the source, and change names yours; leave one of them out"
        raise ToolError(message)
    if first["add_from"] is not None and variant is None:
        raise ToolError("add_from copies a variant; variant is the name of the new one")


def _read_set_up(file: str | None, say: Sequence[str]) -> SetUp:
    """Return what a kernel is drafted from; a program stands among the answers.

    Raises:
        ToolError: A program is named without a source.
    """
    programs = [word.removeprefix(_FROM).strip() for word in say if word.startswith(_FROM)]
    if programs and file is None:
        raise ToolError(f"{_FROM}runs a program for the source of file; give file, too")
    said = [word for word in say if not word.startswith(_FROM)]
    return SetUp(file or "", said, programs[-1] if programs else None)


def _refuse_program(source: SetUp, kernel: str) -> BuildResult:
    """Return why a program is not run, and the command that runs it."""
    path, function = _split_source(source.file)
    run = ["--from", source.program or ""]
    words = ["kb", "init", path, *(["--kernel", function] if function else []), *run]
    if path.endswith(".py"):
        words = ["kb", "init", *run, "--op", function or Path(path).stem]
    return BuildResult(
        summary="this server runs no programs (kb-mcp --run-programs does): run the first of next "
        "in a shell",
        build=None,
        next=(
            f"in a shell: {shlex.join([*words, '--name', kernel])}",
            f"build_kernel(kernel={kernel!r})",
        ),
    )


def _restore_and_build(
    attempt: str, kernel: str, variant: str | None, target: TargetChoice, arch: str | None
) -> BuildResult:
    from kernelkb.actions.history.attempts import restore_attempt
    from kernelkb.actions.kernels.measure_variant import build_variant
    from kernelkb.render.text.attempts import build_restored_object

    restored = restore_attempt(attempt)
    done = _describe_restored(restored)
    try:
        built = build_variant(kernel, variant, target, arch)
    except (KbError, OSError) as error:
        raise ToolError(f"{done}; it was not built: {to_tool_error(error)}") from error
    state = RestoredState.model_validate(build_restored_object(restored))
    return make_build_result(built, done, restored=state)


def _find_attempt(word: str, kernel: str, variant: str | None, target: TargetChoice) -> Attempt:
    from kernelkb.actions.history.attempts import find_attempt_to_restore

    return find_attempt_to_restore(word, kernel, variant, target)


def _describe_restored(restored: RestoredAttempt) -> str:
    from kernelkb.render.text.attempts import format_restored

    return "; ".join(format_restored(restored))


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


class SetUp(NamedTuple):
    """What a kernel is drafted from."""

    file: str
    """``PATH``, or ``PATH#FUNCTION``."""
    said: Sequence[str] = ()
    """As ``kb init --set`` takes it."""
    program: str | None = None
    """A command whose run shows what the source does not say."""


def set_up_and_build(
    source: SetUp, kernel: str, variant: str | None, target: TargetChoice, arch: str | None
) -> BuildResult:
    """Draft a kernel's folder from its source, and build it unless something is to be said.

    Args:
        source: What it is drafted from.
        kernel: The name that the kernel gets.
        variant: The variant to build; None: the first.
        target: Where it will run.
        arch: Build for it, without a GPU.

    Raises:
        ToolError: ``file`` is a text, or holds no kernel; or the name is another source's.
    """
    from kernelkb.actions.kernels.measure_variant import build_variant

    made = _set_up(source, kernel, target)
    file = source.file
    setup = made.model_dump(mode="json")
    done = f"wrote {', '.join(made.written)}" if made.written else "set up already"
    if made.to_fill:
        follow = _name_answers(made.kernel, file, made.to_fill)
        done += f"; {len(made.to_fill)} things are to be said"
        return BuildResult(summary=done, build=None, setup=setup, next=follow)
    if not made.is_usable:
        done += "; it does not repeat what was recorded"
        return BuildResult(summary=done, build=None, setup=setup, next=(made.next,))
    try:
        built = build_variant(made.kernel, variant, target, arch)
    except (KbError, OSError) as error:
        raise ToolError(f"{done}; it was not built: {to_tool_error(error)}") from error
    return make_build_result(built, done, setup=setup)


def _set_up(source: SetUp, kernel: str, target: TargetChoice) -> InitResult:
    from kernelkb.actions.init.init_observed import init_observed
    from kernelkb.actions.init.init_project import init_launches, init_project

    path, function = _split_source(source.file)
    try:
        if source.program is None:
            return init_project(path, None, target, kernel, function or None, source.said)
        if path.endswith(".py"):
            return init_observed(source.program, function or Path(path).stem, kernel)
        return init_launches(path, source.program, function or None, kernel, source.said)
    except BadValueError as error:  # a menu ends with the command that takes the first function
        raise ToolError(str(error).replace(f"kb init {path} --kernel ", f"file={path}#")) from error


def _split_source(file: str) -> tuple[str, str]:
    path, _, function = file.partition("#")
    require_path("file", path)
    return path, function


def _name_answers(kernel: str, file: str, to_fill: Sequence[str]) -> tuple[str, str]:
    """Return the call that takes each guess, and what is to be done before it."""
    words = [mark.partition("  # ")[0] for mark in to_fill]
    again = f"build_kernel(kernel={kernel!r}, file={file!r}, say={words!r})"
    return again, "before that: correct the guesses of setup.to_fill, and say each ?"


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
