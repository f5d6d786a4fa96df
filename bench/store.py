"""CPU time of ingestion and queries of a store, and its size, with many runs.

``python bench/store.py [--database sqlite|postgresql] [--runs 10000] [--added 1000] [--base DIR]`` starts a private
PostgreSQL server, which does not sync its files, if that is chosen, and prints:

* ingestion of copies of the run folders of the tests, with other starts: CPU time of this process for each, and that
  beyond reading and judging its journal; then of all again, with the number of runs that changed;
* with ``--runs`` runs, copies of the rows of a whole run of each test on a simulated drive (in DIR, unless it has them)
  with other starts, units, firmwares and scattered figures: the size, and the CPU time of this process for the newest
  runs, a trend, a spread, and the judgement of a new run.

Measured on two busy cores: runs added, 6.2 to 6.6 ms CPU each beyond reading and judging with SQLite, 10.6 to 13.4 ms
with PostgreSQL; of all again none changed.  With 10 000 runs (1 633 332 figures; 146 MB with SQLite, 341 with
PostgreSQL), the CPU time of this process with SQLite and with PostgreSQL: 1.1 and 1.5 ms for the newest runs, 10.8 and
5.0 ms for a trend, 48 and 13 ms for a spread of one metric at 56 points over the units of a model, 3.8 and 6.7 ms for
the judgement of a new run.  At the same bytes a run, 1 M runs need 15 GB with SQLite and 34 GB with PostgreSQL.
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

from sqlalchemy import func, insert, select, text

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
#: Copies of the rows of a run; the figures are scattered by 2 % between runs, and by up to 4 % between metrics.
_COPIES = (
    text(
        "INSERT INTO figure SELECT :new, metric_id, "
        "value * (:factor + (metric_id * 7919 + :new * 104729) % 1000 / 25000.0), steady, rounds "
        "FROM figure WHERE run_id = :old"
    ),
    text(
        "INSERT INTO regression_check SELECT :new, metric_id, finding, like_runs, median, tolerance "
        "FROM regression_check WHERE run_id = :old"
    ),
    text(
        "INSERT INTO determination SELECT :new, number, series, variable, average, data_excursion_percent, "
        "slope_excursion_percent, steady FROM determination WHERE run_id = :old"
    ),
)


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


def identity(number: int, source: random.Random) -> dict[str, Any]:
    """Return what makes a run another one: unit, firmware and day."""
    model, unit = number % _MODELS, number // _MODELS % _UNITS
    return {
        "key": sha256(str(number).encode()).hexdigest(),
        "started": (_START + timedelta(hours=number)).isoformat(timespec="milliseconds"),
        "model": f"Model {model}",
        "serial": f"S{model}-{unit:03}",
        "firmware": f"7.{source.randrange(_FIRMWARES)}",
    }


def fill(store: Store, bases: Sequence[Rows], count: int) -> None:
    """Add runs to an empty store: the bases, then copies of their rows with other identities and scattered figures."""
    source = random.Random(1)
    with store._transaction() as connection:
        originals = [ingestion.write(connection, rows, None) for rows in bases]
        runs = {run.id: run._asdict() for run in connection.execute(select(RUN).where(RUN.c.id.in_(originals)))}
        for number in range(count - len(bases)):
            original = originals[number // _MODELS % len(originals)]
            run = {**runs[original], **identity(number, source), "id": len(bases) + 1 + number}
            connection.execute(insert(RUN), run)
            names = {"new": run["id"], "old": original, "factor": source.gauss(1, 0.02)}
            for copy in _COPIES:
                connection.execute(copy, names)
    if store._engine.dialect.name == "postgresql":
        with store._transaction() as connection:
            connection.execute(text("SELECT setval('run_id_seq', (SELECT max(id) FROM run))"))


def show_queries(store: Store, bases: Sequence[Rows], count: int) -> None:
    """Fill the store, and time the queries."""
    fill(store, bases, count)
    with store._transaction() as connection:
        connection.execute(text("ANALYZE"))
        figures = connection.execute(select(func.count()).select_from(FIGURE)).scalar_one()
        if store._engine.dialect.name == "sqlite":
            size = connection.execute(text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"))
        else:
            size = connection.execute(text("SELECT pg_database_size(current_database())"))
        size_mb = float(size.scalar_one()) / 1e6
    print(f"  {count} runs, {figures} figures: {size_mb:.0f} MB", flush=True)
    newest = (_START + timedelta(hours=count - len(bases) - 51)).isoformat()
    iops = next(rows for rows in bases if rows.run["test"] == "iops")
    new = replace(iops, run={**iops.run, **identity(count, random.Random(2))})
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
            show_queries(store, [rows for rows in bases if rows], arguments.runs)
            with store._transaction() as connection:
                connection.execute(RUN.delete())
            show_ingestion(store, brief, place / "copies", arguments.added)


if __name__ == "__main__":
    main()
