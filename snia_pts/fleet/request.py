"""A request for a run on a drive of a lab: data, never a command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal
from uuid import UUID

from annotated_types import Ge, Le, Lt, MaxLen, MinLen, Predicate
from pydantic import TypeAdapter

from ..model.annotations import Annotations
from ..model.run_options import MAX_STALL_SECONDS, SEED_LIMIT
from ..spec import TestClass
from ..spec.limits import Limit, StandardTest
from ..spec.toml_file import spec_error, validate
from ..text import one_line

#: The name of a request for the four basic tests, one after the other.
ALL = "all"
_WHAT, _UNNAMED = "The request", "without run_id"
_REMEDY = "Correct the request; docs/fleet.rst lists its keys."
_MAX_BYTES = 1024 * 1024
_MAX_SHOWN = 60

Line = Annotated[str, MinLen(1), MaxLen(200), Predicate(str.isprintable)]
Name = Annotated[str, MinLen(1), MaxLen(40), Predicate(str.isprintable)]
TestName = Literal[StandardTest, "all"]
OnLost = Literal["resume", "hold", "from-purge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options of RunOptions that a request may have: none of them destroys data, starts a program or reads a file.

    ``purge`` is the name of a method; the configuration of the host decides whether it is allowed.  The ``overrides``
    of a request for all tests are ``TEST.KEY=VALUE``.
    """

    __pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}
    test_class: TestClass = "enterprise"
    pts: Name = "2.0.2"
    overrides: Annotated[tuple[Annotated[Line, MaxLen(1000)], ...], MaxLen(100)] = ()
    purge: Name = "auto"
    allow_unpurged: bool = False
    keep_write_cache: bool = False
    engine: Literal["auto", "io_uring", "libaio"] = "auto"
    refill_buffers: bool = False
    stall_seconds: Annotated[float, Ge(1), Le(MAX_STALL_SECONDS)] = 120.0
    seed: Annotated[int, Ge(0), Lt(SEED_LIMIT)] | None = None
    limits: Annotated[tuple[Limit, ...], MaxLen(1000)] = ()
    about: Annotations = field(default_factory=Annotations)
    formats: Annotated[tuple[Name, ...], MaxLen(20)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A request for one test, or all basic tests, on the drive with this serial number.

    ``on_lost`` says what becomes of a run whose process is gone: ``resume`` resumes it where its rule keeps rounds and
    holds it otherwise, ``hold`` waits for a person, ``from-purge`` also begins it again at a purge.
    """

    __pydantic_config__ = {"extra": "forbid"}
    run_id: UUID
    serial: Line
    model: Line
    test: TestName
    on_lost: OnLost = "resume"
    options: RequestOptions = field(default_factory=RequestOptions)
    labels: Annotated[Mapping[Name, Line], MaxLen(50)] = field(default_factory=dict)


def parse_request(text: str | bytes) -> RunRequest:
    """Return the request in a JSON document; raises SpecError with all mistakes, each with key and value."""
    try:
        if len(text) > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES // 1024} KiB")
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("expected an object")
    except (ValueError, RecursionError) as error:
        raise spec_error(_UNNAMED, [f"not readable as JSON: {error}"], _WHAT, remedy=_REMEDY) from None
    request, mistakes = validate(RunRequest, document)
    if request is None:
        run_id = document.get("run_id")
        name = one_line(run_id)[:_MAX_SHOWN] if isinstance(run_id, str) else _UNNAMED
        raise spec_error(name, mistakes, _WHAT, remedy=_REMEDY)
    return request


def request_json(request: RunRequest) -> bytes:
    """Return a request as a JSON document, from which ``parse_request`` returns an equal one."""
    return _adapter().dump_json(request)


@cache
def _adapter() -> TypeAdapter[RunRequest]:
    return TypeAdapter(RunRequest)
