"""The pages: they work without JavaScript, and a small script keeps their values current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePath
from typing import Annotated, Any, BinaryIO, Literal
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from ..errors import SniaPtsError, UnknownRun, UsageError
from ..spec import SPEC_TYPES
from ..spec.reader import title_of
from ..text import json_values, printable
from ..units import capacity, counted, duration, number
from . import rows
from .access import identity_of
from .feed import EventStream, Feed
from .model import Request as RunRequest
from .model import ResultQuery, SpreadView
from .problem import Problem
from .rows import UNKNOWN, Selection
from .snapshots import Snapshots
from .source import Source

#: The least role for each route; those with POST exist only with access control.
PAGE_ROUTES: Mapping[tuple[str, str], Literal["viewer", "operator"] | None] = {
    ("GET", "/static/{name}"): None,
    ("GET", "/"): "viewer",
    ("GET", "/events"): "viewer",
    ("GET", "/runs"): "viewer",
    ("GET", "/runs/{run_id}"): "viewer",
    ("GET", "/runs/{run_id}/events"): "viewer",
    ("GET", "/runs/{run_id}/series"): "viewer",
    ("GET", "/runs/{run_id}/files/{name:path}"): "viewer",
    ("GET", "/queue"): "viewer",
    ("GET", "/hosts"): "viewer",
    ("GET", "/results"): "viewer",
    ("GET", "/results/trend"): "viewer",
    ("GET", "/results/spread"): "viewer",
    ("GET", "/results/comparison"): "viewer",
    ("GET", "/plan"): "viewer",
    ("POST", "/runs"): "operator",
    ("POST", "/runs/{run_id}/stop"): "operator",
    ("POST", "/runs/{run_id}/resume"): "operator",
    ("POST", "/drives/{drive_id}/hold"): "operator",
    ("POST", "/drives/{drive_id}/release"): "operator",
}
_STATIC = {
    "live.js": ("static", "text/javascript"),
    "style.css": ("static", "text/css"),
    "uPlot.iife.min.js": ("vendor", "text/javascript"),
    "uPlot.min.css": ("vendor", "text/css"),
}
#: How a file of a run folder is shown.  All other files are downloads.
_SHOWN = {
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".pdf": "application/pdf",
    **dict.fromkeys((".rst", ".txt", ".jsonl", ".xml", ".csv", ".json", ".sha256", ".log"), "text/plain"),
}
#: Anybody may have written a file of a run folder: it may run no scripts, send no forms and not access this origin.
_FILE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
_SANDBOX = f"sandbox; {_FILE_POLICY}"
_CHUNK_BYTES = 256 * 1024
#: At most this many values of a series are sent to a browser.
_MAX_SERIES_VALUES = 2000
_MAX_LISTED = 1000
#: A comparison has at least and at most this many runs.
_MIN_COMPARED, _MAX_COMPARED = 2, 26
#: A trend groups runs by one of these columns.
_TREND_COLUMNS = ("firmware", "serial", "model", "host", "test", "verdict")
_Text = Annotated[str, Query(max_length=200)]
_PageNumber = Annotated[int, Query(ge=1, le=100_000)]


class Pages:
    """The routes of the pages of a source.

    With ``access_control``, the pages have forms that change something, for users whose role allows it.  It requires
    middleware that stores the ``identity`` of the sender in the state of each request.
    """

    def __init__(self, source: Source, snapshots: Snapshots, feed: Feed, *, access_control: bool = False) -> None:
        self._source, self._snapshots, self._feed = source, snapshots, feed
        self._has_access_control = access_control
        self._templates = Environment(
            loader=PackageLoader("snia_pts.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self._templates.filters |= {
            "capacity": capacity,
            "duration": duration,
            "number": number,
            "percent": rows.percent,
            "quoted": quote,
            "title_of": title_of,
        }
        self._templates.globals |= {"rows": rows, "unknown": UNKNOWN, "counted": counted, "tests": tuple(SPEC_TYPES)}
        self.router = APIRouter(include_in_schema=False)
        get_routes: Mapping[str, Callable[..., Any]] = {
            "/": self._drives,
            "/events": self._events,
            "/runs": self._runs,
            "/runs/{run_id}": self._run,
            "/runs/{run_id}/events": self._run_events,
            "/runs/{run_id}/series": self._series,
            "/runs/{run_id}/files/{name:path}": self._file,
            "/queue": self._queue,
            "/hosts": self._hosts,
            "/results": self._results,
            "/results/trend": self._trend,
            "/results/spread": self._spread,
            "/results/comparison": self._comparison,
            "/plan": self._plan,
            "/static/{name}": self._static,
        }
        for path, endpoint in get_routes.items():
            self.router.add_api_route(path, endpoint, methods=["GET"], response_model=None)
        post_routes: Mapping[str, Callable[..., Any]] = {
            "/runs": self._submit,
            "/runs/{run_id}/stop": self._stop,
            "/runs/{run_id}/resume": self._resume,
            "/drives/{drive_id}/hold": self._hold,
            "/drives/{drive_id}/release": self._release,
        }
        for path, endpoint in post_routes.items() if access_control else ():
            self.router.add_api_route(path, endpoint, methods=["POST"], response_model=None)

    def _page(self, request: Request, template: str, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> HTMLResponse:
        identity = getattr(request.state, "identity", None)
        may_read = not self._has_access_control or (identity is not None and identity.may("viewer"))
        may_change = identity is not None and identity.may("operator")
        page = self._templates.get_template(template).render(
            source=self._source,
            path=request.url.path,
            identity=identity,
            may_read=may_read,
            may_change=may_change,
            **values,
        )
        return HTMLResponse(page, status)

    def problem_page(self, request: Request, problem: Problem) -> Response:
        """Return the page of an error."""
        return self._page(request, "problem.html", HTTPStatus(problem.status), problem=problem)

    def _drives(self, request: Request, q: _Text = "", state: _Text = "", page: _PageNumber = 1) -> Response:
        return self._list(request, Selection(kind="drives", text=q, state=state, page=page))

    def _runs(self, request: Request, q: _Text = "", state: _Text = "", page: _PageNumber = 1) -> Response:
        return self._list(request, Selection(kind="runs", text=q, state=state, page=page))

    def _queue(self, request: Request, q: _Text = "", state: _Text = "", page: _PageNumber = 1) -> Response:
        return self._list(request, Selection(kind="queue", text=q, state=state, page=page))

    def _hosts(self, request: Request, q: _Text = "", state: _Text = "", page: _PageNumber = 1) -> Response:
        return self._list(request, Selection(kind="hosts", text=q, state=state, page=page))

    def _list(self, request: Request, selection: Selection) -> Response:
        snapshot = self._snapshots.current()
        listing = selection.listing(snapshot)
        return self._page(
            request, f"{selection.kind}.html", snapshot=snapshot, listing=listing, events=selection.events
        )

    def _run(self, request: Request, run_id: str) -> Response:
        detail = self._source.run(run_id)
        cells = rows.run_cells(detail.run, datetime.now().astimezone())
        events = f"/runs/{quote(run_id)}/events" if detail.run.state != "finished" else ""
        return self._page(request, "run.html", detail=detail, run=detail.run, cells=cells, events=events)

    async def _events(
        self,
        kind: Literal["drives", "runs", "queue", "hosts"] = "drives",
        q: _Text = "",
        state: _Text = "",
        page: _PageNumber = 1,
    ) -> Response:
        selection = Selection(kind=kind, text=q, state=state, page=page)
        return EventStream(self._feed.events(selection.events, lambda snapshot: selection.listing(snapshot).rows()))

    async def _run_events(self, run_id: str) -> Response:
        return EventStream(self._feed.events(f"run {run_id}", partial(rows.run_rows, run_id)))

    def _series(self, run_id: str) -> Response:
        detail = self._source.run(run_id)
        return JSONResponse(json_values([asdict(series.thinned(_MAX_SERIES_VALUES)) for series in detail.series]))

    def _file(self, run_id: str, name: str, *, download: bool = False) -> Response:
        file = self._source.open_file(run_id, name)
        path = PurePath(name)
        kind = None if download else _SHOWN.get(path.suffix.lower())
        disposition = "inline" if kind else "attachment"
        policy = _FILE_POLICY if kind == "application/pdf" else _SANDBOX  # a viewer of PDF does not run in a sandbox
        headers = {
            "Content-Security-Policy": policy,
            "Content-Disposition": f"{disposition}; filename*=UTF-8''{quote(path.name)}",
        }
        media_type = kind or "application/octet-stream"
        if media_type == "text/plain":
            media_type += "; charset=utf-8"
        response = StreamingResponse(_chunks(file), media_type=None, headers=headers)
        response.headers["Content-Type"] = media_type
        return response

    def _results(self, request: Request) -> Response:
        fields = _result_fields(request)
        results = self._source.results(ResultQuery(**fields))
        return self._page(
            request,
            "results.html",
            fields=fields,
            query=urlencode(fields),
            results=results[:_MAX_LISTED],
            count=len(results),
            events="",
        )

    def _trend(self, request: Request, metric: _Text = "", at: _Text = "", by: _Text = "firmware") -> Response:
        fields, trend, mistake = _result_fields(request), None, ""
        metrics = self._source.metrics()
        if metric:
            try:
                trend = self._source.trend(ResultQuery(**fields), metric=metric, at=at, by=by)
            except UsageError as error:
                mistake = f"{error} {error.full_hint}".strip()
        shown = trend.values[-_MAX_LISTED:] if trend else ()
        return self._page(
            request,
            "trend.html",
            HTTPStatus.BAD_REQUEST if mistake else HTTPStatus.OK,
            trend=trend,
            mistake=mistake,
            metric=metric,
            at=at,
            by=by,
            fields=fields,
            columns=_TREND_COLUMNS,
            names=tuple(dict.fromkeys(item.metric for item in metrics)),
            points=tuple(dict.fromkeys(item.at for item in metrics if metric in ("", item.metric)))[:_MAX_LISTED],
            heading=f"{metric} ({trend.unit}) at {at}" if trend and trend.unit else f"{metric} at {at}",
            plot=rows.trend_chart(trend, shown) if trend else None,
            shown=shown,
            events="",
        )

    def _spread(self, request: Request, metric: _Text = "") -> Response:
        fields, mistake = _result_fields(request), ""
        spread: Sequence[SpreadView] = ()
        if fields["model"]:
            try:
                spread = self._source.spread(ResultQuery(**fields), metric=metric)
            except UsageError as error:
                mistake = f"{error} {error.full_hint}".strip()
        return self._page(
            request,
            "spread.html",
            HTTPStatus.BAD_REQUEST if mistake else HTTPStatus.OK,
            spread=spread,
            mistake=mistake,
            metric=metric,
            fields=fields,
            names=tuple(dict.fromkeys(item.metric for item in self._source.metrics())),
            shown=spread[:_MAX_LISTED],
            events="",
        )

    def _comparison(
        self, request: Request, run: Annotated[Sequence[str], Query(max_length=_MAX_COMPARED)] = ()
    ) -> Response:
        if len(run) < _MIN_COMPARED:
            status = HTTPStatus.BAD_REQUEST if run else HTTPStatus.OK
            return self._page(request, "comparison.html", status, comparison=None, shown=(), events="")
        starts = {view.id: view.started for view in self._snapshots.current().runs}
        comparison = self._source.comparison(sorted(run, key=lambda run_id: starts.get(run_id, "")))
        return self._page(
            request, "comparison.html", comparison=comparison, shown=comparison.figures[:_MAX_LISTED], events=""
        )

    def _plan(
        self, request: Request, test: str = "", target: str = "", test_class: str = "enterprise", overrides: str = ""
    ) -> Response:
        plan, mistake = None, ""
        if test and target:
            try:
                plan = self._source.plan(_run_request(test, target, test_class, overrides))
            except SniaPtsError as error:
                mistake = f"{error} {error.full_hint}".strip()
        fields = {"test": test, "target": target, "test_class": test_class, "overrides": overrides}
        status = HTTPStatus.BAD_REQUEST if mistake else HTTPStatus.OK
        return self._page(request, "plan.html", status, plan=plan, mistake=mistake, fields=fields, events="")

    async def _submit(self, request: Request) -> Response:
        form = await _form(request)
        values = (form.get(name, "") for name in ("test", "target", "test_class", "overrides", "serial"))
        run_request = partial(_run_request, *values)

        def submit() -> str:
            return f"/runs/{quote(self._source.submit(run_request()))}"

        return await self._change(submit)

    async def _stop(self, request: Request, run_id: str) -> Response:
        by = identity_of(request).name

        def stop() -> str:
            self._source.stop(run_id, by=by)
            return f"/runs/{quote(run_id)}"

        return await self._change(stop)

    async def _resume(self, request: Request, run_id: str) -> Response:
        serial = (await _form(request)).get("serial", "")

        def resume() -> str:
            self._source.resume(run_id, serial=serial)
            return f"/runs/{quote(run_id)}"

        return await self._change(resume)

    async def _hold(self, request: Request, drive_id: str) -> Response:
        reason = (await _form(request)).get("reason", "")

        def hold() -> str:
            self._source.hold(drive_id, reason)
            return "/"

        return await self._change(hold)

    async def _release(self, drive_id: str) -> Response:
        def release() -> str:
            self._source.release(drive_id)
            return "/"

        return await self._change(release)

    async def _change(self, change: Callable[[], str]) -> Response:
        """Perform a change, and send the browser to the page that ``change`` returns."""
        page = await asyncio.to_thread(self._snapshots.apply, change)
        return RedirectResponse(page, HTTPStatus.SEE_OTHER)

    def _static(self, name: str) -> Response:
        if name not in _STATIC:
            raise UnknownRun(path=f"file {printable(name)[:80]}", reason="this server has no such file", hint="")
        folder, media_type = _STATIC[name]
        content = files("snia_pts.web").joinpath(folder, name).read_bytes()
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})


def _result_fields(request: Request) -> dict[str, str]:
    """Return the fields of a ``ResultQuery`` from the address of a request."""
    return {name: request.query_params.get(name, "")[:200] for name in ResultQuery.__dataclass_fields__}


async def _form(request: Request) -> dict[str, str]:
    """Return the first value of each field of a form."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=20)
    return {name: values[0] for name, values in fields.items()}


def _run_request(test: str, target: str, test_class: str, overrides: str, serial: str = "") -> RunRequest:
    """Return the request of a form; raises UsageError."""
    if test_class not in ("enterprise", "client"):
        raise UsageError(detail="The class is enterprise or client.", hint="Choose one of them.")
    return RunRequest(
        test=test,
        target=target.strip(),
        test_class="client" if test_class == "client" else "enterprise",
        overrides=tuple(line.strip() for line in overrides.splitlines() if line.strip()),
        serial=serial.strip(),
    )


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
