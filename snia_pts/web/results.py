"""The results in a store, as the pages and the API show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..api.tables import Table
from ..spec.reader import title_of
from ..store.database import failures_named
from ..store.statistics import groups_of
from ..store.store import Filter, Store
from ..text import printable
from .model import MetricView, ResultQuery, ResultView, SpreadView, TrendValue, TrendView

_TEXTS = ("test", "model", "serial", "firmware", "started", "verdict", "folder")


def stored_results(url: str, query: ResultQuery) -> Sequence[ResultView]:
    """Return the results of a store that match a query, the newest first; raises StoreError and UsageError."""
    with Store(url) as store:
        table = store.runs(_filter(query))
    return tuple(
        ResultView(
            number=int(row["id"]),
            title=title_of(str(row["test"]), str(row["revision"]).rpartition(" ")[2]),
            conformant=bool(row["conformant"]),
            **{name: str(row[name] or "") for name in _TEXTS},
        )
        for row in _rows(table)
    )


def stored_metrics(url: str) -> Sequence[MetricView]:
    """Return the metrics of a store, each at each of its points; raises StoreError."""
    with Store(url) as store:
        return tuple(MetricView(**row) for row in _rows(store.metrics()))


def stored_trend(url: str, query: ResultQuery, *, metric: str, at: str, by: str) -> TrendView:
    """Return a metric over the runs that match a query; raises StoreError, and UsageError for an unknown metric."""
    with Store(url) as store:
        table = store.trend_values(metric, at=at, by=by, where=_filter(query))
    with failures_named(url):
        groups = groups_of(table)
    rows = tuple(_rows(table))
    return TrendView(
        metric=metric,
        at=at,
        by=by,
        unit=rows[0]["unit"] if rows else "",
        groups=tuple(replace(group, name=printable(group.name)) for group in groups),
        values=tuple(
            TrendValue(number=row["run"], started=row["started"], group=str(row["group"]), value=row["value"])
            for row in rows
        ),
    )


def stored_spread(url: str, query: ResultQuery, *, metric: str) -> Sequence[SpreadView]:
    """Return the spread over the units of the model of a query; raises StoreError, and UsageError without figures."""
    with Store(url) as store:
        table = store.spread(query.model, metric=metric or None, where=_filter(query))
    return tuple(SpreadView(**row) for row in _rows(table))


def _filter(query: ResultQuery) -> Filter:
    return Filter(**{name: value for name, value in asdict(query).items() if value})


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table by column; every text is printable."""
    for row in zip(*table.columns.values(), strict=True):
        values = (printable(value) if isinstance(value, str) else value for value in row)
        yield dict(zip(table.columns, values, strict=True))
