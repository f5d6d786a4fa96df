"""The entries of a journal, one per line: ``{"crc32": "xxxxxxxx", "entry": {...}}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from ..model.content_state import ContentState
from ..model.health import Health
from ..model.measurement import IdleOutcome, Measurement, PrepareOutcome, PurgeOutcome, Sample
from ..model.steps import ContinuousStimulus, Idle, Prepare, Purge, Round
from ..results.interruption import ResumePolicy
from ..results.result import Ending, RunFacts, RunWarning
from ..units import Amount, Quantity

#: Bytes of a line before and after its entry.
BEFORE, AFTER = len(b'{"crc32":"01234567","entry":'), len(b"}\n")
#: First bytes of the entries that determine which steps are valid.
STEP, RESUME = b'{"kind":"step"', b'{"kind":"resume","kept_steps":'


def _require_timestamp(text: str) -> str:
    """Return an ISO 8601 timestamp, or the empty text of an imported run; raises ValueError for other text."""
    if text:
        datetime.fromisoformat(text)
    return text


Timestamp = Annotated[str, AfterValidator(_require_timestamp)]
#: Names of files in evidence/, and the SHA-256 digests of their content.
Digests = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEntry:
    """First entry: everything that is fixed before the first step.

    ``evidence``, here and in other entries: the digests of the new evidence files.
    """

    kind: Literal["start"] = "start"
    format: Literal[2] = 2
    facts: RunFacts
    evidence: Digests = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEntry:
    """A step of the procedure; an entry for each of its outcomes follows."""

    kind: Literal["step"] = "step"
    step: Annotated[Purge | ContinuousStimulus | Round | Idle | Prepare, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeEntry:
    """An outcome of the last step, and the state of the target's content after it."""

    kind: Literal["outcome"] = "outcome"
    outcome: Annotated[PurgeOutcome | Sample | Measurement | IdleOutcome | PrepareOutcome, Field(discriminator="kind")]
    content: ContentState | None = None
    evidence: Digests = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEntry:
    """Last entry: how the run ended, and what was read then.

    That is the drive's health data, warnings about settings, and the state of the target's content.
    """

    kind: Literal["end"] = "end"
    ending: Ending
    detail: str
    at: Timestamp
    health: Health | None = None
    warnings: tuple[RunWarning, ...] = ()
    content: ContentState | None = None
    evidence: Digests = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeEntry:
    """The run was resumed: of its valid steps the first ``kept_steps`` stay valid; the last may be a partial Round."""

    kind: Literal["resume"] = "resume"
    kept_steps: Amount
    policy: ResumePolicy
    stopped: Timestamp
    at: Timestamp
    idle_seconds: Quantity
    reason: str
    command_line: tuple[str, ...]
    changes: tuple[str, ...] = ()
    evidence: Digests = field(default_factory=dict)


Entry = StartEntry | StepEntry | OutcomeEntry | EndEntry | ResumeEntry


def line(checksum: int, payload: bytes) -> bytes:
    """Return the line of an entry's bytes; ``checksum`` covers them and all entries before."""
    return b'{"crc32":"%08x","entry":%b}\n' % (checksum, payload)


def is_start_of_resume(text: bytes) -> bool:
    """Return whether ``text`` can be the start of a resume entry's line.

    Zero bytes at its end are data that a file system lost in a power failure.
    """
    expected, crc = line(0, RESUME)[: BEFORE + len(RESUME)], slice(10, 18)
    start = text[: len(expected)].rstrip(b"\0")
    without_crc = start[: crc.start] + expected[crc][: len(start[crc])] + start[crc.stop :]
    return expected.startswith(without_crc) and not start[crc].strip(b"0123456789abcdef")


@cache
def adapter() -> TypeAdapter[Entry]:
    """Return the adapter that reads entries, checks their types, and writes them."""
    return TypeAdapter(Annotated[Entry, Field(discriminator="kind")])
