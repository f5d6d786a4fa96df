"""The entries of a journal, and how each is a line: ``{"crc32": "xxxxxxxx", "entry": {...}}``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ..health import Health
from ..interruption import Way
from ..measurement import Idled, Measurement, Prepared, Purged, Sample
from ..result import Ending, RunFacts
from ..steps import Idle, Prepare, Purge, Round, Stretch
from ..units import Amount, Quantity

#: Bytes of a line before and after its entry.
BEFORE, AFTER = len(b'{"crc32":"01234567","entry":'), len(b"}\n")
#: How the entries begin that tell which steps stand.
ASKED, RESUMED = b'{"kind":"asked"', b'{"kind":"resumed","kept":'


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """First entry: everything that is fixed before the first step."""

    kind: Literal["begun"] = "begun"
    format: Literal[1] = 1
    facts: RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A step that the procedure asked for; its outcomes follow, one entry each."""

    kind: Literal["asked"] = "asked"
    step: Annotated[Purge | Stretch | Round | Idle | Prepare, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """An outcome of the step asked last."""

    kind: Literal["came"] = "came"
    outcome: Annotated[Purged | Sample | Measurement | Idled | Prepared, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Last entry: how the run ended, and what the drive told of its life then."""

    kind: Literal["ended"] = "ended"
    ending: Ending
    detail: str
    at: str
    health: Health | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The run goes on after its first ``kept`` steps, of those that stood until now; a Round may be in its midst."""

    kind: Literal["resumed"] = "resumed"
    kept: Amount
    way: Way
    stopped: str
    at: str
    idle_seconds: Quantity
    reason: str
    command_line: tuple[str, ...]
    changes: tuple[str, ...] = ()


Entry = Begun | Asked | Came | Ended | Resumed


def line(checksum: int, payload: bytes) -> bytes:
    """Return the line of an entry's bytes; ``checksum`` runs over them and all before."""
    return b'{"crc32":"%08x","entry":%b}\n' % (checksum, payload)


@cache
def adapter() -> TypeAdapter[Entry]:
    """Return what reads an entry, and checks it against the types of the suite, and what writes one."""
    return TypeAdapter(Annotated[Entry, Field(discriminator="kind")])
