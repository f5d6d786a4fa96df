"""A store of results as a value: add runs, and query them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, Self

from sqlalchemy import Column, Connection, Result, Select, and_, bindparam, func, select, update
from sqlalchemy.exc import DataError, SQLAlchemyError

from ..api.tables import Table, one_of
from ..errors import RecordError, StoreError, UsageError
from ..record.archive import SUFFIX, digest, pack, remove_packed
from ..record.folder import RunFolder, default_name
from ..record.journal import prevent_resume
from ..trusted_paths import private_path, require_private
from .database import DEFAULT, cause, failures_named, open_database, read_only, shown
from .ingestion import Identity, JournalState, Rows, in_utc, read, set_labels, source, start_of, stored_run, write
from .schema import DETERMINATION, DEVIATION, FIGURE, IS_STEADY, LABEL, LIMIT, METRIC, REGRESSION_CHECK, RUN, WARNING
from .statistics import Group, groups_of, spreads_of

Change = Literal["added", "replaced", "unchanged"]
_TABLES_OF_RUN = (
    ("determinations", "Determinations", DETERMINATION),
    ("deviations", "Deviations", DEVIATION),
    ("warnings", "Warnings", WARNING),
    ("limits", "Limits", LIMIT),
    ("labels", "Labels", LABEL),
)
_SPREAD = ("units", "mean", "deviation_percent", "minimum", "maximum", "specifications")
_REGRESSION = (
    "metric",
    "at",
    "unit",
    "value",
    "median",
    "change_percent",
    "tolerance_percent",
    "like_runs",
    "finding",
)
#: The last columns of a query, which are read only to check their values: SQLite counts a text as 0, but it is greater
#: than all numbers.
_CHECKED = ("steady_check", "greatest_check")
_STEADY, _GREATEST = _CHECKED
_AGAIN = "Add it again."
_NUMBER_BITS = 64
#: The columns that say where a run is.
_SOURCE = ("folder", "archive", "archive_sha256")
_ONE_SELECT = "Give one SELECT statement; snia_pts/store/schema.py has the tables."
#: The columns of ``runs``, in their order.
_COLUMNS = tuple(column for column in RUN.c if column.name not in ("journal_bytes", "journal_crc32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The runs to query: each value that is given must be equal; ``number`` is that of the run in the store.

    ``like`` is the number of a run: those with the same specification of the test, its overrides included.
    Times are ISO 8601, in local time unless they name a zone; a run that started at ``since`` counts, one that started
    at ``before`` does not.
    """

    number: int | None = None
    like: int | None = None
    test: str | None = None
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    host: str | None = None
    since: str | None = None
    before: str | None = None
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a number that no run can have: databases refuse integers of more than 64 bits."""
        for number in (self.number, self.like):
            if number is not None and number.bit_length() >= _NUMBER_BITS:
                raise _no_run(number)


class Store:
    """Results of many runs in a database.

    ``url`` is the path of an SQLite file, or a URL such as ``postgresql://USER@HOST/NAME``; the default is
    ``runs/store.sqlite``.  A ``with`` block closes it at its end.  ``create`` makes a missing file and missing tables.
    Raises StoreError, UsageError and LibraryMissing.
    """

    def __init__(self, url: str | os.PathLike[str] = DEFAULT, *, create: bool = False) -> None:
        self._url = os.fspath(url)
        self._engine = open_database(self._url, create=create)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, path: str | os.PathLike[str], labels: Mapping[str, str] | None = None) -> Change:
        """Add the run in a folder or archive in one transaction; return how the store changed.

        That is ``added``, ``replaced`` (its journal had changed since), or ``unchanged``.

        ``labels`` are added to the run.  Raises RecordError if the run is in progress, cannot be read, or differs from
        its evidence, and StoreError.
        """
        identity, rows = read(Path(path), self._has)
        with self._transaction() as connection:
            stored = stored_run(connection, identity.key)
            if rows is not None:
                run_id = self._write(connection, rows, stored.id if stored else None)
            elif stored is not None:
                run_id = stored.id
                connection.execute(update(RUN).where(RUN.c.id == run_id).values(**source(Path(path))))
            else:
                raise StoreError(url=shown(self._url), reason="another process removed the run meanwhile", hint=_AGAIN)
            set_labels(connection, run_id, labels or {})
        return "unchanged" if rows is None else "replaced" if stored else "added"

    def rebuild(self, on_failure: Callable[[Path, RecordError], object]) -> int:
        """Replace the rows of every run by those of its folder, in the order of the starts; return how many were.

        Numbers and labels of the runs stay; their key figures are judged again.  A run whose folder cannot be read,
        or has another run now, keeps its rows and is passed to ``on_failure`` with the error.
        """
        with self._reading() as connection:
            columns = (RUN.c[name] for name in ("id", "key", *_SOURCE))
            stored = connection.execute(select(*columns).order_by(RUN.c.id)).all()
        runs, starts = list[tuple[str, int, Path, Any]](), list[dict[str, Any]]()
        for run in stored:
            try:
                path = _current_source(run)
            except RecordError as error:
                on_failure(Path(str(run.folder or run.archive)), error)
                continue
            started, key = start_of(path)
            runs.append((started, run.id, path, run))
            if key == run.key:
                starts.append({"number": run.id, "start": started})
        if starts:  # they decide which of the other runs a run is judged against
            by_number = update(RUN).where(RUN.c.id == bindparam("number")).values(started=bindparam("start"))
            with self._transaction() as connection:
                connection.execute(by_number, starts)
        rebuilt = 0
        for _, _, path, run in sorted(runs, key=itemgetter(0, 1)):
            try:
                self._rebuild(path, run)
            except RecordError as error:
                on_failure(path, error)
                continue
            rebuilt += 1
        return rebuilt

    def _rebuild(self, path: Path, run: Any) -> None:
        """Replace the rows of a run by those at ``path``; raises RecordError if they cannot be read."""
        _, rows = read(path, lambda identity: bool(identity.key != run.key))
        if rows is None:
            raise RecordError(path=path, reason="another run is there now", hint="Add the run where it is now.")
        rows = replace(rows, run={**rows.run, **{name: getattr(run, name) for name in _SOURCE}})
        with self._transaction() as connection:
            self._write(connection, rows, run.id)

    def archive(self, number: int, to: str | os.PathLike[str], *, remove: bool = False) -> Path:
        """Pack the folder of a finished run into one file in the folder ``to``, unless it is packed; return its path.

        The archive is compared with the folder, and its SHA-256 is stored.  ``remove`` then removes the folder.  Raises
        UsageError if the store has no such run, and RecordError if its folder cannot be packed or removed.
        """
        with self._reading() as connection:
            run = connection.execute(select(RUN).where(RUN.c.id == number)).one_or_none()
        if run is None:
            raise _no_run(number)
        archive = _verified_archive(run) if run.archive else self._pack(run, Path(to))
        if remove and run.folder:
            remove_packed(_location(run.folder), archive)
            with self._transaction() as connection:  # another run may be there later
                connection.execute(update(RUN).where(RUN.c.id == number).values(folder=""))
        return archive

    def _pack(self, run: Any, to: Path) -> Path:
        folder = RunFolder.existing(_location(run.folder))
        with prevent_resume(folder.path, folder.journal):
            identity, rows = read(folder.path, lambda _identity: False)
            stored = JournalState(run.journal_bytes, run.journal_crc32)
            same = (identity.key, identity.journal) == (run.key, stored)
            if rows is None or {run.ending, rows.run["ending"]} != {"finished"} or not same:
                reason = "it has not finished, or is not as it was when it was added"
                raise RecordError(path=folder.path, reason=reason, hint=_AGAIN)
            require_private(to)
            try:
                name = default_name(*(str(rows.run[column]) for column in ("test", "model", "started")))
                name = f"{name}-{identity.key[:16]}{SUFFIX}"
                archive = private_path(to, make=True) / name
                digest = pack(folder.path, archive)
            except OSError as error:
                raise RecordError(path=folder.path, reason=f"it cannot be packed ({error})", hint="") from None
        values = {"archive": str(archive), "archive_sha256": digest}
        with self._transaction() as connection:
            connection.execute(update(RUN).where(RUN.c.id == run.id).values(**values))
        return archive

    def _write(self, connection: Connection, rows: Rows, run_id: int | None) -> int:
        """Write the rows of a run; raises RecordError if the database has no type for one of their values."""
        try:
            return write(connection, rows, run_id)
        except (DataError, OverflowError, UnicodeEncodeError) as error:
            path = Path(rows.run["folder"])
            raise RecordError(path=path, reason=f"the store cannot have its values ({cause(error)})") from None

    def _has(self, identity: Identity) -> bool:
        """Return whether the store has a run in the state that its journal has now."""
        with self._reading() as connection:
            stored = stored_run(connection, identity.key)
        return stored is not None and stored.journal == identity.journal

    def runs(self, where: Filter | None = None) -> Table:
        """Return the runs as a table, the newest first: a row for each, with the columns of the table ``run``."""
        with self._reading() as connection:
            found = connection.execute(
                _filtered(select(*_COLUMNS), where).order_by(RUN.c.started.desc(), RUN.c.id.desc())
            )
            return _table("runs", "Runs", tuple(column.name for column in _COLUMNS), found.all())

    def figures(self, where: Filter | None = None, *, metric: str | None = None, at: str | None = None) -> Table:
        """Return the key figures of the runs as a table: a row for each figure of each run."""
        query: Select[Any] = select(
            RUN.c.id.label("run"),
            RUN.c.started,
            RUN.c.model,
            RUN.c.serial,
            RUN.c.firmware,
            METRIC.c.metric,
            METRIC.c.at,
            METRIC.c.unit,
            FIGURE.c.value,
            FIGURE.c.steady,
        )
        query = _of_metric(query, metric, at)
        with self._reading() as connection:
            found = connection.execute(_filtered(query, where).order_by(RUN.c.started, RUN.c.id, METRIC.c.id))
            return _table("figures", "Key figures", tuple(found.keys()), found.all())

    def metrics(self) -> Table:
        """Return the metrics of all runs as a table: a row for each metric of a test at each of its points."""
        columns = (METRIC.c.test, METRIC.c.metric, METRIC.c.at, METRIC.c.unit)
        with self._reading() as connection:
            found = connection.execute(select(*columns).order_by(METRIC.c.id))
            return _table("metrics", "Metrics", tuple(found.keys()), found.all())

    def trend(self, metric: str, *, at: str, by: str = "firmware", where: Filter | None = None) -> Table:
        """Return a row for each group of runs with equal ``by``, a column of the runs, in the order of their first run.

        ``change_percent`` is the difference of a group's median from that of the first group, ``specifications`` the
        number of different ones.  Only steady figures of finished runs count.  Raises UsageError for an unknown column,
        metric or point.
        """
        values = self.trend_values(metric, at=at, by=by, where=where)
        with failures_named(self._url):
            groups = groups_of(values)
        names = [field.name for field in fields(Group)]
        return _table("trend", values.title, [by, *names[1:]], [astuple(group) for group in groups])

    def trend_values(self, metric: str, *, at: str, by: str = "firmware", where: Filter | None = None) -> Table:
        """Return the values of a trend: a row for each run, in the order of their starts.  Raises as ``trend`` does."""
        column: Column[Any] = RUN.c[one_of(by, [column.name for column in _COLUMNS], "column of the runs")]
        columns = (RUN.c.id.label("run"), RUN.c.started, column.label("group"), FIGURE.c.value, METRIC.c.unit)
        query = _steady(select(*columns, RUN.c.spec_sha256, FIGURE.c.steady.label(_STEADY)), metric, at)
        with self._reading() as connection:
            found = connection.execute(_filtered(query, where).order_by(RUN.c.started, RUN.c.id))
            names, rows = _without_checks(found)
            if not rows:
                self._require_metric(connection, metric, at)
        return _table("trend_values", f"{metric} at {at}, by {by}", names, rows)

    def spread(self, model: str, *, metric: str | None = None, where: Filter | None = None) -> Table:
        """Return a row for each metric of the drives of a model: the spread over its units, which are serial numbers.

        Only steady figures of finished runs count, and only units with a serial number.  Raises UsageError for a model
        without one.
        """
        values = self.spread_values(model, metric=metric, where=where)
        with failures_named(self._url):
            rows = [
                (*key, *(getattr(result, name) for name in _SPREAD), ", ".join(result.outliers))
                for key, result in spreads_of(values)
            ]
        return _table("spread", values.title, [*list(values.columns)[:4], *_SPREAD, "outliers"], rows)

    def spread_values(self, model: str, *, metric: str | None = None, where: Filter | None = None) -> Table:
        """Return the values of a spread: a row for each metric of each unit, by metric; ``mean`` is that of ``runs``.

        A unit that was tested with several specifications of the test has a row for each.  Raises as ``spread`` does.
        """
        unit, steady = (RUN.c.serial, RUN.c.spec_sha256), FIGURE.c.steady.label(_STEADY)
        query: Select[Any] = select(FIGURE.c.metric_id, *unit, func.avg(FIGURE.c.value).label("mean"))
        query = query.add_columns(func.count().label("runs"), steady, func.max(FIGURE.c.value).label(_GREATEST))
        query = _steady(query, metric).where(RUN.c.model == model, RUN.c.serial != "")
        means = _filtered(query, where).group_by(FIGURE.c.metric_id, *unit, FIGURE.c.steady).subquery()
        number, serial, spec, *values = means.c
        named = select(METRIC.c.test, METRIC.c.metric, METRIC.c.at, METRIC.c.unit, serial, spec, *values)
        with self._reading() as connection:
            found = connection.execute(named.join(METRIC, METRIC.c.id == number).order_by(number, serial, spec))
            names, rows = _without_checks(found)
            if not rows:
                models = connection.execute(select(RUN.c.model).distinct().order_by(RUN.c.model)).scalars().all()
                one_of(model, [name for name in models if name != model], "model with steady figures")
        return _table("spread_values", f"Spread over units of {model}", names, rows)

    def regressions(self, where: Filter | None = None) -> Table:
        """Return the key figures of the runs as they were judged when the runs were added, the newest run first.

        ``finding`` is ``regression``, ``improvement``, ``unchanged`` or ``no basis``; ``median`` is the median of
        the last ``like_runs`` comparable runs, ``tolerance_percent`` the permitted difference from it.  ``finding`` is
        missing for a run that has none of the figures.
        """
        check = REGRESSION_CHECK.c
        columns = (RUN.c.id.label("run"), *(RUN.c[name] for name in ("started", "test", "model", "serial", "firmware")))
        query: Select[Any] = (
            select(*columns, METRIC.c.metric, METRIC.c.at, METRIC.c.unit, FIGURE.c.value, check.median)
            .add_columns(check.tolerance, check.like_runs, check.finding)
            .outerjoin_from(RUN, REGRESSION_CHECK, RUN.c.id == check.run_id)
            .outerjoin(METRIC, METRIC.c.id == check.metric_id)
            .outerjoin(FIGURE, and_(FIGURE.c.run_id == check.run_id, FIGURE.c.metric_id == check.metric_id))
            .order_by(RUN.c.started.desc(), RUN.c.id.desc(), METRIC.c.id)
        )
        with self._reading() as connection:
            found = connection.execute(_filtered(query, where)).all()
            rows = []
            for *facts, value, median, tolerance, like_runs, finding in found:
                percent = (100 * (value - median) / median, 100 * tolerance / median) if median else (None, None)
                rows.append((*facts, value, median, *percent, like_runs, finding))
        names = [*(column.name for column in columns), *_REGRESSION]
        return _table("regressions", "Regressions and improvements", names, rows)

    def drives(self, where: Filter | None = None) -> Table:
        """Return the drives as a table: a row for each model, serial number and firmware.

        It has the number of its runs, the starts of the first and the last one, and the GB that all wrote together.
        """
        written = select(FIGURE.c.run_id, FIGURE.c.value.label("written_gb")).join(
            METRIC, and_(METRIC.c.id == FIGURE.c.metric_id, METRIC.c.metric == "written_gb")
        )
        figures = written.subquery()
        drive = (RUN.c.vendor, RUN.c.model, RUN.c.serial, RUN.c.firmware, RUN.c.capacity_bytes)
        query: Select[Any] = (
            select(
                *drive,
                func.count().label("runs"),
                func.min(RUN.c.started).label("first"),
                func.max(RUN.c.started).label("last"),
                func.sum(figures.c.written_gb).label("written_gb"),
                func.max(figures.c.written_gb).label(_GREATEST),
            )
            .outerjoin_from(RUN, figures, figures.c.run_id == RUN.c.id)
            .group_by(*drive)
            .order_by(RUN.c.model, RUN.c.serial, func.min(RUN.c.started), RUN.c.firmware)
        )
        with self._reading() as connection:
            found = connection.execute(_filtered(query, where))
            return _table("drives", "Drives", *_without_checks(found))

    def sql(self, statement: str) -> Table:
        """Return the result of one SELECT statement of yours, which the database performs without the right to write.

        Raises UsageError for another statement, one that fails, or two columns with one name.
        """
        with failures_named(self._url), read_only(self._engine) as connection:
            try:
                found = connection.exec_driver_sql(statement)
                names, rows = tuple(found.keys()) if found.returns_rows else (), found.fetchall()
            except (SQLAlchemyError, UnicodeEncodeError) as error:
                raise UsageError(detail=f"The statement failed: {cause(error)}.", hint=_ONE_SELECT) from None
        if len(set(names)) != len(names):
            raise UsageError(detail="Two columns have the same name.", hint="Name them: SELECT a.id AS run, ...")
        return _table("sql", "Result", names, [[_plain(value) for value in row] for row in rows])

    def tables(self, where: Filter | None = None) -> dict[str, Table]:
        """Return everything about the runs as tables, by name: ``runs``, ``figures``, ``determinations``, ..."""
        found = {"runs": self.runs(where), "figures": self.figures(where), "regressions": self.regressions(where)}
        with self._reading() as connection:
            for name, title, table in _TABLES_OF_RUN:
                columns = [column.label("run" if column.name == "run_id" else column.name) for column in table.c]
                query = select(*columns).join_from(RUN, table, table.c.run_id == RUN.c.id)
                query = _filtered(query, where).order_by(*table.primary_key.columns)
                found[name] = _table(name, title, [column.name for column in columns], connection.execute(query).all())
        return found

    def _require_metric(self, connection: Connection, metric: str, at: str) -> None:
        """Raise UsageError if no run has the metric at the point."""
        metrics = connection.execute(select(METRIC.c.metric).distinct().order_by(METRIC.c.metric)).scalars().all()
        one_of(metric, metrics, "metric")
        query = select(METRIC.c.at).where(METRIC.c.metric == metric).distinct().order_by(METRIC.c.at)
        points = connection.execute(query).scalars().all()
        one_of(at, points, f"point of {metric}")

    def run(self, number: int) -> dict[str, Table]:
        """Return everything about a run, by the name of its table: ``run``, ``figures``, ``determinations``, ...

        Raises UsageError if the store has no such run.
        """
        its = Filter(number=number)
        with self._reading() as connection:
            found = connection.execute(_filtered(select(RUN), its))
            tables = {"run": _table("run", "Run", tuple(found.keys()), found.all())}
            if not len(tables["run"]):
                raise _no_run(number)
            for name, title, table in _TABLES_OF_RUN:
                columns = [column for column in table.c if column.name not in ("run_id", "number")]
                query = select(*columns).where(table.c.run_id == number).order_by(*table.primary_key.columns)
                tables[name] = _table(name, title, [column.name for column in columns], connection.execute(query).all())
        tables["figures"] = self.figures(its)
        checks = self.regressions(its).columns
        judged = {name: checks[name] for name in _REGRESSION if checks["finding"] != (None,)}
        tables["regressions"] = Table(name="regressions", title="Regressions and improvements", columns=judged)
        return tables

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with failures_named(self._url), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with failures_named(self._url), self._engine.connect().execution_options(writes=False) as connection:
            yield connection


def _no_run(number: int) -> UsageError:
    return UsageError(detail=f"The store has no run {number}.", hint="snia-pts store list shows all.")


def _location(stored: object) -> Path:
    """Return a path of the store; raises RecordError if it cannot be one: SQLite does not check types."""
    if not isinstance(stored, str) or "\0" in stored:
        raise RecordError(path=repr(stored), reason="it is not a path", hint="Add the run again.")
    return Path(stored)


def _current_source(run: Any) -> Path:
    """Return where a run is now: its folder, or its archive if the folder is gone; raises RecordError."""
    path = _location(run.folder)
    if run.archive and not (run.folder and RunFolder(path=path).journal.exists()):
        return _verified_archive(run)
    return path


def _verified_archive(run: Any) -> Path:
    """Return the archive of a run; raises RecordError unless it is the one that was stored."""
    archive = _location(run.archive)
    if digest(archive) != run.archive_sha256:
        reason = "its SHA-256 differs from the one in the store"
        raise RecordError(path=archive, reason=reason, hint="Restore it from a backup.")
    return archive


def _of_metric(query: Select[Any], metric: str | None, at: str | None = None) -> Select[Any]:
    """Return a query of figures with their runs and metrics, of one metric, and at one point, if these are given.

    The tests of a run and its metrics are always equal; that they are lets the database look up only these metrics.
    """
    its_metric = and_(FIGURE.c.metric_id == METRIC.c.id, METRIC.c.test == RUN.c.test)
    query = query.join_from(FIGURE, RUN, FIGURE.c.run_id == RUN.c.id).join(METRIC, its_metric)
    for column, value in ((METRIC.c.metric, metric), (METRIC.c.at, at)):
        query = query if value is None else query.where(column == value)
    return query


def _steady(query: Select[Any], metric: str | None, at: str | None = None) -> Select[Any]:
    """Return a query of the steady figures of finished runs."""
    return _of_metric(query, metric, at).where(RUN.c.ending == "finished", IS_STEADY)


def _filtered(query: Select[Any], where: Filter | None) -> Select[Any]:
    if where is None:
        return query
    if where.number is not None:
        query = query.where(RUN.c.id == where.number)
    if where.like is not None:
        other = RUN.alias()
        query = query.where(
            RUN.c.spec_sha256 == select(other.c.spec_sha256).where(other.c.id == where.like).scalar_subquery()
        )
    for name in ("test", "model", "serial", "firmware", "host"):
        if (value := getattr(where, name)) is not None:
            query = query.where(RUN.c[name] == value)
    if where.since is not None:
        query = query.where(RUN.c.started >= _time(where.since))
    if where.before is not None:
        query = query.where(RUN.c.started < _time(where.before))
    for name, value in (where.labels or {}).items():
        labelled = select(LABEL.c.run_id).where(LABEL.c.name == name, LABEL.c.value == value)
        query = query.where(RUN.c.id.in_(labelled))
    return query


def _time(text: str) -> str:
    """Return a time as the store has it; raises UsageError if it is not ISO 8601."""
    try:
        return in_utc(text)
    except ValueError:
        hint = "For example 2026-01-31, or 2026-01-31T18:00+01:00."
        raise UsageError(detail=f"{text!r} is not a time in ISO 8601.", hint=hint) from None


def _plain(value: Any) -> Any:
    """Return a value of any database as one of a table; binary values as hexadecimal digits."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        return float(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _without_checks(found: Result[Any]) -> tuple[tuple[str, ...], list[Sequence[Any]]]:
    """Return the columns and rows of a query without those that are only checked."""
    columns = tuple(found.keys())
    names = tuple(name for name in columns if name not in _CHECKED)
    return names, [row[: len(names)] for row in found]


def _table(name: str, title: str, columns: Sequence[str], found: Sequence[Sequence[Any]]) -> Table:
    values = zip(*found, strict=True) if found else ((),) * len(columns)
    return Table(name=name, title=title, columns=dict(zip(columns, values, strict=True)))
