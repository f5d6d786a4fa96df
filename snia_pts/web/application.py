"""The application of ``snia-pts serve``: its routes, and the headers of every answer."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .feed import Feed
from .pages import Pages
from .source import Source

#: Nothing is loaded from elsewhere, nothing in a page is a script, and no page can be framed.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_application(source: Source, *, routers: Sequence[APIRouter] = (), changes: bool = False) -> FastAPI:
    """Return the application that shows a source; ``routers`` have further routes, such as those of the API.

    ``changes``: the pages have forms that change something; see ``Pages``.
    """
    application = FastAPI(title="snia-pts", docs_url=None, redoc_url=None, openapi_url=None)
    application.state.source = source
    application.state.feed = feed = Feed(source)
    application.include_router(Pages(source, feed, changes=changes).router)
    for router in routers:
        application.include_router(router)
    application.add_middleware(SafeHeaders)
    return application


class SafeHeaders:
    """Adds ``HEADERS`` to every answer that does not have its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_safely)
