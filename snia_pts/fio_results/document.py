"""Read fio's JSON output as documents; the file is untrusted.

A file may contain several documents, with lines of text around them: fio prints its running totals as whole documents
(``--status-interval``), and users append the outputs of several runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ImportRejected
from ..lab.fio.numbers import integer

#: The start of a document: a brace at the start of a line.
_BEGIN = re.compile(r"^\{", re.MULTILINE)
_MAX_DOCUMENTS, _MAX_JOBS = 10_000, 10_000
#: Between two running totals of the same run, the time and the runtime advance equally, within this tolerance; old
#: versions and clients state the time in whole seconds.
_TIME_TOLERANCE_MS, _SECONDS_TOLERANCE_MS = 500, 1500
#: The entry of client/server mode that has the sums of all others.
_SUMS = "All clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One result of fio: its members, its jobs, and the text before it.

    ``complete`` is whether it has all options with a value; the normal output states only some of them.
    """

    members: Mapping[str, Any]
    jobs: tuple[Mapping[str, Any], ...]
    text: str
    complete: bool = True

    @property
    def timestamp_ms(self) -> int:
        """The time when fio printed it (Unix ms); 0 if it is not stated."""
        milliseconds, seconds = self.members.get("timestamp_ms"), self.members.get("timestamp")
        if isinstance(milliseconds, int) and milliseconds > 0:
            return milliseconds
        return 1000 * seconds if isinstance(seconds, int) and seconds > 0 else 0

    @property
    def version(self) -> str:
        """The version of fio: ``3.33``; empty if it is not stated."""
        return str(self.members.get("fio version", "")).removeprefix("fio-")[:100]

    @property
    def global_options(self) -> Mapping[str, Any]:
        """The options of all jobs."""
        options = self.members.get("global options", {})
        return options if isinstance(options, dict) else {}


def has_json(content: bytes) -> bool:
    """Return whether a file has a document of fio."""
    return b'"fio version"' in content or (b'"jobs"' in content and b'"jobname"' in content)


def read_documents(text: str, name: str) -> tuple[Document, ...]:
    """Return the documents of a file without running totals; messages call it ``name``.

    Raises ImportRejected if a document is invalid, incomplete or not a result of fio.
    """
    documents = [_document(members, before, name) for members, before in _objects(text, name)]
    if not documents:
        raise ImportRejected(path=name, reason="it contains no JSON document that starts at the start of a line")
    following = [*documents[1:], None]
    return tuple(
        document
        for document, after in zip(documents, following, strict=True)
        if after is None or not _continues(document, after)
    )


def _objects(text: str, name: str) -> Iterator[tuple[Any, str]]:
    """Yield every JSON object in a text, with the text before it."""
    decoder, end, count = json.JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=_members), 0, 0
    while begin := _BEGIN.search(text, end):
        try:
            value, new_end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError) as error:
            raise _invalid(text, error, name) from None
        count += 1
        if count > _MAX_DOCUMENTS:
            raise ImportRejected(path=name, reason=f"it has more than {_MAX_DOCUMENTS} documents")
        yield value, text[end : begin.start()]
        end = new_end


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError if a key has several values.  fio 3.1 repeats equal ones."""
    members = dict(pairs)
    if len(members) != len(pairs) and any(members[key] != value for key, value in pairs):
        raise ValueError("a key has several values")
    return members


def _reject_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _invalid(text: str, error: Exception, name: str) -> ImportRejected:
    hint = "Import the file as fio wrote it; if fio was killed, run the job again."
    if isinstance(error, json.JSONDecodeError):
        incomplete = not text[error.pos :].strip() or error.msg.startswith("Unterminated")
        what = "the JSON is incomplete: it ends" if incomplete else f"invalid JSON ({error.msg})"
        return ImportRejected(path=name, reason=f"{what} at line {error.lineno}", hint=hint)
    reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error).partition(";")[0]
    return ImportRejected(path=name, reason=f"invalid JSON ({reason})", hint=hint)


def _document(members: Any, text: str, name: str) -> Document:
    """Return a document; raises ImportRejected unless it has jobs."""
    jobs = members.get("jobs", members.get("client_stats")) if isinstance(members, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ImportRejected(path=name, reason="it is not a result of fio: a list of jobs is missing")
    if len(jobs) > _MAX_JOBS:
        raise ImportRejected(path=name, reason=f"it has {len(jobs)} jobs, at most {_MAX_JOBS} can be imported")
    without_sums = [job for job in jobs if job.get("jobname") != _SUMS or "job options" in job]
    return Document(members=members, jobs=tuple(without_sums), text=text)


def _continues(document: Document, after: Document) -> bool:
    """Return whether the next document has later totals of the same jobs: as much later as their runtime is longer."""
    if len(document.jobs) != len(after.jobs) or not (document.timestamp_ms and after.timestamp_ms):
        return False
    for earlier, later in zip(document.jobs, after.jobs, strict=True):
        if any(earlier.get(key) != later.get(key) for key in ("jobname", "groupid", "job options")):
            return False
        if any(first > second for first, second in zip(_totals(earlier), _totals(later), strict=True)):
            return False
    runtimes = [max((max(_totals(job)[2:]) for job in one.jobs), default=0) for one in (document, after)]
    elapsed_ms = after.timestamp_ms - document.timestamp_ms
    is_exact = all("timestamp_ms" in one.members for one in (document, after))
    tolerance_ms = _TIME_TOLERANCE_MS if is_exact else _SECONDS_TOLERANCE_MS
    return 0 <= elapsed_ms <= runtimes[1] - runtimes[0] + tolerance_ms


def _totals(job: Mapping[str, Any]) -> Sequence[int]:
    """Return the I/Os of reads and writes, and their runtimes in ms; zeros for unreadable ones."""
    sides = [job.get(side) for side in ("read", "write")]
    return [_whole(side, key) for key in ("total_ios", "runtime") for side in sides]


def _whole(side: Any, key: str) -> int:
    try:
        return integer(side[key])
    except (TypeError, LookupError):
        return 0
