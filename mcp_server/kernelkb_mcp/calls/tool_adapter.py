"""Adapts engine calls to MCP tools: strict arguments and schemas, errors, results."""

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
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from kernelkb.errors import KbError
from kernelkb.safety.untrusted_text import sanitize_text, to_one_line
from kernelkb_mcp.calls.apps import bind_view, supports_apps
from kernelkb_mcp.calls.jobs import JobRegistry
from kernelkb_mcp.calls.resources import ResourceServer
from kernelkb_mcp.server_config import ServerConfig
from kernelkb_mcp.views.next_call import format_next_call

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

    async def _handle_list_tools(self, ctx: Any, params: Any) -> ListToolsResult:
        listed = await super()._handle_list_tools(ctx, params)
        if not supports_apps(ctx):
            return listed
        return listed.model_copy(update={"tools": [bind_view(tool) for tool in listed.tools]})

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


def slim_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove what a model does not need in order to call a tool; the server checks it all the same.

    That is null among the types of an optional argument, since clients show ``string`` better than
    ``string or null``; the longest length and the pattern of a text, which no honest call breaks;
    the default, which stands in the description because some clients drop it; and the titles that
    pydantic generates.
    """
    slim: dict[str, Any] = _drop_titles(schema)
    for argument in slim["properties"].values():
        others = [one for one in argument.get("anyOf", ()) if one != {"type": "null"}]
        for one in (argument, *others):
            for key in ("maxLength", "pattern", "default"):
                one.pop(key, None)
        if len(others) == 1:
            del argument["anyOf"]
            argument.update({**others[0], **argument})
        elif others:
            argument["anyOf"] = others
    return slim


def outline_result(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the outermost fields of a result's schema, each with its types and its description.

    No client shows a model more of it, and some validate every result against it. A record inside
    is any object, so that a client that kept the list of tools takes a new field of a later server.
    """
    fields = {name: _outline_field(field, schema) for name, field in schema["properties"].items()}
    return {"type": "object", "properties": fields, "required": list(schema.get("required", ()))}


def _outline_field(field: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    types = list(dict.fromkeys(_iter_types(field, schema)))
    outline: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if "description" in field:
        outline["description"] = field["description"]
    return outline


def _iter_types(field: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Yield the JSON types that a field may have."""
    if "$ref" in field:
        yield from _iter_types(schema["$defs"][field["$ref"].rpartition("/")[2]], schema)
    elif "anyOf" in field:
        for one in field["anyOf"]:
            yield from _iter_types(one, schema)
    else:
        yield field["type"]


def _drop_titles(schema: Any) -> Any:
    """Remove the titles that pydantic generates: a fifth of the bytes without information."""
    if isinstance(schema, list):
        return [_drop_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: (
            {name: _drop_titles(part) for name, part in value.items()}
            if key in ("properties", "$defs")
            else _drop_titles(value)
        )
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
