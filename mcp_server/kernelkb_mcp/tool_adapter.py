"""Adapts engine calls to MCP tools: strict arguments, errors, results, cancellation."""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import anyio
from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, ValidationError

from kernelkb.errors import KbError
from kernelkb.safety.untrusted_text import sanitize_text, to_one_line
from kernelkb_mcp.jobs import JobRegistry
from kernelkb_mcp.next_call import format_next_call
from kernelkb_mcp.resources import ResourceServer
from kernelkb_mcp.schemas import outline_result, slim_arguments
from kernelkb_mcp.server_config import ServerConfig

T = TypeVar("T")

_ESCAPED_CONTROL = re.compile(r"\\[bfrtu]")
"""A control character in JSON text. A false match only costs a scan of each string."""
_UNION_TAGS = ("bool", "constrained-str", "float", "int", "str")
"""What pydantic adds to the place of an argument that may have several types."""
_CANCEL_TIMEOUT_S = 40.0
"""Longest wait for a cancelled thread, which kills its child processes first."""


class KernelServer(ResourceServer):
    """An MCP server with jobs, whose argument errors are one line that says what is accepted."""

    def __init__(
        self, config: ServerConfig, *, jobs: JobRegistry | None = None, **server_options: Any
    ) -> None:
        self.server_config = config
        self.jobs = jobs or JobRegistry(config.inline_s)
        super().__init__("kernelkb", **server_options)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; turn pydantic's paragraph about bad arguments into a sentence."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(self._describe_bad_arguments(name, error.__cause__)) from None
            if isinstance(error, UnexpectedToolError):  # the SDK writes its traceback to stderr
                raise
            said = error.__cause__ if isinstance(error.__cause__, ToolError) else error
            raise ToolError(to_one_line(str(said))) from None  # the SDK's prefix says nothing new

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Any = None
    ) -> Any:
        """Return a prompt; a client's mistake is an error with a line, and no stack on stderr.

        Raises:
            MCPError: The prompt or an argument is unknown, or the project's knowledge has errors.
        """
        known = {prompt.name: prompt for prompt in self._prompt_manager.list_prompts()}
        if name not in known:
            raise _make_argument_error(f"unknown prompt {name[:100]!r}; known: {', '.join(known)}")
        accepted = [argument.name for argument in known[name].arguments or ()]
        for given in arguments or {}:
            if given not in accepted:
                takes = ", ".join(accepted) or "none"
                wrong = f"{name} has no argument {given[:100]!r}; it takes {takes}"
                raise _make_argument_error(wrong)
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            cause = error.__cause__.__cause__ if error.__cause__ else None
            if isinstance(cause, KbError | OSError):
                raise _make_argument_error(str(to_tool_error(cause))) from None
            raise

    def _describe_bad_arguments(self, name: str, error: ValidationError) -> str:
        said: dict[str, list[str]] = {}
        for item in error.errors(include_url=False):
            where = ".".join(str(part) for part in item["loc"] if part not in _UNION_TAGS)
            text = item["msg"].removeprefix("Value error, ")
            said.setdefault(where, []).append(f"{text[:1].lower()}{text[1:]}")
        problems = "; ".join(
            f"{where}: {' or '.join(dict.fromkeys(texts))}" for where, texts in said.items()
        )
        tool = self._tool_manager.get_tool(name)
        accepted = ", ".join(tool.parameters["properties"]) if tool else "none"
        return f"bad arguments for {name}: {to_one_line(problems)}. Accepted: {accepted}"


def _make_argument_error(text: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=to_one_line(text))


def get_server_config(context: Context[Any, Any]) -> ServerConfig:
    """Return the configuration of the server that received a call."""
    return cast("KernelServer", context.mcp_server).server_config


def build_strict_tool(
    function: Callable[..., Any], title: str, annotations: ToolAnnotations
) -> Tool:
    """Return a tool that rejects unknown arguments; its docstring is its description."""
    text = inspect.getdoc(function)  # without the indentation that Python 3.12 still keeps
    tool = Tool.from_function(function, title=title, description=text, annotations=annotations)
    model = tool.fn_metadata.arg_model
    model.model_config = ConfigDict(**{**model.model_config, "extra": "forbid"})
    model.model_rebuild(force=True)
    tool.parameters = slim_arguments(model.model_json_schema(by_alias=True))
    if tool.fn_metadata.output_schema:  # results are validated by the model, not by this
        tool.fn_metadata.output_schema = outline_result(tool.fn_metadata.output_schema)
    return tool


def result_from_record(record: BaseModel) -> CallToolResult:
    """Return a result whose text is the same JSON as its structure, without the spaces."""
    return result_from_fields(record.model_dump(mode="json", by_alias=True))


def result_from_fields(structure: dict[str, Any]) -> CallToolResult:
    """Return a result of the fields of a record, as plain data."""
    text = _format_compact_json(structure)
    if not text.isprintable() or _ESCAPED_CONTROL.search(
        text
    ):  # only then there is something to remove
        structure = strip_control_characters(structure)
        text = _format_compact_json(structure)
    return CallToolResult(content=[TextContent(text=text)], structured_content=structure)


def _format_compact_json(structure: dict[str, Any]) -> str:
    return json.dumps(structure, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def strip_control_characters(value: Any) -> Any:
    """Return a result without control characters; compilers and kernels wrote parts of its text."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, dict):
        return {sanitize_text(key): strip_control_characters(part) for key, part in value.items()}
    return [strip_control_characters(part) for part in value] if isinstance(value, list) else value


def run_inline(work: Callable[[], T]) -> T:
    """Run short work in the event loop.

    Raises:
        ToolError: As ``run_in_thread`` does.
    """
    try:
        return work()
    except (KbError, OSError) as error:
        raise to_tool_error(error) from error


def to_tool_error(error: KbError | OSError) -> ToolError:
    """Return the error of a call: what happened and the cure, in one line.

    Raises:
        OSError: It is not about storage: an error of our own.
    """
    if isinstance(error, KbError):
        return ToolError(error.format_text(format_next_call))
    from kernelkb.safety.storage import find_storage_gap

    gap = find_storage_gap(error)
    if gap is None:
        raise error
    return ToolError(str(gap))


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run blocking work beside the event loop; a cancelled call leaves no child process behind.

    Raises:
        ToolError: The engine raised a ``KbError``; the text has its cause and cure.
    """
    from kernelkb.progress import cancel_on

    stop, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def run_work() -> T:
        begun.set()
        try:
            with cancel_on(stop):
                return work()
        finally:
            ended.set()

    try:
        return await anyio.to_thread.run_sync(run_work, abandon_on_cancel=True)
    except (KbError, OSError) as error:
        raise to_tool_error(error) from error
    except anyio.get_cancelled_exc_class():
        stop.set()
        if begun.is_set():  # killing the children takes some 10 ms
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(ended.wait, _CANCEL_TIMEOUT_S)
        raise
