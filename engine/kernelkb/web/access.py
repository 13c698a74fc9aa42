"""Lets in who may see the page: Host, Origin, token and forms; and says what a browser may load."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may load: files of this server. No script or style that stands in a page runs."""
MAX_BODY_BYTES = 64 * 2**20
"""Of a report that is dropped on the page."""
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_READING = ("GET", "HEAD")


def make_form_key(token: str) -> str:
    """Return what each form must send back; other sites cannot read it."""
    return hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()


def is_secret(sent: str | None, secret: str) -> bool:
    """Return whether a text is a secret, in a time that does not depend on how much of it is."""
    return secrets.compare_digest((sent or "").encode(), secret.encode())


class WebGuard:
    """An application in front of another one: answers what may not pass, and adds the headers.

    The token of ``kb web``'s address becomes a cookie that scripts cannot read and that other
    sites cannot send; the address in the browser loses it.
    """

    def __init__(self, inner: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._inner, self._token, self._hosts = inner, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = _read_headers(scope)
        refused = self._refuse(scope, headers)
        if refused is not None:
            await _answer(scope, receive, send, *refused)
            return
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if is_secret(query.pop("token", None), self._token) and scope["method"] in _READING:
            where = self._give_cookie(scope["path"], headers, query)
            await _answer(scope, receive, send, 303, "", where)
        elif not self._has_token(scope, headers):
            told = "This page needs its token: open the address kb web printed."
            await _answer(scope, receive, send, 401, told)
        else:
            await self._inner(scope, _limit_body(receive), _add_headers(send))

    def _refuse(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, "This server is not called that; open the address kb web printed."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return 413, f"At most {MAX_BODY_BYTES >> 20} MiB can be sent."
        if scope["method"] in _READING:
            return None
        if scope["method"] != "POST":
            return 405, "Only GET, HEAD and POST."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        if origin not in (f"http://{host}", f"https://{host}") or site != "same-origin":
            return 403, "A form of another site cannot write here."
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        from starlette.requests import Request

        scheme, _, sent = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return is_secret(sent.strip(), self._token)
        return is_secret(Request(scope).cookies.get(_name_cookie(headers)), self._token)

    def _give_cookie(
        self, path: str, headers: dict[str, str], query: dict[str, str]
    ) -> dict[str, str]:
        """Return the headers that lead to the same page without the token."""
        cookie = f"{_name_cookie(headers)}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        place = quote("/" + path.lstrip("/\\")) + (f"?{urlencode(query)}" if query else "")
        return {"location": place, "set-cookie": cookie}


def _read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers by name; one that stands twice is empty: which counts is not clear."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = "" if key in found and key != "cookie" else value.decode("latin-1")
    return found


def _name_cookie(headers: dict[str, str]) -> str:
    """Return the cookie's name: browsers send one server's cookies to all ports of a host."""
    return f"kernelkb_{headers['host'].rpartition(':')[2] or '80'}"


async def _answer(
    scope: Scope, receive: Receive, send: Send, status: int, text: str, more: Mapping[str, str] = {}
) -> None:
    from starlette.responses import PlainTextResponse

    await PlainTextResponse(text, status, {**_HEADERS, **more})(scope, receive, send)


def _add_headers(send: Send) -> Send:
    from starlette.datastructures import MutableHeaders

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                given.setdefault(name, value)
        await send(message)

    return send_with_headers


def _limit_body(receive: Receive) -> Receive:
    """Return a receiver that ends a body without a length where it becomes too long."""
    taken = 0

    async def receive_limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return {"type": "http.disconnect"} if taken > MAX_BODY_BYTES else message

    return receive_limited
