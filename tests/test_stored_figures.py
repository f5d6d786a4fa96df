"""The figures of a stored run, read through the library, are those of ``assess --json``, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import snia_pts
from snia_pts.model.measurement import mean
from tests.command_line import assessed
from tests.simulated_runs import ALL, FEW, BriefRun

_RUNS = [pytest.param(run, marks=() if run in FEW else pytest.mark.long, id="-".join(run)) for run in ALL]
_AXES = (("block_size_bytes", "read_percent"), ("thread_count", "queue_depth"))


def plain(value: Any) -> Any:
    """Return a value of which only equal bits are equal: a number in hexadecimal form, a missing one as None."""
    if value is None or isinstance(value, bool | str):
        return value
    return float(value).hex() if math.isfinite(value) else None


def all_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items() if not isinstance(value, list | tuple)}


def rows(table: snia_pts.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table's array."""
    for row in table.values:
        yield {name: plain(value) for name, value in zip(table.columns, row.item(), strict=True)}


@pytest.mark.long_but_first
@pytest.mark.parametrize("brief", _RUNS)
def test_figures_are_those_of_assess(brief: BriefRun, tmp_path: Path) -> None:
    """Verdict, points, determinations, series, matrices and key figures have the same values."""
    brief.make(tmp_path / "run")
    document, run = assessed(tmp_path / "run"), snia_pts.load(tmp_path / "run")
    assert run.ending == {"stopped": "interrupted"}.get(brief.fate, "finished")
    assert len(run.result.interruptions) == (brief.fate == "resumed")

    check_run(document, run)
    check_points(document, run)
    check_series(document, run)
    for loop in document["loops"]:
        check_matrices(loop, run)


def check_run(document: dict[str, Any], run: snia_pts.Run) -> None:
    """Compare the verdict, deviations, warnings and determinations."""
    figures = {name: getattr(run, name) for name in ("test", "verdict", "steady", "conformant", "ending")}
    figures |= {"written_bytes": run.result.written_bytes, "read_bytes": run.result.read_bytes}
    assert all_plain(figures) == {name: plain(document[name]) for name in figures}
    for name in ("deviations", "settings", "warnings"):
        assert list(rows(run.table(name))) == list(map(all_plain, document[name]))
    judged = [part for part in (document["sampling"], *document["loops"]) if part]
    states = [state for part in judged for state in part["determinations"]]
    assert [all_plain(asdict(item.state)) for item in run.determinations] == [
        {name: value for name, value in all_plain(state).items() if name in asdict(item.state)}
        for state, item in zip(states, run.determinations, strict=True)
    ]
    assert [list(window.numbers) for window in run.windows.values()] == [
        part["window"] for part in judged if part["window"]
    ]


def check_points(document: dict[str, Any], run: snia_pts.Run) -> None:
    """Compare the points of the windows with the table of points."""
    expected = [{"part": loop["part"], **all_plain(point)} for loop in document["loops"] for point in loop["points"]]
    actual = list(rows(run.table("points")))

    assert [{name: row[name] for name in point} for row, point in zip(actual, expected, strict=True)] == expected


def check_series(document: dict[str, Any], run: snia_pts.Run) -> None:
    """Compare the totals of time lines with those of the series."""
    for line in document["time_lines"]:
        series = run.series(line["phase"], line["part"])
        assert len(series) == line["samples"]
        seconds, written = math.fsum(series["seconds"]), math.fsum(series["write_bytes"])
        ios = math.fsum(series["read_ios"]) + math.fsum(series["write_ios"])
        assert (plain(seconds), plain(written)) == (plain(line["io_seconds"]), plain(line["written_bytes"]))
        assert plain(max(series["maximum_response_us"], default=None)) == plain(line["maximum_response_us"])
        if seconds >= 0.1:
            assert plain(ios / seconds) == plain(line["iops"])


def check_matrices(loop: dict[str, Any], run: snia_pts.Run) -> None:
    """Compare every point with the matrix over the window, the mean of the rounds' matrix, and the key figure."""
    for point in loop["points"]:
        over_window, by_round = run.window_matrix("iops"), run.matrix("iops")
        axes = next(axes for axes in _AXES if axes[0] in over_window.axes)
        at = {axis: point[axis] for axis in axes}
        assert plain(over_window.at(**at)[()]) == plain(point["iops"])
        by_number = dict(zip(by_round.axes["round"], by_round.at(**at), strict=True))
        assert plain(mean(by_number[number] for number in loop["window"])) == plain(point["iops"])
        assert plain(point["iops"]) in key_figures(run, "iops")
        assert plain(point["average_response_us"] / 1000) in key_figures(run, "average_response_ms")


def key_figures(run: snia_pts.Run, metric: str) -> Iterable[str]:
    return {plain(figure.value) for figure in run.figures if figure.metric == metric}
