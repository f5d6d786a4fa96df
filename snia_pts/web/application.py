"""The application of ``snia-pts serve``: its routes, and the headers of every answer."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import __version__
from .access import ROUTES, Access, AccessControl
from .api import PREFIX, add_error_answers, api_router
from .feed import Feed
from .login import Login
from .metrics_route import router as metrics_router
from .pages import PAGE_ROUTES, Pages
from .problem import problem_response
from .problem_pages import ProblemPages
from .snapshots import Snapshots
from .source import Source

_LOGGER = logging.getLogger(__name__)
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


def make_application(source: Source, access: Access | None = None) -> FastAPI:
    """Return the application that shows a source to those who have ``access``.

    Without it, the application has only the pages that read, for everybody who can connect.
    """
    application = FastAPI(
        title="snia-pts",
        version=__version__,
        description="Runs of the SNIA SSS Performance Test Specification: docs/serve.rst.",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json" if access else None,
    )
    application.state.source = source
    application.state.snapshots = snapshots = Snapshots(source)
    application.state.feed = feed = Feed(snapshots)
    pages = Pages(source, snapshots, feed, access_control=access is not None)
    application.include_router(pages.router)
    application.include_router(metrics_router)
    add_error_answers(application)
    if access is not None:
        application.include_router(Login(access).router)
        application.include_router(api_router(source, snapshots, feed, access.users))
        application.add_middleware(AccessControl, access=access, routes={**PAGE_ROUTES, **ROUTES})
    application.add_middleware(UnexpectedErrors)
    application.add_middleware(ProblemPages, page=pages.problem_page)
    application.add_middleware(SafeHeaders)
    application.add_middleware(HeadRequests)
    return application


class UnexpectedErrors:
    """Answers a request that fails unexpectedly; only the log has the cause."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = scope["type"] != "http"

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception:
            if started:
                raise
            _LOGGER.exception("%s %s failed", scope["method"], scope["path"])
            hint = "The cause is in the log of the server."
            answer = problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed unexpectedly.", hint)
            await answer(scope, receive, send)


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


class HeadRequests:
    """Answers HEAD as GET without the body, so that the rights of GET hold; ends a stream, such as one of events."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        ended = False

        async def send_without_body(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.body":
                if not ended:
                    ended = True
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                if message.get("more_body", False):
                    raise OSError("HEAD needs no body")  # as ASGI specifies for a client that has disconnected
            else:
                await send(message)

        try:
            await self._app({**scope, "method": "GET"}, receive, send_without_body)
        except (OSError, ClientDisconnect):
            if not ended:
                raise
