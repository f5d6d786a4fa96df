"""The results in a store, as the pages and the API show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ..store.store import Filter, Store
from ..text import printable
from .model import ResultQuery, ResultView

_TEXTS = ("test", "model", "serial", "firmware", "started", "verdict", "folder")


def stored_results(url: str, query: ResultQuery) -> Sequence[ResultView]:
    """Return the results of a store that match a query, the newest first; raises StoreError and UsageError."""
    where = Filter(**{name: value for name, value in asdict(query).items() if value})
    with Store(url) as store:
        table = store.runs(where)
    columns = table.columns
    return tuple(
        ResultView(
            number=int(str(columns["id"][row])),
            conformant=bool(columns["conformant"][row]),
            **{name: printable(str(columns[name][row] or "")) for name in _TEXTS},
        )
        for row in range(len(table))
    )
