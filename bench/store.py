"""CPU time of ingestion and queries of a store, and its size, with many runs.

``python bench/store.py [--database sqlite|postgresql] [--runs 10000] [--added 1000] [--base DIR]`` starts a private
PostgreSQL server, which does not sync its files, if that is chosen, and prints:

* ingestion of copies of the run folders of the tests, with other starts: CPU time of this process for each, and that
  beyond reading and judging its journal; then of all again, with the number of runs that changed;
* with ``--runs`` runs, made from the rows of a whole run of each test on a simulated drive (in DIR, unless it has them)
  with other starts, units, firmwares and scattered figures: the size, and the CPU time of this process for the newest
  runs, a trend, a spread, and the judgement of a new run.

Measured on two busy cores, 80 runs added: 7.3 ms CPU each beyond reading and judging with SQLite, 15.7 ms with
PostgreSQL.  With 3000 runs (490 500 figures, 96 MB) on PostgreSQL: 1.4 ms CPU for the newest runs, 2.3 ms for a trend,
12.7 ms for a spread, 10.3 ms for the judgement of a new run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent.parent))

from sqlalchemy import func, select, text

from snia_pts.record.entries import AFTER, BEFORE, line
from snia_pts.store import ingestion
from snia_pts.store.ingestion import Rows
from snia_pts.store.schema import FIGURE, METADATA, RUN
from snia_pts.store.store import Filter, Store
from tests.store import postgresql
from tests.test_run_folders import unpacked

_TESTS = ("iops", "throughput", "latency", "wsat", "hir", "xsr", "composite", "dirth")
_START = datetime(2020, 1, 1, tzinfo=UTC)
_UNITS, _FIRMWARES, _MODELS = 30, 7, 5
_AT = "RND 4 KiB 0/100"
_REPEATS = 9


def make_runs(base: Path) -> list[Path]:
    """Make a simulated run of each test, unless there is one; return their folders."""
    for test in _TESTS:
        if not (base / test).exists():
            words = (test, "sim:enterprise-nvme", "--seed", "1", "--to", "none", "--progress", "none")
            command = (sys.executable, "-m", "snia_pts", *words, "--run-dir", str(base / test))
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [base / test for test in _TESTS]


def copy_run(folder: Path, target: Path, hours: int) -> None:
    """Copy a run folder; its start is another one, so it is another run."""
    shutil.copytree(folder, target, copy_function=os.link, ignore=shutil.ignore_patterns("journal.jsonl", "result.xml"))
    checksum, lines = 0, []
    for number, written in enumerate((folder / "journal.jsonl").open("rb")):
        payload = written[BEFORE:-AFTER]
        if number == 0:
            entry = json.loads(payload)
            started = datetime.fromisoformat(entry["facts"]["started"]) - timedelta(hours=hours)
            entry["facts"]["started"] = started.isoformat(timespec="milliseconds")
            payload = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode()
        checksum = zlib.crc32(payload, checksum)
        lines.append(line(checksum, payload))
    (target / "journal.jsonl").write_bytes(b"".join(lines))


def cpu_ms(call: Callable[[], object]) -> float:
    """Return the CPU time of a call in this process, in milliseconds."""
    began = time.process_time()
    call()
    return 1000 * (time.process_time() - began)


def show_ingestion(store: Store, folders: Sequence[Path], place: Path, count: int) -> None:
    """Add copies of the runs, twice."""
    copies = [place / f"{number:06}" for number in range(count)]
    for number, copy in enumerate(copies):
        copy_run(folders[number % len(folders)], copy, number + 1)
    reading_ms = 0.0

    def timed_read(*arguments: Any) -> Any:
        nonlocal reading_ms
        began = time.process_time()
        found = ingestion.read(*arguments)
        reading_ms += 1000 * (time.process_time() - began)
        return found

    with patch("snia_pts.store.store.read", timed_read):
        adding_ms = cpu_ms(lambda: [store.add(copy) for copy in copies])
    writing_ms = (adding_ms - reading_ms) / count
    print(f"  {count} runs added: {adding_ms / count:.1f} ms CPU each, {writing_ms:.1f} of it beyond reading")
    before = count_rows(store)
    changes: list[str] = []
    again_ms = cpu_ms(lambda: changes.extend(store.add(copy) for copy in copies)) / count
    changed = sum(change != "unchanged" for change in changes)
    same = "the same" if count_rows(store) == before else "OTHER"
    print(f"  all again: {changed} changed, {same} numbers of rows, {again_ms:.1f} ms CPU each", flush=True)


def count_rows(store: Store) -> dict[str, int]:
    with store._engine.connect() as connection:
        counted = {table.name: select(func.count()).select_from(table) for table in METADATA.sorted_tables}
        return {name: connection.execute(query).scalar_one() for name, query in counted.items()}


def synthetic(rows: Rows, number: int, source: random.Random) -> Rows:
    """Return the rows of another run like this one: of another unit, firmware and day, with scattered figures."""
    model, unit = number % _MODELS, number // _MODELS % _UNITS
    run: dict[str, Any] = {
        **rows.run,
        "key": sha256(str(number).encode()).hexdigest(),
        "started": (_START + timedelta(hours=number)).isoformat(timespec="milliseconds"),
        "model": f"Model {model}",
        "serial": f"S{model}-{unit:03}",
        "firmware": f"7.{source.randrange(_FIRMWARES)}",
    }
    figures = []
    for figure, row in rows.figures:
        value = figure.value * source.gauss(1, 0.02)
        figures.append((replace(figure, value=value), {**row, "value": value}))
    return replace(rows, run=run, figures=tuple(figures))


def show_queries(store: Store, bases: Sequence[Rows], count: int) -> None:
    """Fill the store, and time the queries."""
    source = random.Random(1)
    began, number = time.process_time(), 0
    while number < count:
        with store._transaction() as connection:
            for _ in range(100):
                ingestion.write(connection, synthetic(bases[number // _MODELS % len(bases)], number, source), None)
                number += 1
    filled = time.process_time() - began
    with store._transaction() as connection:
        connection.execute(text("ANALYZE"))
        figures = connection.execute(select(func.count()).select_from(FIGURE)).scalar_one()
        if store._engine.dialect.name == "sqlite":
            size = connection.execute(text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"))
        else:
            size = connection.execute(text("SELECT pg_database_size(current_database())"))
        size_mb = float(size.scalar_one()) / 1e6
    print(f"  {count} runs, {figures} figures: {size_mb:.0f} MB, {1000 * filled / count:.1f} ms CPU a run to write")
    newest = (_START + timedelta(hours=count - 51)).isoformat()
    new = synthetic(next(rows for rows in bases if rows.run["test"] == "iops"), count, source)
    queries: dict[str, Callable[[], object]] = {
        "list of the newest 50 runs": lambda: store.runs(Filter(since=newest)),
        "trend of a metric of a model over firmwares": lambda: store.trend(
            "iops", at=_AT, where=Filter(model="Model 0")
        ),
        "spread of a metric over the units of a model": lambda: store.spread(
            "Model 0", metric="iops", where=Filter(test="iops")
        ),
        "judgement of a new run of IOPS": lambda: judge(store, new),
        "regressions of the newest 50 runs": lambda: store.regressions(Filter(since=newest)),
    }
    for name, query in queries.items():
        times = sorted(cpu_ms(query) for _ in range(_REPEATS))
        print(f"  {name}: {statistics.median(times):.1f} ms CPU (median of {_REPEATS}, maximum {times[-1]:.1f})")


def judge(store: Store, new: Rows) -> None:
    """Judge a run as if it were added."""
    with store._reading() as connection:
        metrics = ingestion._metric_ids(connection, new)
        assert len(ingestion._regression_checks(connection, new, 0, metrics)) == 6


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--added", type=int, default=1000)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as servers:
        place = Path(name)
        url = str(place / "store")
        if arguments.database == "postgresql":
            url = servers.enter_context(postgresql.server())
        bases = [ingestion.read(folder, lambda _: False)[1] for folder in make_runs(arguments.base or place / "base")]
        brief = [unpacked(test, place) for test in _TESTS]
        with Store(url, create=True) as store:
            show_ingestion(store, brief, place / "copies", arguments.added)
            with store._transaction() as connection:
                connection.execute(RUN.delete())
            show_queries(store, [rows for rows in bases if rows], arguments.runs)


if __name__ == "__main__":
    main()
