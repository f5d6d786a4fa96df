"""Answers a browser with a page where a program gets a problem document."""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problem import MEDIA_TYPE, Problem


class ProblemPages:
    """Middleware that replaces each problem document by its page if the client accepts HTML, except in the API."""

    def __init__(self, app: ASGIApp, page: Callable[[Request, Problem], Response]) -> None:
        self._app, self._page = app, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_page = scope["type"] == "http" and not scope["path"].startswith("/api/")
        if not is_page or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self._app(scope, receive, send)
            return
        headers: Headers | None = None
        body = bytearray()

        async def send_page(message: Message) -> None:
            nonlocal headers
            if message["type"] == "http.response.start":
                found = Headers(raw=message["headers"])
                if found.get("content-type", "").startswith(MEDIA_TYPE):
                    headers = found
                    return
            if headers is None:
                await send(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            page = self._page(Request(scope), Problem.model_validate_json(bytes(body)))
            page.headers.update({name: value for name, value in headers.items() if not name.startswith("content-")})
            await page(scope, receive, send)

        await self._app(scope, receive, send_page)
