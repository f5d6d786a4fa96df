"""CPU time and size of the pages and the metrics of ``snia-pts serve`` for many drives under test.

``python bench/serve.py [--drives 2000] [--times 5] [--viewers 100]`` shows a lab that has a run in progress on each
drive.  It prints the median CPU time of a request, and the share of a core and the memory that viewers take: each keeps
the page of the drives or that of a run open, while each run has a new point every minute.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import count
from multiprocessing import Process
from pathlib import Path
from statistics import median
from threading import Thread

import uvicorn
from starlette.testclient import TestClient

from snia_pts.runner.live import Determination, LiveState, TrackedVariable
from snia_pts.web.application import make_application
from snia_pts.web.folder_source import FolderSource
from snia_pts.web.model import DriveView, RunView, Snapshot

#: The snapshots in a minute.
_SNAPSHOTS = 120
_WARM_UP_SECONDS, _SECONDS = 5.0, 30.0
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
    """A source whose snapshots have a run in progress on each drive, a part of them with other values each time."""

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
        """Return the next snapshot: the feed reads one every half second, and a point takes a minute."""
        number = next(self._points)
        live = replace(self._live, iops=2e5 + number, celsius=48.0 + number % 9)
        for index in range(number % _SNAPSHOTS, len(self._tested_drives), _SNAPSHOTS):
            self._runs_in_progress[index] = replace(self._runs_in_progress[index], live=live)
            self._tested_drives[index] = replace(self._tested_drives[index], celsius=live.celsius)
        return Snapshot(
            time=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            runs=tuple(self._runs_in_progress),
            drives=tuple(self._tested_drives),
        )


def cpu_ms(action: Callable[[], object], times: int) -> float:
    """Return the median CPU time of an action, with that of all threads, in ms."""
    spent = []
    for _ in range(times):
        began = time.process_time()
        action()
        spent.append((time.process_time() - began) * 1000)
    return median(spent)


async def _view(port: int, address: str) -> None:
    """Read the events of an address without end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    while await reader.read(1 << 20):
        pass
    raise ConnectionError(f"the server ended the events of {address}")


def _views(port: int, viewers: int) -> None:
    """Be the viewers: one half has the page of the drives open, the other half each a run."""
    addresses = ("/events?kind=drives" if number % 2 else f"/runs/r{number}/events" for number in range(viewers))

    async def view_all() -> None:
        await asyncio.gather(*(_view(port, address) for address in addresses))

    asyncio.run(view_all())


def measure_viewers(source: _Lab, viewers: int) -> tuple[float, float]:
    """Return the share of a core that viewers take, and the peak memory of the process in MiB."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(make_application(source), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        readers = Process(target=_views, args=(listener.getsockname()[1], viewers))
        readers.start()
        time.sleep(_WARM_UP_SECONDS)
        began, spent = time.monotonic(), time.process_time()
        time.sleep(_SECONDS)
        share = (time.process_time() - spent) / (time.monotonic() - began)
        if not readers.is_alive():
            raise SystemExit("the viewers ended early")
        readers.terminate()
        server.should_exit = server.force_exit = True
        thread.join()
    return share, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each address, and the viewers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drives", type=int, default=2000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--viewers", type=int, default=100)
    arguments = parser.parse_args()
    source = _Lab(arguments.drives)
    print(f"snapshot: {cpu_ms(source.snapshot, arguments.times):.0f} ms")
    with TestClient(make_application(source)) as client:
        for address in ("/", "/runs", "/metrics"):
            size = len(client.get(address).content)
            spent = cpu_ms(lambda address=address: client.get(address), arguments.times)  # type: ignore[misc]
            print(f"{address}: {spent:.0f} ms, {size / 1024:.0f} KiB")
    share, mebibytes = measure_viewers(source, arguments.viewers)
    print(f"{arguments.viewers} viewers: {share:.1%} of a core, {mebibytes:.0f} MiB")


if __name__ == "__main__":
    main()
