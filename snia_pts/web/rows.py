"""The texts of the values that pages show: the same for a page and for the changes that are sent to it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from ..runner.live import LiveState, TrackedVariable
from ..text import json_values
from ..units import capacity, duration, number
from .model import DriveView, RunView, Snapshot

#: What is shown for a value that is unknown, or does not apply.
UNKNOWN = "\N{EN DASH}"


def left(live: LiveState | None, *, virtual: bool) -> str:
    """Return the bounds of the remaining time: ``2 h 10 min to 9 h 05 min``."""
    if live is None or live.most_seconds_left is None:
        return UNKNOWN
    bounds = [live.most_seconds_left]
    if live.least_seconds_left is not None and live.least_seconds_left < live.most_seconds_left:
        bounds.insert(0, live.least_seconds_left)
    texts = dict.fromkeys(map(duration, bounds))
    return f"{' to '.join(texts)}{' (virtual)' if virtual else ''}"


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


def run_cells(run: RunView) -> dict[str, str]:
    """Return the texts of a run."""
    live = run.live
    return {
        "state": state_text(run),
        "position": live.position if live and run.state == "running" else run.detail or run.verdict or UNKNOWN,
        "round": round_of(live),
        "left": left(live, virtual=run.virtual) if run.state == "running" else UNKNOWN,
        "steadiness": steadiness(live) if live and live.variables else UNKNOWN,
        "iops": UNKNOWN if live is None or live.iops is None else number(live.iops),
        "celsius": UNKNOWN if live is None or live.celsius is None else f"{live.celsius:.0f} °C",
        "watts": UNKNOWN if live is None or live.watts is None else f"{number(live.watts)} W",
        "written": UNKNOWN if live is None else capacity(live.written_bytes) if live.written_bytes else "nothing",
        "updated": run.updated[:19].replace("T", " "),
    }


def drive_cells(drive: DriveView, run: RunView | None) -> dict[str, str]:
    """Return the texts of a drive with its run in progress, or its last one."""
    cells = run_cells(run) if run else {}
    return {
        "state": drive.state,
        "test": f"{run.title} ({run.state})" if run else UNKNOWN,
        "celsius": UNKNOWN if drive.celsius is None else f"{drive.celsius:.0f} °C",
        **{name: cells.get(name, UNKNOWN) for name in ("round", "left", "steadiness")},
    }


def summary(snapshot: Snapshot) -> str:
    """Return one line about all runs: ``2 running, 1 stopped, 14 finished``."""
    counts = Counter(run.state for run in snapshot.runs)
    states = sorted(counts, key=lambda state: (state != "running", state))
    return ", ".join(f"{counts[state]} {state}" for state in states)


def list_rows(snapshot: Snapshot) -> dict[str, str]:
    """Return the rows of the page of all drives and runs, as JSON by key."""
    runs = {run.id: run for run in snapshot.runs}
    cells = {f"drive {drive.id}": drive_cells(drive, runs.get(drive.run)) for drive in snapshot.drives}
    cells |= {f"run {run.id}": run_cells(run) for run in snapshot.runs}
    documents: list[dict[str, Any]] = [{"key": key, "cells": texts} for key, texts in cells.items()]
    documents.append({"key": "summary", "cells": {"text": summary(snapshot)}, "runs": len(snapshot.runs)})
    return {document["key"]: _json(document) for document in documents}


def run_rows(run_id: str, snapshot: Snapshot) -> dict[str, str]:
    """Return the only row of the page of a run, with its rounds, as JSON by key."""
    run = next((run for run in snapshot.runs if run.id == run_id), None)
    if run is None:
        return {}
    variables = run.live.variables if run.live else ()
    key = f"run {run.id}"
    document = {
        "key": key,
        "cells": run_cells(run),
        "ended": run.state not in ("running", "starting"),
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


def _json(document: object) -> str:
    return json.dumps(json_values(document), separators=(",", ":"))
