"""Reads a run folder and replaces the rows of its run in a store."""

from __future__ import annotations

import json
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from sys import byteorder
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python
from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from ..api.assessment import require_trusted
from ..api.run import Run, read_run
from ..errors import RecordError
from ..files import open_regular
from ..record.archive import digest, is_archive, opened, opened_journal
from ..record.ends import read_start
from ..record.folder import MAX_LINE_BYTES, RunFolder, unreadable
from ..record.journal import prevent_resume
from ..results.key_figures import KeyFigure
from ..results.main_figures import main_figures
from .regression_rule import MAX_COMPARABLE_RUNS, judge
from .schema import DETERMINATION, DEVIATION, FIGURE, IS_STEADY, LABEL, LIMIT, METRIC, REGRESSION_CHECK, RUN, WARNING

_CHUNK_BYTES = 1 << 20
_CHILDREN = (FIGURE, DETERMINATION, DEVIATION, WARNING, LIMIT, REGRESSION_CHECK)
#: Columns that are equal in comparable runs; the last two are the class of the host.
_COMPARABLE = ("spec_sha256", "test_class", "model", "cpu", "engine")
#: The names of a metric, which are unique.
_METRIC_NAMES = ("test", "metric", "at", "unit")

#: The steady values of a metric in the most recent finished runs that are comparable with a run and started before it.
_COMPARABLE_VALUES = (
    select(FIGURE.c.value, FIGURE.c.steady, RUN.c.started)
    .join_from(FIGURE, RUN, FIGURE.c.run_id == RUN.c.id)
    .where(*(RUN.c[name] == bindparam(name) for name in _COMPARABLE), RUN.c.started < bindparam("started"))
    .where(RUN.c.id != bindparam("run"), FIGURE.c.metric_id == bindparam("metric"))
    .where(RUN.c.ending == "finished", IS_STEADY)
    .order_by(RUN.c.started.desc(), RUN.c.id.desc())
    .limit(MAX_COMPARABLE_RUNS)
)


