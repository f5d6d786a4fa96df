"""The texts of the values that pages show: the same for a page and for the changes that are sent to it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import urlencode

from ..runner.live import LiveState, TrackedVariable
from ..text import json_values
from ..units import capacity, duration, number
from .model import DriveView, HostView, QueueEntry, RunView, Snapshot, TrendValue, TrendView

#: What is shown for a value that is unknown, or does not apply.
UNKNOWN = "\N{EN DASH}"
#: The maximum number of rows of a page of a list.
ROWS_PER_PAGE = 100
#: So many of the newest runs are on the first page.
LATEST_RUNS = 20


def left(run: RunView, now: datetime) -> str:
    """Return the bounds of the remaining time: ``2 h 10 min to 9 h 05 min``."""
    bounds = run.seconds_left(now)
    if bounds is None:
        return UNKNOWN
    return f"{' to '.join(dict.fromkeys(map(duration, bounds)))}{' (virtual)' if run.virtual else ''}"


def round_of(live: LiveState | None) -> str:
    """Return the round in progress: ``7 of at most 25``."""
    if live is None or live.round_number is None:
        return UNKNOWN
    return f"{live.round_number}" + (f" of at most {live.round_maximum}" if live.round_maximum else "")


def steadiness(live: LiveState) -> str:
    """Return the determination so far, of all variables of the last series together."""
    windows = [variable.determination for variable in live.latest_variables]
    if not windows or any(window is None for window in windows):
        return "too few rounds"
    steady = sum(window.steady for window in windows if window is not None)
    return "steady" if steady == len(windows) else f"not steady: {steady} of {len(windows)} variables are"


def state_text(run: RunView) -> str:
    """Return the state of a run: ``running, stops after this point``."""
    return f"{run.state}, stops after this point" if run.stopping else run.state


def run_cells(run: RunView, now: datetime) -> dict[str, str]:
    """Return the texts of a run."""
    live = run.live
    return {
        "state": state_text(run),
        "position": live.position if live and run.state == "running" else run.detail or run.verdict or UNKNOWN,
        "round": round_of(live),
        "left": left(run, now),
        "steadiness": steadiness(live) if live and live.variables else UNKNOWN,
        "iops": UNKNOWN if live is None or live.iops is None else number(live.iops),
        "celsius": UNKNOWN if live is None or live.celsius is None else f"{live.celsius:.0f} °C",
        "watts": UNKNOWN if live is None or live.watts is None else f"{number(live.watts)} W",
        "written": UNKNOWN if live is None else capacity(live.written_bytes) if live.written_bytes else "nothing",
        "updated": run.updated[:19].replace("T", " "),
    }


def drive_cells(drive: DriveView, run: RunView | None, now: datetime) -> dict[str, str]:
    """Return the texts of a drive with its run in progress, or the test and state of its last one.

    A drive that is held while a test is in progress is ``running``; ``hold`` then says that it is held, and why.
    """
    cells = run_cells(run, now) if run and run.in_progress else {}
    return {
        "state": drive.state,
        "hold": drive.held if drive.state == "held" or not drive.held else f"held: {drive.held}",
        "test": f"{run.title} ({run.state})" if run else UNKNOWN,
        "celsius": UNKNOWN if drive.celsius is None else f"{drive.celsius:.0f} °C",
        **{name: cells.get(name, UNKNOWN) for name in ("round", "left", "steadiness")},
    }


def summary(snapshot: Snapshot) -> str:
    """Return one line about all runs: ``2 running, 1 stopped, 14 finished``."""
    counts = Counter(run.state for run in snapshot.runs)
    states = sorted(counts, key=lambda state: (state != "running", state))
    return ", ".join(f"{counts[state]} {state}" for state in states) or "no run yet"


def queue_cells(entry: QueueEntry) -> dict[str, str]:
    """Return the texts of a run in the queue."""
    return {
        "state": entry.state,
        "position": str(entry.position),
        "waits": entry.waits_for or UNKNOWN,
        "priority": str(entry.priority),
    }


def host_cells(host: HostView) -> dict[str, str]:
    """Return the texts of a host."""
    seen = "never" if host.seconds_ago is None else f"{duration(host.seconds_ago)} ago"
    return {"state": host.state, "drives": str(host.drives), "version": host.version or UNKNOWN, "seen": seen}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of a list is shown: the entries with the text ``text`` and the state ``state``, and of these one page."""

    kind: Literal["drives", "runs", "queue", "hosts"]
    text: str = ""
    state: str = ""
    page: int = 1

    def query(self, page: int) -> str:
        """Return the query of the address of a page of the selection."""
        return urlencode({"q": self.text, "state": self.state, "page": page})

    @property
    def events(self) -> str:
        """The address of the changes of what is shown."""
        return f"/events?kind={self.kind}&{self.query(self.page)}"

    def listing(self, snapshot: Snapshot) -> Listing:
        """Return what is shown of a snapshot."""
        entries: Sequence[Any] = getattr(snapshot, self.kind)
        wanted = self.text.casefold()
        found = [
            entry
            for entry in entries
            if self.state in ("", entry.state) and (not wanted or wanted in _searched_text(entry).casefold())
        ]
        runs, now = {run.id: run for run in snapshot.runs}, datetime.fromisoformat(snapshot.time)
        shown = found[(self.page - 1) * ROWS_PER_PAGE : self.page * ROWS_PER_PAGE]
        latest = snapshot.runs[:LATEST_RUNS] if self.kind == "drives" else ()
        return Listing(
            selection=self,
            count=len(found),
            states=tuple(sorted({entry.state for entry in entries})),
            shown=shown,
            latest=latest,
            runs=runs,
            cells=dict(_keyed_cells(entry, runs, now) for entry in (*shown, *latest)),
            summary=summary(snapshot),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of a list: ``shown`` of ``count`` entries, and the latest runs, with their ``cells`` by key."""

    selection: Selection
    count: int
    states: tuple[str, ...]
    shown: Sequence[Any]
    latest: Sequence[RunView]
    runs: Mapping[str, RunView]
    cells: Mapping[str, dict[str, str]]
    summary: str

    @property
    def pages(self) -> int:
        """The number of pages."""
        return -(-self.count // ROWS_PER_PAGE) or 1

    @property
    def version(self) -> str:
        """A text that changes if other entries, or another form for a hold, are to be shown."""
        entries = (f"{key} {bool(texts.get('hold'))}" for key, texts in self.cells.items())
        return sha256("\n".join(entries).encode()).hexdigest()[:16]

    def rows(self) -> dict[str, str]:
        """Return the rows as JSON by key."""
        documents: list[dict[str, Any]] = [{"key": key, "cells": texts} for key, texts in self.cells.items()]
        documents.append({"key": "summary", "cells": {"text": self.summary}, "version": self.version})
        return {document["key"]: _json(document) for document in documents}


def _searched_text(entry: DriveView | RunView | QueueEntry | HostView) -> str:
    fields: tuple[str, ...]
    match entry:
        case DriveView():
            fields = (entry.id, entry.model, entry.host, entry.health, entry.held)
        case RunView():
            fields = (entry.id, entry.test, entry.title, entry.drive, entry.host, entry.verdict)
        case QueueEntry():
            fields = (entry.run, entry.drive_id, entry.model, entry.host, entry.test, entry.title, entry.submitter)
        case HostView():
            fields = (entry.name, entry.version)
    return "\n".join(fields)


def _keyed_cells(
    entry: DriveView | RunView | QueueEntry | HostView, runs: Mapping[str, RunView], now: datetime
) -> tuple[str, dict[str, str]]:
    match entry:
        case DriveView():
            return f"drive {entry.id}", drive_cells(entry, runs.get(entry.run), now)
        case RunView():
            return f"run {entry.id}", run_cells(entry, now)
        case QueueEntry():
            return f"queue {entry.run}", queue_cells(entry)
        case HostView():
            return f"host {entry.name}", host_cells(entry)


def run_version(run: RunView) -> str:
    """Return a text that changes if the page of a run must be loaded again: when it starts, stops or ends."""
    return f"{state_text(run)} {run.started}"


def run_rows(run_id: str, snapshot: Snapshot) -> dict[str, str]:
    """Return the only row of the page of a run, with its rounds, as JSON by key."""
    run = next((run for run in snapshot.runs if run.id == run_id), None)
    if run is None:
        return {}
    variables = run.live.variables if run.live else ()
    key = f"run {run.id}"
    document = {
        "key": key,
        "cells": run_cells(run, datetime.fromisoformat(snapshot.time)),
        "version": run_version(run),
        "updated": run.updated,
        "tables": {f"rounds-{number}": round_table(item) for number, item in enumerate(variables)},
        "notes": {f"note-{number}": note(item) for number, item in enumerate(variables)},
        "charts": [chart(item) for item in variables],
    }
    return {key: _json(document)}


def round_table(variable: TrackedVariable) -> list[list[str]]:
    """Return the rows of the table of a tracked variable: round, value, whether it is in the window."""
    window = variable.determination
    return [
        [
            str(round_number),
            UNKNOWN if value is None else number(value),
            "yes" if window and window.first_round <= round_number <= window.last_round else "no",
        ]
        for round_number, value in zip(variable.rounds, variable.values, strict=True)
    ]


def note(variable: TrackedVariable) -> str:
    """Return the determination of a variable, and what would make it steady."""
    window = variable.determination
    if window is None:
        return f"Too few rounds for a window: {len(variable.rounds)} so far."
    if window.data_excursion_percent is None or window.slope_excursion_percent is None:
        return f"Rounds {window.first_round} - {window.last_round}: the window cannot be evaluated."
    limits = {
        "data excursion": (window.data_excursion_percent, window.allowed_data_excursion_percent),
        "slope excursion": (window.slope_excursion_percent, window.allowed_slope_excursion_percent),
    }
    texts = [f"{name} {value:.2f} % (at most {allowed:g} %)" for name, (value, allowed) in limits.items()]
    missed = [f"a {name} of at most {allowed:g} %" for name, (value, allowed) in limits.items() if value > allowed]
    verdict = "steady" if window.steady else f"not steady; it would be with {' and '.join(missed) or 'more fills'}"
    return f"Rounds {window.first_round} - {window.last_round}: {', '.join(texts)}: {verdict}."


def chart(variable: TrackedVariable) -> dict[str, Any]:
    """Return the values of the plot of a tracked variable: rounds, best fit and limits in the window."""
    window = variable.determination
    plot: dict[str, Any] = {
        "title": variable.title,
        "unit": variable.unit,
        "rounds": variable.rounds,
        "values": variable.values,
    }
    if window is None or window.average is None or window.slope is None or window.intercept is None:
        return plot
    inside = [window.first_round <= number <= window.last_round for number in variable.rounds]
    half = window.average * window.allowed_data_excursion_percent / 200

    def in_window(value: float) -> list[float | None]:
        return [value if within else None for within in inside]

    fit = [
        window.slope * number + window.intercept if within else None
        for number, within in zip(variable.rounds, inside, strict=True)
    ]
    lines = {"best fit": fit, "average": in_window(window.average)}
    lines |= {"upper limit": in_window(window.average + half), "lower limit": in_window(window.average - half)}
    return {**plot, "lines": lines}


def trend_chart(trend: TrendView, shown: Sequence[TrendValue]) -> dict[str, Any]:
    """Return the values of the plot of a trend: the shown runs, numbered, and the median of the group of each."""
    medians = {group.name: group.median for group in trend.groups}
    return {
        "title": trend.metric,
        "unit": trend.unit,
        "rounds": list(range(1, len(shown) + 1)),
        "values": [run.value for run in shown],
        "lines": {"median": [medians[run.group] for run in shown]},
    }


def percent(value: float | None) -> str:
    """Return a difference in percent, with its sign."""
    return UNKNOWN if value is None else f"{value:+.1f} %"


def _json(document: object) -> str:
    return json.dumps(json_values(document), separators=(",", ":"))
