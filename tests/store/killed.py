"""An ingester in a process of its own, which can be killed anywhere, and the content of a store without its numbers."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snia_pts.store.schema import METADATA
from snia_pts.store.store import Store

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.store.killed"])


def ingest(url: str, folders: Sequence[Path]) -> None:
    """Add runs, each with a label, in their order."""
    with Store(url, create=True) as store:
        for folder in folders:
            store.add(folder, {"folder": folder.name})


def kill_until_done(url: str, folders: Sequence[Path], source: random.Random, seconds: float) -> int:
    """Kill the ingester at random times within ``seconds``, and start it again, until it ends; return the kills."""
    kills = 0
    while True:
        ingester = _CONTEXT.Process(target=ingest, args=(url, folders))
        ingester.start()
        ingester.join(source.uniform(0, seconds))
        if ingester.exitcode is None:
            ingester.kill()
            ingester.join()
        if ingester.exitcode == 0:
            return kills
        assert ingester.exitcode == -9, "the ingester failed"
        kills += 1


def clean_seconds(url: str, folders: Sequence[Path]) -> float:
    """Return the time of an ingestion that nothing kills."""
    began = time.monotonic()
    ingester = _CONTEXT.Process(target=ingest, args=(url, folders))
    ingester.start()
    ingester.join()
    assert ingester.exitcode == 0
    return time.monotonic() - began


def content_by_name(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a store by table, with the names of runs and metrics instead of their numbers.

    A server does not use the number of a row again whose transaction was rolled back.
    """
    with store._engine.connect() as connection:
        rows = {
            table.name: [row._asdict() for row in connection.execute(table.select())]
            for table in METADATA.sorted_tables
        }
    names = {
        "run_id": {row["id"]: row["key"] for row in rows["run"]},
        "metric_id": {row["id"]: (row["test"], row["metric"], row["at"]) for row in rows["metric"]},
    }
    return {
        table: sorted(
            (
                tuple(
                    names[column][value] if column in names else value
                    for column, value in row.items()
                    if column != "id"
                )
                for row in table_rows
            ),
            key=repr,
        )
        for table, table_rows in rows.items()
    }
