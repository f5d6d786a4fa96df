"""The one form of every error of the server: a problem document (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.responses import Response

from ..errors import (
    CopyableError,
    HostFailed,
    LabError,
    LibraryMissing,
    NotComparable,
    NotConfirmed,
    NotResumable,
    NotRunning,
    RecordError,
    RunFolderError,
    SniaPtsError,
    SpecError,
    StoreError,
    TargetBusy,
    TargetMissing,
    TargetNotOurs,
    ToolMissing,
    UnknownRun,
    UsageError,
)

MEDIA_TYPE = "application/problem+json"
#: The status of each class of errors, and of those derived from it; that of all others is 500.
_STATUS: Mapping[type[SniaPtsError], HTTPStatus] = {
    UnknownRun: HTTPStatus.NOT_FOUND,
    TargetMissing: HTTPStatus.UNPROCESSABLE_ENTITY,
    UsageError: HTTPStatus.UNPROCESSABLE_ENTITY,
    SpecError: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotComparable: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotConfirmed: HTTPStatus.UNPROCESSABLE_ENTITY,
    TargetBusy: HTTPStatus.CONFLICT,
    TargetNotOurs: HTTPStatus.CONFLICT,
    RecordError: HTTPStatus.CONFLICT,
    RunFolderError: HTTPStatus.CONFLICT,
    NotResumable: HTTPStatus.CONFLICT,
    NotRunning: HTTPStatus.CONFLICT,
    LabError: HTTPStatus.SERVICE_UNAVAILABLE,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    ToolMissing: HTTPStatus.SERVICE_UNAVAILABLE,
    LibraryMissing: HTTPStatus.SERVICE_UNAVAILABLE,
    HostFailed: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Problem(BaseModel):
    """An error: ``detail`` says what is wrong, ``hint`` what to do, ``errors`` has each mistake of a request."""

    type: Annotated[str, Field(description="the class of the error, or about:blank")] = "about:blank"
    title: str
    status: int
    detail: str
    hint: str = ""
    exit_code: Annotated[int | None, Field(description="that of the program for this error")] = None
    errors: tuple[str, ...] = ()


@dataclass(eq=False)
class Refusal(CopyableError):
    """A request that is refused before it reaches its route."""

    status: HTTPStatus
    detail: str
    hint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """Return the answer."""
        return problem_response(self.status, self.detail, self.hint, headers=self.headers)


def problem_response(
    status: int,
    detail: str,
    hint: str = "",
    *,
    errors: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem document as an answer."""
    title = HTTPStatus(status).phrase
    return _response(
        Problem(title=title, status=status, detail=detail, hint=hint, errors=tuple(errors)), headers=headers
    )


def error_status(error: SniaPtsError) -> HTTPStatus:
    """Return the status of an error of the suite."""
    classes = type(error).__mro__
    return next((_STATUS[kind] for kind in classes if kind in _STATUS), HTTPStatus.INTERNAL_SERVER_ERROR)


def error_response(error: SniaPtsError) -> Response:
    """Return an error of the suite as a problem document."""
    status = error_status(error)
    problem = Problem(
        type=f"snia-pts:{type(error).__name__}",
        title=status.phrase,
        status=status,
        detail=str(error),
        hint=error.full_hint,
        exit_code=error.exit_code,
    )
    return _response(problem)


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        problem.model_dump_json(exclude_none=True), problem.status, dict(headers or {}), media_type=MEDIA_TYPE
    )
