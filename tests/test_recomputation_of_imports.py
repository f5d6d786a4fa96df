"""Every printed number of an imported run once more, from TKperf's file alone, by the second implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import main
from tests import tkperf_files
from tests.command_line import assessed
from tests.recomputation.matrices import over_window
from tests.recomputation.record import determination, rows, samples, series, values, window_rounds
from tests.recomputation.sentences import check_header, check_sentences, check_spans, required_sentences, windows
from tests.recomputation.tables import check_cells, unknown_tables
from tests.recomputation.tkperf import figures
from tests.test_recomputation import same

#: 151 minutes have six evaluated samples; with these IOPS the drive is full by then, with the helper's IOPS it is not.
_MINUTES = 151
_FAST = [[26_000 - number for number in range(_MINUTES)], [[3.0, 900.0 + number, 40.5] for number in range(_MINUTES)]]
_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "iops": ("iops", {"rounds": 7}),
    "iops-1.1": ("iops", {"version": "1.1"}),
    "iops-4096": ("iops", {"sector": 4096}),
    "iops-disputed": ("iops", {"changes": [("iops/stdyavg", 1234.5), ("iops/stdyslope", [70.5, 33_000.0])]}),
    "latency": ("lat", {"rounds": 8}),
    "throughput": ("tp", {"rounds": 6}),
    "wsat": ("writesat", {"rounds": _MINUTES}),
    "wsat-steady": ("writesat", {"rounds": _MINUTES, "changes": [("writesat/roundmat", _FAST)]}),
    "wsat-short": ("writesat", {"rounds": 130}),
}


pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture(scope="module", params=_FILES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported runs of each test that TKperf has."""
    kind, how = _FILES[request.param]
    place: Path = tmp_path_factory.mktemp("imported")
    (place / "f.xml").write_bytes(tkperf_files.ssd(kind, **how))
    assert main(["import", str(place / "f.xml"), "--run-dir", str(place / "run"), "--to", "csv,rst"]) == 0
    return place / "run"


def test_measurements_are_those_of_the_file(run: Path) -> None:
    """Each figure of the file is in the tables once, at its round, R/W mix and block size."""
    found = figures(run / "evidence" / "tkperf.xml")
    measured = rows(run, "measurements")
    assert len(measured) == len(found)
    for number, row in enumerate(measured, start=1):
        cell = found[int(row.get("round") or number), int(row["read_percent"]), int(row["block_size_bytes"])]
        same(values(row, "iops", "mb_per_second"), [cell["iops"], cell["mb_per_second"]])
        milliseconds = [value / 1000 for value in values(row, "average_response_us", "maximum_response_us")]
        same(milliseconds, [cell["average_ms"], cell["maximum_ms"]])


def test_samples_are_those_of_the_file(run: Path) -> None:
    """A sample's I/Os and bytes are its IOPS for a minute."""
    found = figures(run / "evidence" / "tkperf.xml")
    kept = samples(run, "", "stimulus")
    assert len(kept) in (0, len(found))
    for number, row in enumerate(kept, start=1):
        iops = found[number, 0, 4096]["iops"]
        same(values(row, "seconds", "ended_seconds"), [60, 60 * number])
        same(values(row, "write_ios", "write_bytes", "read_ios", "read_bytes"), [60 * iops, 4096 * 60 * iops, 0, 0])
        same(values(row, "iops", "average_response_us"), [iops, 1000 * found[number, 0, 4096]["average_ms"]])


def test_every_table_is_recomputed(run: Path) -> None:
    """There is a recomputation for every table of the report that has measured numbers."""
    assert not unknown_tables(run)


def test_printed_cells_are_those_of_the_file(run: Path) -> None:
    """Each cell of each table is the recomputed figure within half of its last digit, and no row is missing."""
    check_cells(run)


def test_printed_sentences_are_those_of_the_file(run: Path) -> None:
    """Figures in sentences, captions, titles and the header are recomputed, too, and spans of rounds are windows."""
    assert check_sentences(run) >= required_sentences(run)
    assert check_header(run) >= len(windows(run)) > 0
    check_spans(run)


@pytest.mark.long_but_first
def test_the_assessment_is_that_of_the_file(run: Path) -> None:
    """The windows and points of ``assess --json`` are those of the file."""
    assessment = assessed(run)
    judged = [part for part in (assessment["sampling"], *assessment["loops"]) if part]
    found = [item for part in judged for item in part["determinations"]]
    variables = [rounds for named in series(run).values() for rounds in named.values()]
    for figures_of, rounds in zip(found, variables, strict=True):
        again = determination(rounds, max(rounds), window_rounds(run))
        assert figures_of["steady"] == again.pop("steady")
        assert [figures_of[key] for key in again] == pytest.approx(
            list(again.values()), abs=1e-9 * max(rounds.values())
        )
    points = [point for loop in assessment["loops"] for point in loop["points"]]
    for point, row in zip(points, rows(run, "points"), strict=True):
        again = over_window(run, row)
        names = {"iops": "iops", "mb_per_second": "mb_per_second"}
        same([float("nan") if point[key] is None else point[key] for key in names], [again[key] for key in names])
