"""The HTTP interface for programs: ``/api/v1``, whose OpenAPI description is at ``/api/v1/openapi.json``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from .. import __version__
from ..errors import SniaPtsError, UnknownRun
from .access import identity_of
from .feed import EventStream, Feed
from .model import (
    ComparisonView,
    DriveView,
    HostView,
    MetricView,
    PlanView,
    QueueEntry,
    ResultQuery,
    ResultView,
    RunDetail,
    RunState,
    RunView,
    Snapshot,
    SpreadView,
    TrendView,
)
from .model import Request as RunRequest
from .problem import MEDIA_TYPE, Problem, error_response, problem_response
from .roles import Role
from .snapshots import Snapshots
from .source import Source
from .users import UserFile

PREFIX = "/api/v1"
_ENDED = ("stopped", "finished", "failed", "lost", "refused", "cancelled", "unreadable")
_ERRORS = {
    401: "no login and no valid token",
    403: "the role is not enough, or a page elsewhere sent the request",
    404: "there is no such thing",
    409: "the present state does not allow it",
    422: "the request has mistakes",
    503: "a part that is needed cannot be used",
}
RunId = Annotated[str, Path(min_length=1, max_length=300, description="the id of a run, from the list of runs")]
DriveId = Annotated[str, Path(min_length=1, max_length=200, description="the serial number of a drive")]
Line = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class About(BaseModel):
    """What is served, and who asks."""

    name: str
    version: str
    has_lab: bool
    has_results: bool
    user: str
    role: Role


class Message(BaseModel):
    """What happens now."""

    detail: str


class Submitted(BaseModel):
    """The run that was started, or added to the queue."""

    id: str


class StopRequest(_Body):
    """``at_once``: the current point or sample is lost."""

    at_once: bool = False


class ResumeRequest(_Body):
    """``serial`` confirms that the data of the drive are destroyed."""

    serial: Line = ""


class HoldRequest(_Body):
    """The reason is shown with the drive."""

    reason: Annotated[Line, StringConstraints(min_length=1)]


class AccessEntry(BaseModel):
    """A user or a token, without its secret."""

    kind: Literal["user", "token"]
    name: str
    role: Role
    prefix: str = ""
    expires: datetime | None = None


def api_router(source: Source, snapshots: Snapshots, feed: Feed, users: UserFile) -> APIRouter:
    """Return the routes of the API of a source."""
    router = APIRouter(
        prefix=PREFIX,
        dependencies=[Depends(HTTPBearer(auto_error=False, description="a token of snia-pts access token add"))],
        responses={
            status: {"description": text, "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
            for status, text in _ERRORS.items()
        },
    )
    _add_reading(router, source, snapshots, feed)
    _add_results(router, source)
    _add_changing(router, source, snapshots)
    _add_access(router, users)
    return router


def _result_query(
    test: Annotated[Line, Query()] = "",
    model: Annotated[Line, Query()] = "",
    serial: Annotated[Line, Query()] = "",
    firmware: Annotated[Line, Query()] = "",
    host: Annotated[Line, Query()] = "",
    since: Annotated[Line, Query(description="started at or after this ISO 8601 date")] = "",
    before: Annotated[Line, Query(description="started before this ISO 8601 date")] = "",
) -> ResultQuery:
    return ResultQuery(test=test, model=model, serial=serial, firmware=firmware, host=host, since=since, before=before)


StoredResults = Annotated[ResultQuery, Depends(_result_query)]


def _add_reading(router: APIRouter, source: Source, snapshots: Snapshots, feed: Feed) -> None:
    @router.get("", summary="What is served, and who asks")
    def about(request: Request) -> About:
        identity = identity_of(request)
        return About(
            name=source.name,
            version=__version__,
            has_lab=source.has_lab,
            has_results=source.has_results,
            user=identity.name,
            role=identity.role or "viewer",
        )

    @router.get("/drives", summary="The drives")
    def drives() -> tuple[DriveView, ...]:
        return snapshots.current().drives

    @router.get("/runs", summary="The runs, the newest first")
    def runs(
        state: Annotated[RunState | None, Query(description="only runs in this state")] = None,
        test: Annotated[str, Query(max_length=200, description="only runs of this test")] = "",
        drive: Annotated[str, Query(max_length=200, description="only runs of this drive")] = "",
    ) -> tuple[RunView, ...]:
        return tuple(
            run
            for run in snapshots.current().runs
            if state in (None, run.state) and test in ("", run.test) and drive in ("", run.drive_id)
        )

    @router.get("/runs/{run_id}", summary="A run, with its series, files and log")
    def run(run_id: RunId) -> RunDetail:
        return source.run(run_id)

    @router.get(
        "/runs/{run_id}/events",
        summary="A run each time that it changes, until it ends, as server-sent events",
        response_class=StreamingResponse,
        responses={200: {"description": "each event is a RunView", "content": {"text/event-stream": {}}}},
    )
    async def events(run_id: RunId) -> Response:
        snapshot = await asyncio.to_thread(snapshots.current)
        if not any(run.id == run_id for run in snapshot.runs):
            raise UnknownRun(path=f"run {run_id}", reason="the list of runs does not have it")
        return EventStream(_run_events(feed, run_id))

    @router.get("/queue", summary="The queue of a lab")
    def queue() -> tuple[QueueEntry, ...]:
        return snapshots.current().queue

    @router.get("/hosts", summary="The hosts of a lab")
    def hosts() -> tuple[HostView, ...]:
        return snapshots.current().hosts

    @router.post("/plan", summary="What a run would cost and deviate from; changes nothing")
    def plan(request: RunRequest) -> PlanView:
        return source.plan(request)


def _add_results(router: APIRouter, source: Source) -> None:
    @router.get("/results", summary="The stored results, the newest first")
    def results(query: StoredResults) -> tuple[ResultView, ...]:
        return tuple(source.results(query))

    @router.get("/results/metrics", summary="The metrics of the stored results, each at each of its points")
    def metrics() -> tuple[MetricView, ...]:
        return tuple(source.metrics())

    @router.get("/results/trend", summary="A metric over stored runs, and over groups of them")
    def trend(
        query: StoredResults,
        metric: Annotated[Line, Query(description="a metric of the stored results")],
        at: Annotated[Line, Query(description="a point of the metric; some metrics have one with an empty name")] = "",
        by: Annotated[Line, Query(description="the column whose values make the groups")] = "firmware",
    ) -> TrendView:
        return source.trend(query, metric=metric, at=at, by=by)

    @router.get("/results/spread", summary="The spread of metrics over the units of the model of the query")
    def spread(
        query: StoredResults,
        metric: Annotated[Line, Query(description="only this metric")] = "",
    ) -> tuple[SpreadView, ...]:
        return tuple(source.spread(query, metric=metric))

    @router.get("/results/comparison", summary="Runs of one test, compared with the first of them")
    def comparison(
        run: Annotated[list[Line], Query(min_length=2, max_length=26, description="the ids of the runs")],
    ) -> ComparisonView:
        return source.comparison(run)


def _add_changing(router: APIRouter, source: Source, snapshots: Snapshots) -> None:
    @router.post("/runs", status_code=HTTPStatus.CREATED, summary="Start a run, or add it to the queue")
    def submit(request: RunRequest, response: Response) -> Submitted:
        run_id = snapshots.apply(lambda: source.submit(request))
        response.headers["Location"] = f"{PREFIX}/runs/{run_id}"
        return Submitted(id=run_id)

    @router.post("/runs/{run_id}/stop", summary="Stop a run after its current point or sample")
    def stop(run_id: RunId, request: StopRequest, http_request: Request) -> Message:
        by = identity_of(http_request).name
        return Message(detail=snapshots.apply(lambda: source.stop(run_id, at_once=request.at_once, by=by)))

    @router.post("/runs/{run_id}/resume", summary="Resume a stopped run")
    def resume(run_id: RunId, request: ResumeRequest) -> Message:
        return Message(detail=snapshots.apply(lambda: source.resume(run_id, serial=request.serial)))

    @router.post("/drives/{drive_id}/hold", summary="Start nothing new on a drive of a lab")
    def hold(drive_id: DriveId, request: HoldRequest) -> Message:
        return Message(detail=snapshots.apply(lambda: source.hold(drive_id, request.reason)))

    @router.post("/drives/{drive_id}/release", summary="End the hold of a drive of a lab")
    def release(drive_id: DriveId) -> Message:
        return Message(detail=snapshots.apply(lambda: source.release(drive_id)))


def _add_access(router: APIRouter, users: UserFile) -> None:
    @router.get("/access", summary="The users and tokens, without their secrets")
    def access() -> tuple[AccessEntry, ...]:
        accounts = users.read()
        people = (AccessEntry(kind="user", name=user.name, role=user.role) for user in accounts.users)
        programs = (
            AccessEntry(kind="token", name=token.name, role=token.role, prefix=token.prefix, expires=token.expires)
            for token in accounts.tokens
        )
        return (*people, *programs)

    @router.delete("/access/tokens/{name}", summary="Remove a token")
    def remove_token(name: Annotated[str, Path(max_length=40)]) -> Message:
        users.remove_token(name)
        return Message(detail=f"The token {name} is removed.")


async def _run_events(feed: Feed, run_id: str) -> AsyncGenerator[str, None]:
    """Yield the events of a run until it has ended."""

    def rows(snapshot: Snapshot) -> dict[str, str]:
        return {run.id: json.dumps(jsonable_encoder(run)) for run in snapshot.runs if run.id == run_id}

    async with aclosing(feed.events(f"{PREFIX}:{run_id}", rows)) as events:
        async for event in events:
            if not event.startswith("data: "):
                yield event
                continue
            for view in json.loads(event.removeprefix("data: ")):
                yield f"event: run\ndata: {json.dumps(view)}\n\n"
                if view["state"] in _ENDED:
                    return


def add_error_answers(application: FastAPI) -> None:
    """Answer every error with a problem document."""

    def suite_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, SniaPtsError)  # noqa: S101 -- it is registered for this class
        return error_response(error)

    def http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 -- it is registered for this class
        return problem_response(error.status_code, str(error.detail), headers=error.headers)

    def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 -- it is registered for this class
        mistakes = [f"{_place(detail['loc'])}: {detail['msg']}" for detail in error.errors()]
        hint = f"{PREFIX}/openapi.json describes each request."
        return problem_response(422, "The request has mistakes.", hint, errors=mistakes)

    application.add_exception_handler(SniaPtsError, suite_error)
    application.add_exception_handler(HTTPException, http_error)
    application.add_exception_handler(RequestValidationError, invalid)


def _place(location: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in location if part != "body") or "body"