class JournalState(NamedTuple):
    """The length of a journal, and its checksum: they change when the run is resumed."""

    length: int
    crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a run, and of the state of its journal.

    ``key`` is the SHA-256 of the journal's first line, which has the seed, the start and the device.
    """

    key: str
    journal: JournalState


class StoredRun(NamedTuple):
    """The number of a run in a store, and the state that its journal had."""

    id: int
    journal: JournalState


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a run by table, without their ``run_id``; figures have their metric's names instead of its number."""

    run: Mapping[str, Any]
    figures: tuple[tuple[KeyFigure, dict[str, Any]], ...]
    others: Mapping[Table, tuple[dict[str, Any], ...]]


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Return the paths of runs in the order of their starts, so that each is judged against those before it.

    Those that cannot be read are the first ones.
    """
    return sorted(paths, key=start_of)


def start_of(path: Path) -> tuple[str, str]:
    """Return when the run in a folder or archive started, and its key; empty texts if they cannot be read."""
    try:
        with opened_journal(path) as file:
            start, first = read_start(file, path)
        return in_utc(start.facts.started), sha256(first).hexdigest()
    except (RecordError, OSError, ValueError):
        return "", ""


def identify(folder: RunFolder) -> Identity:
    """Return the identity of the run in a folder; raises RecordError if its journal cannot be read."""
    try:
        with open_regular(folder.journal) as file:
            first = file.readline(MAX_LINE_BYTES)
            size, checksum = len(first), zlib.crc32(first)
            while chunk := file.read(_CHUNK_BYTES):
                size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
    except OSError as error:
        raise unreadable(folder.path, error) from None
    return Identity(key=sha256(first).hexdigest(), journal=JournalState(size, checksum))


def read(path: Path, is_stored: Callable[[Identity], bool]) -> tuple[Identity, Rows | None]:
    """Return the identity of the run in a folder or archive and its rows; no rows if ``is_stored`` is true for it.

    Raises RecordError if it is in progress, cannot be read, or differs from its evidence.
    """
    with opened(path) as place:
        folder = RunFolder.existing(place.path)
        with prevent_resume(folder.path, folder.journal):
            identity = identify(folder)
            if is_stored(identity):
                return identity, None
            run = read_run(folder)
            require_trusted(run)
    try:
        return identity, rows(run, identity, source(path))
    except ValueError as error:
        raise RecordError(path=path, reason=f"the store cannot have its values ({error})", hint="") from None


def source(path: Path) -> dict[str, str]:
    """Return the columns of a run that say where it was added from: a folder, or an archive."""
    real = os.path.realpath(path)
    return {"archive": real, "archive_sha256": digest(path)} if is_archive(path) else {"folder": real}


def stored_run(connection: Connection, key: str) -> StoredRun | None:
    """Return the run with a key; None if it is not in the store."""
    query = select(RUN.c.id, RUN.c.journal_bytes, RUN.c.journal_crc32).where(RUN.c.key == key)
    found = connection.execute(query).one_or_none()
    return StoredRun(found.id, JournalState(found.journal_bytes, found.journal_crc32)) if found else None


def set_labels(connection: Connection, run_id: int, labels: Mapping[str, str]) -> None:
    """Set labels of a run; its others stay."""
    for name, value in labels.items():
        connection.execute(delete(LABEL).where(LABEL.c.run_id == run_id, LABEL.c.name == name))
        connection.execute(insert(LABEL).values(run_id=run_id, name=name, value=value))


def write(connection: Connection, run: Rows, run_id: int | None) -> int:
    """Insert the rows of a run, or replace those of the run ``run_id``; return its number."""
    if run_id is None:
        (run_id,) = connection.execute(insert(RUN).values(**run.run).returning(RUN.c.id)).one()
    else:
        connection.execute(update(RUN).where(RUN.c.id == run_id).values(**run.run))
        for table in _CHILDREN:
            connection.execute(delete(table).where(table.c.run_id == run_id))
    metrics = _metric_ids(connection, run)
    figures = [{"metric_id": metrics[_metric_key(run, figure)], **row} for figure, row in run.figures]
    checks = _regression_checks(connection, run, run_id, metrics)
    for table, table_rows in {FIGURE: figures, **run.others, REGRESSION_CHECK: checks}.items():
        if table_rows:
            connection.execute(insert(table), [{"run_id": run_id, **row} for row in table_rows])
    return run_id


def _regression_checks(
    connection: Connection, run: Rows, run_id: int, metrics: Mapping[tuple[str, ...], int]
) -> list[dict[str, Any]]:
    """Return the judgements of the run's key figures against the comparable runs that started before it."""
    counts = run.run["ending"] == "finished"
    is_comparable = all(run.run[name] for name in _COMPARABLE)  # a run with an unknown column is not
    values = {name: run.run[name] for name in (*_COMPARABLE, "started")}
    checks = []
    for figure in main_figures(run.run["test"], [figure for figure, _ in run.figures]):
        metric_id = metrics[_metric_key(run, figure)]
        comparable_values: Sequence[float] = ()
        if is_comparable:
            rows = connection.execute(_COMPARABLE_VALUES, {**values, "run": run_id, "metric": metric_id})
            comparable_values = [row.value for row in rows]
        value = figure.value if counts and not figure.unsteady else None
        check = asdict(judge(value, comparable_values, figure.better))
        checks.append({"metric_id": metric_id, "like_runs": check.pop("comparable_runs"), **check})
    return checks


def _metric_key(run: Rows, figure: KeyFigure) -> tuple[str, ...]:
    return (run.run["test"], figure.metric, figure.at, figure.unit)


