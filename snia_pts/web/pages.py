"""The pages: they work without JavaScript, and a small script keeps their values current."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from .feed import Feed
from .source import Source


class Pages:
    """The routes of the pages of a source."""

    def __init__(self, source: Source, feed: Feed) -> None:
        self._source, self._feed = source, feed
        self.router = APIRouter(include_in_schema=False)
        self.router.add_api_route("/", self._drives, response_class=HTMLResponse)

    def _drives(self) -> HTMLResponse:
        snapshot = self._source.snapshot()
        return HTMLResponse(f"{len(snapshot.runs)} runs")
