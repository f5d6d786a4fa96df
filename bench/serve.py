"""CPU time and size of the pages and the metrics of ``snia-pts serve`` for many drives under test.

``python bench/serve.py [--drives 2000] [--times 5]`` shows a lab that has a run in progress on each drive, all of which
change with each snapshot, and prints the median CPU time of a request.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from statistics import median

from starlette.testclient import TestClient

from snia_pts.runner.live import Determination, LiveState, TrackedVariable
from snia_pts.web.application import make_application
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.model import DriveView, RunView, Snapshot

_WINDOW = Determination(
    first_round=2,
    last_round=6,
    steady=False,
    average=2e5,
    data_excursion_percent=23.0,
    allowed_data_excursion_percent=20.0,
    slope_excursion_percent=4.0,
    allowed_slope_excursion_percent=10.0,
    slope=1.0,
    intercept=2e5,
)


class _Lab(FolderSource):
    """A source whose snapshots have a run in progress on each drive, with other values each time."""

    has_lab = True

    def __init__(self, drives: int) -> None:
        super().__init__(Path.cwd())
        now = datetime.now().astimezone().isoformat()
        variables = tuple(
            TrackedVariable(
                series="",
                variable=f"RND 4 KiB {mix}",
                metric="iops",
                unit="IOPS",
                rounds=tuple(range(1, 7)),
                values=(2e5,) * 6,
                determination=_WINDOW,
            )
            for mix in ("0/100", "65/35", "100/0")
        )
        live = LiveState(
            position="Round 7, point 2 of 56",
            step="Round 7",
            point=2,
            points=56,
            round_number=7,
            round_maximum=25,
            least_seconds_left=7200.0,
            most_seconds_left=70000.0,
            iops=2e5,
            celsius=48.0,
            watts=9.0,
            written_bytes=10**12,
            variables=variables,
            progress=0.3,
            longest_step_seconds=3600.0,
        )
        self._tested_drives = [
            DriveView(
                id=f"S{number:05}",
                model="EXAMPLE NVMe",
                capacity_bytes=10**12,
                kind="drive",
                state="running",
                host=f"h{number % 100}",
                celsius=48.0,
                run=f"r{number}",
                runs=1,
            )
            for number in range(drives)
        ]
        self._runs_in_progress = [
            RunView(
                id=drive.run,
                folder=f"/runs/{drive.run}",
                state="running",
                test="iops",
                title="IOPS Test",
                drive=f"{drive.model}, serial {drive.id}",
                drive_id=drive.id,
                host=drive.host,
                started=now,
                updated=now,
                live=live,
            )
            for drive in self._tested_drives
        ]
        self._points = count()
        self._live = live

    def snapshot(self) -> Snapshot:
        """Return the next snapshot."""
        live = replace(self._live, iops=2e5 + next(self._points), celsius=48.0 + next(self._points) % 9)
        return Snapshot(
            time=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            runs=tuple(replace(run, live=live) for run in self._runs_in_progress),
            drives=tuple(replace(drive, celsius=live.celsius) for drive in self._tested_drives),
        )


def cpu_ms(action: Callable[[], object], times: int) -> float:
    """Return the median CPU time of an action, with that of all threads, in ms."""
    spent = []
    for _ in range(times):
        began = time.process_time()
        action()
        spent.append((time.process_time() - began) * 1000)
    return median(spent)


def main() -> None:
    """Measure each address."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drives", type=int, default=2000)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    source = _Lab(arguments.drives)
    print(f"snapshot: {cpu_ms(source.snapshot, arguments.times):.0f} ms")
    with TestClient(make_application(source)) as client:
        for address in ("/", "/runs", "/metrics"):
            size = len(client.get(address).content)
            spent = cpu_ms(lambda address=address: client.get(address), arguments.times)  # type: ignore[misc]
            print(f"{address}: {spent:.0f} ms, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