def _metric_ids(connection: Connection, run: Rows) -> dict[tuple[str, ...], int]:
    """Return the number of each metric of the run's test by its names; adds those that are missing."""
    names = [METRIC.c[name] for name in _METRIC_NAMES]
    query = select(METRIC.c.id, *names).where(METRIC.c.test == run.run["test"])
    known = {tuple(row[1:]): row.id for row in connection.execute(query)}
    better = {_metric_key(run, figure): figure.better for figure, _ in run.figures}
    new = [
        {**dict(zip(_METRIC_NAMES, key, strict=True)), "better": figure_better}
        for key, figure_better in better.items()
        if key not in known
    ]
    if not new:
        return known
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    connection.execute(dialect.insert(METRIC).on_conflict_do_nothing(), new)  # another writer may have added one
    known = {tuple(row[1:]): row.id for row in connection.execute(query)}
    if not better.keys() <= known.keys():
        raise ValueError("its table of metrics accepts no new ones")
    return known


def rows(run: Run, identity: Identity, source: Mapping[str, str]) -> Rows:
    """Return the rows of a run; ``source`` are the columns of ``source``."""
    return Rows(
        run={**_run_row(run, identity), **source},
        figures=tuple((figure, _figure_row(figure)) for figure in run.figures),
        others={
            DETERMINATION: _numbered(
                {
                    "series": item.series,
                    "variable": item.variable,
                    "average": item.state.average,
                    "data_excursion_percent": item.state.data_excursion_percent,
                    "slope_excursion_percent": item.state.slope_excursion_percent,
                    "steady": item.state.steady,
                }
                for item in run.determinations
            ),
            DEVIATION: _numbered(
                {"what": item.what, "standard": item.standard, "actual": item.actual, "clause": item.clause}
                for item in run.deviations
            ),
            WARNING: _numbered({"what": item.what, "detail": item.detail} for item in run.warnings),
            LIMIT: _numbered(
                {name: value for name, value in item.attributes.items() if name in LIMIT.c} for item in run.limits
            ),
        },
    )


def _run_row(run: Run, identity: Identity) -> dict[str, Any]:
    facts, device, host = run.result.facts, run.device, run.host
    return {
        "key": identity.key,
        "journal_bytes": identity.journal.length,
        "journal_crc32": identity.journal.crc32,
        "folder": "",
        "archive": "",
        "archive_sha256": "",
        "name": run.id,
        "test": run.test,
        "test_class": run.test_class,
        "revision": run.spec.revision,
        "spec_sha256": sha256(json.dumps(to_jsonable_python(run.spec), sort_keys=True).encode()).hexdigest(),
        "kind": device.kind,
        "vendor": facts.about.vendor,
        "model": device.model or facts.about.model,
        "serial": device.serial or facts.about.serial,
        "firmware": device.firmware or facts.about.firmware,
        "capacity_bytes": device.capacity_bytes,
        "host": host.hostname,
        "cpu": host.cpu,
        "engine": f"{host.engine} {host.engine_version}".strip(),
        "suite_version": host.suite_version,
        "operator": facts.about.operator,
        "started": in_utc(run.started),
        "finished": in_utc(run.finished),
        "ending": run.ending,
        "verdict": run.verdict,
        "steady": run.steady,
        "conformant": run.conformant,
        "seed": facts.seed,
    }


def _figure_row(figure: KeyFigure) -> dict[str, Any]:
    rounds = array("d", figure.rounds)
    if byteorder == "big":
        rounds.byteswap()
    return {"value": figure.value, "steady": not figure.unsteady, "rounds": rounds.tobytes()}


def _numbered(table_rows: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return rows with their numbers, from 1 on, and NULL instead of nan."""
    return tuple(
        {"number": number, **{name: None if value != value else value for name, value in row.items()}}
        for number, row in enumerate(table_rows, start=1)
    )


def in_utc(time: str) -> str:
    """Return a time in ISO 8601 with its time zone in UTC, so that texts sort as times; unknown ones stay empty.

    Raises ValueError for another text, and for a time before the year 1 or after the year 9999 in UTC.
    """
    try:
        return datetime.fromisoformat(time).astimezone(UTC).isoformat(timespec="milliseconds") if time else ""
    except OverflowError:
        raise ValueError(f"{time} is outside the years 1 to 9999") from None
