"""Maps addresses to views, and forms to what they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import KbError, UnknownNameError
from kernelkb.render.html.pages import fill_template, load_template
from kernelkb.web import checklist, decision, history, knowledge, live, start
from kernelkb.web.access import WebGuard, is_secret, make_form_key
from kernelkb.web.site import Site, View, WebPage, digest_static, read_static
from kernelkb.web.start import stamp_project

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

_YEAR = "public, max-age=31536000, immutable"
_MAX_FIELDS = 40
_KEPT = ("/history", "/kernel/", "/search", "/knowledge/")
"""Pages that show nothing but what ``stamp_project`` looks at begin so; the last are kept."""
_MAX_KEPT, _MAX_ADDRESS = 64, 300
_PARSERS = 2
"""Reports that are read at once; each takes a process and some memory."""

VIEWS: dict[str, View] = {
    "/": start.show_start,
    "/search": start.show_search,
    "/decision": decision.show_decision,
    "/report/{key}": decision.show_report,
    "/reports": decision.show_two_reports,
    "/checklist": checklist.show_checklist,
    "/session/{session}": checklist.show_checklist,
    "/live": live.show_live,
    "/history": history.show_history,
    "/kernel/{name}": history.show_kernel_history,
    "/attempt/{name}": history.show_attempt,
    "/difference": history.show_difference,
    "/knowledge": knowledge.show_index,
    "/knowledge/quickref": knowledge.show_quickref,
    "/knowledge/{kind}": knowledge.show_kind,
    "/knowledge/{kind}/{name}": knowledge.show_entry,
}
_FIRST = {"speedup": "0.5", "q": "bank conflicts", "kind": "trees", "name": decision.DEFAULT_TREE}
"""With which the views together load knowledge, rules, templates and search."""


def build_application(token: str, hosts: Collection[str], *, writes: bool) -> ASGIApp:
    """Return the page as an application that answers only those who have the token.

    Args:
        token: What they send.
        hosts: Every Host header that is accepted, with its port.
        writes: Whether forms may change something.
    """
    from starlette.applications import Starlette
    from starlette.routing import Route

    site = Site(get_project_path().name, writes=writes, form_key=make_form_key(token))
    reading, kept = asyncio.Semaphore(_PARSERS), Kept()
    routes = [
        Route(path, partial(_answer_view, site=site, view=view, reading=reading, kept=kept))
        for path, view in VIEWS.items()
    ]
    routes += [
        Route("/static/{digest}/{name}", _answer_static),
        Route("/live/stream", partial(_answer_stream, site=site)),
    ]
    changes: dict[str, Change] = {
        "/decision/report": _keep_report,
        "/checklist/mark": _mark,
        "/live/start": _start,
        "/live/stop": _stop,
    }
    routes += [
        Route(path, partial(_answer_form, site=site, change=do), methods=["POST"])
        for path, do in changes.items()
    ]
    missing = partial(_answer_missing, site=site)
    inner = Starlette(routes=routes, exception_handlers={404: missing})
    return WebGuard(inner, token, hosts)


def warm_up() -> None:
    """Load what the first page of each kind would wait for."""
    for view in VIEWS.values():
        with suppress(KbError, OSError, LookupError):
            Site("").fill(view(_FIRST))
    load_template("web/kernel.html")


Kept = dict[str, tuple[object, bytes]]
"""By its address, a page and the stamp of the project that it shows."""


async def _answer_view(
    asked: Request, *, site: Site, view: View, reading: asyncio.Semaphore, kept: Kept
) -> Response:
    async with reading if asked.url.path.startswith("/report") else nullcontext():
        return await asyncio.to_thread(_view, site, view, asked, kept)


def _view(site: Site, view: View, asked: Request, kept: Kept) -> Response:
    """Return a view, or a page that says what is wrong in one line."""
    from starlette.responses import HTMLResponse

    address = f"{asked.url.path}?{asked.url.query}"
    # The code of a fix is in a file of its own, at which a stamp does not look.
    keeps = address.startswith(_KEPT) and asked.path_params.get("kind") != "fixes"
    keeps = keeps or address == "/decision?"
    try:
        stamp = stamp_project() if keeps and len(address) < _MAX_ADDRESS else None
        known = kept.get(address)
        if stamp is not None and known and known[0] == stamp:
            return HTMLResponse(known[1])
        answer = _fill(site, view({**asked.query_params, **asked.path_params}))
    except KbError as error:
        status = 404 if isinstance(error, UnknownNameError) else 422
        return _fill(site, show_problem(str(error), status))
    if stamp is not None:
        for oldest in list(kept)[: len(kept) - _MAX_KEPT]:
            kept.pop(oldest, None)
        kept[address] = stamp, bytes(answer.body)
    return answer


def _fill(site: Site, page: WebPage) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(site.fill(page), status_code=page.status)


def show_problem(text: str, status: int = 422) -> WebPage:
    """Return a page with one line: what is wrong, and the cure."""
    return WebPage("problem.html", "Not shown", "", {"text": text}, status)


async def _answer_missing(_: Request, __: Exception, *, site: Site) -> Response:
    return _fill(site, show_problem("there is no such page", 404))


async def _answer_static(asked: Request) -> Response:
    from starlette.responses import Response

    name = asked.path_params["name"]
    content = read_static(name)
    if content is None or asked.path_params["digest"] != digest_static(name):
        return Response(status_code=404)
    kind, _ = guess_type(name)
    return Response(content, media_type=kind, headers={"cache-control": _YEAR})


async def _answer_stream(_: Request, *, site: Site) -> Response:
    from starlette.responses import StreamingResponse

    def render(one: Site) -> str:
        return fill_template("web/live_runs.html", site=one, **live.collect_runs())

    return StreamingResponse(live.stream_runs(site, render), media_type="text/event-stream")


Change = Callable[[Mapping[str, Any]], str]
"""Does what a form asks for, and returns the address of the page that shows it."""


async def _answer_form(asked: Request, *, site: Site, change: Change) -> Response:
    """Answer a form: refuse one of another site, and one that changes what may only be read."""
    from starlette.responses import RedirectResponse

    async with asked.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=8 * 2**20) as form:
        given = {k: v for k, v in form.items() if isinstance(v, str) or k == "report"}
        if not is_secret(str(given.get("form_key")), site.form_key):
            text = "this form is old or of another site; load the page again"
            return _fill(site, show_problem(text, 403))
        if not site.writes and change is not _keep_report:
            text = "this page is read-only; start kb web without --read-only"
            return _fill(site, show_problem(text, 403))
        try:
            place = await asyncio.to_thread(change, given)
        except KbError as error:
            return _fill(site, show_problem(str(error)))
    return RedirectResponse(place, status_code=303)


def _keep_report(form: Mapping[str, Any]) -> str:
    from starlette.datastructures import UploadFile

    given, before = form.get("report"), form.get("before", "")
    name, content = "pasted.txt", form.get("text", "").encode()
    if isinstance(given, UploadFile) and given.filename:
        name, content = Path(given.filename).name, given.file.read()
    key = decision.keep_report(content, name)
    return f"/reports?a={quote(before)}&b={key}" if before else f"/report/{key}"


def _mark(form: Mapping[str, Any]) -> str:
    session, item, note = (form.get(name, "") for name in ("session", "item", "note"))
    passed = {"passed": True, "failed": False}.get(form.get("passed", ""))
    checklist.mark_item(session, item, passed, note)
    return f"/checklist#{item}"


def _start(form: Mapping[str, Any]) -> str:
    live.start_command(*(form.get(name, "") for name in ("command", "kernel", "variant")))
    return "/live"


def _stop(form: Mapping[str, Any]) -> str:
    live.stop_command(form.get("run", ""))
    return "/live"
